"""The gate before each job of a runner on Windows; job-started.ps1 starts this in the clone's Python.

Exit codes: 0 to let the job run, 3 to stop it; 1 and 2 are Python's own. Variables:

- PROVISION_TARGET, the target: needed where several are built.
- PROVISION_PROJECT, whose environments are checked: this clone.
- PROVISION, the program: the clone's.
- PROVISION_GATE_LIMIT, a time: 60s.
- PROVISION_NO_VERDICT: "fail" stops the job where there is no verdict, too.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

CLONE = Path(__file__).resolve().parents[2]
STOP = 3


def main() -> int:
    """Run the gate, show what it says, and annotate the job; return the exit code."""
    code, text = gate()
    first = text.partition("\n")[0]
    show(harmless(text))
    if code == 0 and first.startswith("keep:"):
        return 0
    if code == 1 and first.startswith("remove:"):
        tell("error", f"this machine is not fit: {first.removeprefix('remove: ')}")
        return STOP
    tell("warning", f"no verdict on this machine: {first or f'it ended with {code}'}")
    return STOP if setting("NO_VERDICT", "run") == "fail" else 0


def gate() -> tuple[int, str]:
    """Run the gate; return its exit code and what it printed."""
    program = setting("", str(CLONE / ".tools" / "Scripts" / "provision.exe"))
    target = setting("TARGET", "")
    argv = [program, "gate", *([target] if target else [])]
    argv += ["--project", setting("PROJECT", str(CLONE)), "--idle"]
    argv += ["--time-limit", setting("GATE_LIMIT", "60s")]
    # A variable of Python's would reach the program's own.
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith("PYTHON")
    }
    try:
        done = subprocess.run(
            argv,
            env=env,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        return 2, f"cannot start {program}: {error}"
    return done.returncode, done.stdout.rstrip()


def setting(name: str, default: str) -> str:
    """Return the variable PROVISION or PROVISION_<name>, or the default where it is empty."""
    return os.environ.get(f"PROVISION_{name}".rstrip("_")) or default


def harmless(text: str) -> str:
    """Return text in which GitHub finds no command: a line that begins with ``::``, or ``##[``."""
    return re.sub(r"(?m)^(\s*)::", r"\1: :", text).replace("##[", "## [")


def tell(level: str, text: str) -> None:
    """Annotate the job. GitHub reads %0A as the end of a line."""
    escaped = text.replace("%", "%25")
    show(f"::{level} title=provision gate::{escaped}")


def show(text: str) -> None:
    """Print to the job's log; its encoding may lack a letter."""
    sys.stdout.buffer.write(f"{text}\n".encode(sys.stdout.encoding, "replace"))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
