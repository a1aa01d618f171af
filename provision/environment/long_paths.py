"""The limit of Windows on the length of a path.

A path has at most 260 characters with the NUL at its end, unless the program declares that it can
do more, as ``python.exe`` does, and LongPathsEnabled is set (Microsoft, "Maximum Path Length
Limitation"). uv and Provision can write and read longer paths, but programs that use the
environment may not.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from provision.core.errors import ToolError
from provision.core.prefix import site_packages
from provision.core.text import plural
from provision.environment.installed import installed_distributions

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from provision.core.progress import Progress

_LONGEST = 259
_KEY = r"SYSTEM\CurrentControlSet\Control\FileSystem"
_LIFT = (
    rf"in an administrator's terminal: `reg add HKLM\{_KEY} /v LongPathsEnabled /t REG_DWORD "
    "/d 1 /f`, then build again in a new terminal"
)


def check_path_lengths(prefix: Path, progress: Progress) -> None:
    """Fail if Windows would not let a program open an installed file.

    Files of ``.dist-info`` folders, which programs do not open (torch's licences have the longest
    paths), only cause a note.

    Raises:
        ToolError: A path of code exceeds the limit; it names the longest one and its excess.
    """
    site = site_packages(prefix)
    if site is None or not is_limited():
        return
    lines = (dist.files() or [] for dist in installed_distributions(site))
    judge_path_lengths(str(site), (line.path for record in lines for line in record), progress)


def judge_path_lengths(site: str, names: Iterable[str], progress: Progress) -> None:
    """Check the paths that RECORDs list; see :func:`check_path_lengths`."""
    paths = (os.path.normpath(f"{site}/{name}") for name in names)
    beyond = sorted((path for path in paths if len(path) > _LONGEST), key=len)
    code = [path for path in beyond if ".dist-info" not in path[len(site) :]]
    if code:
        excess = len(code[-1]) - _LONGEST
        raise ToolError(
            f"{plural(len(code), 'path')} longer than the {_LONGEST} characters that Windows "
            "lets programs open",
            evidence=f"{len(code[-1])} characters: {code[-1]}",
            cause="long paths are not enabled on this machine, and the project's own path is long",
            remedy=f"{_LIFT}; or move the project to a folder whose path is at least "
            f"{plural(excess, 'character')} shorter",
        )
    if beyond:
        progress.note(
            f"{plural(len(beyond), 'file')} of metadata with paths longer than {_LONGEST} "
            f"characters, which Explorer and others cannot open; to lift the limit, {_LIFT}"
        )


def is_limited() -> bool:
    """Whether the limit applies to programs on this machine; never on Linux."""
    if sys.platform != "win32":
        return False
    import winreg  # noqa: PLC0415 - Windows only

    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, _KEY) as key:
            return not winreg.QueryValueEx(key, "LongPathsEnabled")[0]
    except OSError:
        # Windows before 10 1607 has no such value, and always the limit.
        return True
