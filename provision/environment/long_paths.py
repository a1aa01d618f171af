"""The limit of Windows on the length of a path: 260 characters with the NUL at its end.

If LongPathsEnabled is set, programs that declare it can do more (Microsoft, "Maximum Path Length
Limitation"): uv and Provision can, those that use the environment may not.
"""

import os
import sys
from collections.abc import Iterable

from provision.core.errors import ToolError
from provision.core.progress import Progress
from provision.core.text import plural
from provision.environment.contents import Contents

_LONGEST = 259
_KEY = r"SYSTEM\CurrentControlSet\Control\FileSystem"
_LIFT = (
    rf"in an administrator's terminal: `reg add HKLM\{_KEY} /v LongPathsEnabled /t REG_DWORD "
    "/d 1 /f`, then build again in a new terminal"
)


def check_path_lengths(contents: Contents, progress: Progress) -> None:
    """Fail if Windows would not let a program open an installed file; see below."""
    if is_limited():
        for package in contents.packages:
            names = [line.path for line in package.entries]
            judge_path_lengths(str(contents.site), names, progress)


def judge_path_lengths(site: str, names: Iterable[str], progress: Progress) -> None:
    """Check the paths that RECORDs list: ToolError if one of code is too long."""
    # Programs do not open those of ``.dist-info``, such as torch's licences: they cause a note.
    beyond = []
    code = []
    for name in names:
        path = os.path.normpath(f"{site}/{name}")
        if len(path) > _LONGEST:
            beyond.append(path)
            if ".dist-info" not in path[len(site) :]:
                code.append(path)
    if code:
        longest = sorted(code, key=len)[-1]
        length = len(longest)
        less = plural(length - _LONGEST, "character")
        raise ToolError(
            f"{plural(len(code), 'path')} longer than the {_LONGEST} characters of Windows",
            evidence=f"{length} characters: {longest}",
            cause="long paths are not enabled on this machine, and the project's own path is long",
            remedy=f"{_LIFT}; or move the project to a folder whose path is at least {less} shorter",
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
    except OSError:  # Windows before 10 1607 has no such value, and always the limit
        return True
