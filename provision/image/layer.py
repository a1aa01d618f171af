"""Write a layer of an image in one order.

Docker's engine lists a layer folder by folder, or sorted by whole paths: "a-1/x" comes before "a/x"
in the second order only. The order depends on whether the engine finds the layer below among those
of earlier images, and on which of two concurrent tasks ends first (``EnsureLayer`` in
``builder/builder-next/adapters/snapshot/layer.go`` of moby/moby, and ``Diff`` of its overlay2).
"""

import stat
import tarfile
from typing import IO

# Where a tar file has extended attributes, such as capabilities.
_ATTRIBUTE = "SCHILY.xattr."


def write_sorted(layer: IO[bytes], target: IO[bytes]) -> None:
    """Write the entries of a layer folder by folder, each with the same headers every time."""
    with (
        tarfile.open(fileobj=layer, mode="r:") as source,
        tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as made,
    ):
        members = source.getmembers()
        named = {member.name: member for member in members}
        # Of each content's own name, the name to write it under.
        first: dict[str, str] = {}
        for member in sorted(members, key=_folder_order):
            entry = _plain_header(member)
            content = member
            while content.islnk():
                content = named[content.linkname]
            # Such as a symbolic link, which can have more names.
            if not content.isreg():
                entry.type = content.type
                entry.linkname = content.linkname
                made.addfile(entry)
                continue
            entry.linkname = first.setdefault(content.name, member.name)
            if entry.linkname == member.name:
                entry.type = tarfile.REGTYPE
                entry.linkname = ""
                entry.size = content.size
                made.addfile(entry, source.extractfile(content))
            else:
                entry.type = tarfile.LNKTYPE
                made.addfile(entry)


def _folder_order(member: tarfile.TarInfo) -> list[str]:
    return member.name.split("/")


def _plain_header(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a header with what decides about a file in a container, but what it is."""
    entry = tarfile.TarInfo(member.name)
    entry.mode = stat.S_IMODE(member.mode)
    entry.mtime = int(member.mtime)
    entry.uid = member.uid
    entry.gid = member.gid
    entry.devmajor = member.devmajor
    entry.devminor = member.devminor
    headers = member.pax_headers.items()
    entry.pax_headers = {k: v for k, v in headers if k.startswith(_ATTRIBUTE)}
    return entry
