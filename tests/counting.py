"""Run the command line in this process and write down what it touched.

Started as a script by :mod:`tests.test_budget`: ``python -I counting.py OUT ROOT WORDS…``. Below
``ROOT`` lie the project and its environment; what is read elsewhere belongs to the machine, and
differs from one to the next, so it is not counted.
"""

from __future__ import annotations

import contextlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# typing, json, pathlib and their kind are imported after the command, or they would not be counted.
OUT, ROOT, *WORDS = sys.argv[1:]
BEFORE = frozenset(sys.modules)
STARTS = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec", "os.system")
MACHINE = {"pynvml"}  # loaded only where there is an NVIDIA driver
BLOCK = 4096  # bytes: a version that is a letter longer is not more to read

processes: list[str] = []
connections: list[str] = []
opened: list[str] = []
hashed: list[str] = []
blocks = 0
counting = True


def notice(event: str, arguments: tuple[object, ...]) -> None:
    """Count one audit event; see https://docs.python.org/3/library/audit_events.html."""
    global blocks  # noqa: PLW0603 - a hook cannot be taken out, so it has no owner
    if not counting:
        return
    count_hashes()
    if event in STARTS:
        processes.append(f"{event} {_name(arguments[0])}")
        if (
            event == "os.exec"
        ):  # this process would become the program, and count nothing more
            raise SystemExit(0)
    elif event == "socket.connect":
        connections.append(str(arguments[1]))
    elif event == "open" and isinstance(arguments[0], str | os.PathLike):
        path = os.fspath(arguments[0])
        if isinstance(path, str) and path.startswith(ROOT):
            opened.append(path[len(ROOT) :])
            with contextlib.suppress(OSError):
                blocks += -(-os.stat(path).st_size // BLOCK)  # noqa: PTH116


def _name(program: object) -> str:
    return os.path.basename(str(program))  # noqa: PTH119


def count_hashes() -> None:
    """Count the files that are hashed, which no audit event tells, once the modules are there."""
    places = [("hashlib", "file_digest")]
    places += [
        (name, "sha256_file") for name in sys.modules if name.startswith("provision.")
    ]
    for module, function in places:
        real = getattr(sys.modules.get(module), function, None)
        if real is not None and real.__name__ != "counted":
            setattr(sys.modules[module], function, counting_calls(real))


def counting_calls(real: Callable[..., object]) -> Callable[..., object]:
    """Return a function that also notes the file, an open one or a path, that it is given."""

    def counted(file: object, *others: object) -> object:
        path = file if isinstance(file, os.PathLike) else getattr(file, "name", file)
        hashed.append(str(path).removeprefix(ROOT))
        return real(file, *others)

    return counted


sys.addaudithook(notice)
try:
    from provision.cli.main import main

    code: object = main(WORDS)
except SystemExit as end:
    code = end.code
counting = False
modules = sorted(set(sys.modules) - BEFORE - {"__mp_main__"})

import json  # noqa: E402

with open(OUT, "w", encoding="utf-8") as stream:  # noqa: PTH123
    counts = {
        "toolkit": [name for name in modules if name.partition(".")[0] == "provision"],
        "modules": sorted(
            {name.partition(".")[0] for name in modules} - {"provision"} - MACHINE
        ),
        "processes": processes,
        "connections": connections,
        "opened": opened,
        "hashed": hashed,
        "blocks": blocks,
    }
    json.dump({"code": code, "counts": counts}, stream)
