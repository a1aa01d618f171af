"""The user of this process, and which device files they may use."""

import dataclasses
import os
import sys

from provision.host.model import DeviceFile, Host, User
from provision.host.root import Machine, Root


def probe(machine: Machine, host: Host) -> Host:
    """Return the host with its user."""
    user = machine.user or this_user(group_names(machine.root))
    return dataclasses.replace(host, user=user)


def this_user(groups: dict[int, str]) -> User:
    """Return the user of this process."""
    if sys.platform == "win32":
        # Windows has no permissions on device files.
        return User(os.environ.get("USERNAME", ""), 0)
    # getgroups() need not contain the effective group (POSIX).
    gids = sorted({os.getegid(), *os.getgroups()})
    names = tuple(groups.get(gid, str(gid)) for gid in gids)
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or str(os.geteuid())
    return User(user, os.geteuid(), tuple(gids), names)


def group_names(root: Root) -> dict[int, str]:
    """Return the names of the groups in ``/etc/group`` by their number."""
    names: dict[int, str] = {}
    for line in root.text("etc/group", 1 << 20).splitlines():
        fields = line.split(":")
        if len(fields) == 4 and fields[2].isdecimal():
            names.setdefault(int(fields[2]), fields[0])
    return names


def node(root: Root, path: str, user: User, groups: dict[int, str]) -> DeviceFile:
    """Return a device file with whether ``user`` may read and write it."""
    file = root.path / path.lstrip("/")
    try:
        status = file.stat()
    except (OSError, ValueError):
        return DeviceFile(path, present=False, usable=False)
    # Permission bits are not all: on a desktop, logind gives the user of the seat an access list
    # entry. Only the kernel knows both, and only of the running machine.
    usable = os.access(file, os.R_OK | os.W_OK) if root.live else may_use(status, user)
    group = groups.get(status.st_gid, str(status.st_gid))
    return DeviceFile(path, group, usable=usable)


def may_use(status: os.stat_result, user: User) -> bool:
    """Whether the permission bits let a user read and write a file."""
    if user.uid == 0:
        return True
    mode = status.st_mode  # its last bits say what others may
    if user.uid == status.st_uid:
        mode = status.st_mode >> 6
    elif status.st_gid in user.gids:
        mode = status.st_mode >> 3
    return mode & 0o6 == 0o6
