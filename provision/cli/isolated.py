"""The console script: starts again without what ``PYTHON*`` would add to the toolkit."""

import gc
import os
import sys


def main() -> int:
    """Run the command in a Python that ignores ``PYTHON*``, and return its exit code."""
    # Before any other import: a PYTHONPATH would replace what the toolkit imports.
    if not sys.flags.isolated and any(
        name.upper().startswith("PYTHON") for name in os.environ
    ):
        argv = [sys.executable, "-I", "-m", "provision", *sys.argv[1:]]
        if sys.platform != "win32":  # where execv returns to the shell at once
            os.execv(sys.executable, argv)  # noqa: S606 - this same program
        from provision.core.process import become  # noqa: PLC0415 - see above

        return become(argv, env=os.environ)
    return start()


def start() -> int:
    """Run the command in this Python, and return its exit code."""
    gc.disable()  # what is loaded stays: to look for garbage in it takes a tenth of a start
    try:
        from provision.cli.main import main as run  # noqa: PLC0415

        return run()
    except KeyboardInterrupt:  # while modules are loaded, before main() sees to it
        return 130
