"""The worker process: imports torch, then runs the checks that have no result yet.

The supervisor (``run.py``) starts it with ``expect.json`` and a journal, and another one when it
dies. It is started for `child_process.call` as well, with ``--call``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
# At the end of sys.path: a module of the environment with the same name must win, as for its users.
if str(HERE.parent) not in sys.path:
    sys.path.append(str(HERE.parent))
sys.dont_write_bytecode = True  # not into this folder; see bytecode_written()

from smoke import expect as expectation  # noqa: E402 - the path comes first
from smoke import import_order, lifetime  # noqa: E402
from smoke.finding import explain  # noqa: E402
from smoke.journal import Journal  # noqa: E402

# The one check that is no test function: torch can end the process while it is imported, so this is
# done and journalled before pytest, whose collection imports torch.
IMPORT = {
    "id": "identity.import",
    "title": "torch and the modules that extend it can be imported.",
    "stands_for": "sd-scripts dies while it imports intel_extension_for_pytorch",
}
WITHOUT_TORCH = HERE / "test_identity.py"
# A cause before its symptoms, and what disturbs measurements (memory, processes) after them. This
# is an order only: `check_files` runs every check file, named here or not.
ORDER = (
    "identity",
    "device",
    "selection",
    "fused",
    "rotary",
    "libraries",
    "resume",
    "offload",
    "throughput",
    "autocast",
    "compile",
    "memory",
    "transfer",
    "collective",
    "noise",
)


def check_files(folder: Path) -> list[Path]:
    """Return every check file of the suite, those of `ORDER` first."""
    last = len(ORDER)
    rank = {f"test_{area}.py": place for place, area in enumerate(ORDER)}
    return sorted(folder.glob("test_*.py"), key=lambda path: (rank.get(path.name, last), path.name))


def main(argv: list[str]) -> int:
    """Run checks, or with ``--call`` one function in this fresh process."""
    lifetime.end_with_parent()
    if argv[:1] == ["--call"]:
        return _call(argv[1], Path(argv[2]))
    parser = argparse.ArgumentParser()
    parser.add_argument("expect", type=Path)
    parser.add_argument("journal", type=Path)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    options = parser.parse_args(argv)
    return run(
        expectation.read(options.expect),
        Journal(options.journal),
        full=options.full,
        only=tuple(options.only),
    )


@contextmanager
def bytecode_written() -> Iterator[None]:
    """Let Python write bytecode of the environment's modules: the next process starts faster."""
    sys.dont_write_bytecode = False
    try:
        yield
    finally:
        sys.dont_write_bytecode = True


def _call(function: str, folder: Path) -> int:
    module, _, name = function.partition(":")
    arguments = json.loads((folder / "arguments.json").read_text(encoding="utf-8"))
    value, finding = None, None
    try:
        with bytecode_written():
            importlib.import_module("torch")
        home = importlib.import_module(module)
        with bytecode_written():
            value = getattr(home, name)(**arguments)
    except Exception as error:  # noqa: BLE001 - becomes the finding of the calling check
        finding = explain(error).as_json()
    answer = json.dumps({"value": value, "finding": finding})
    (folder / "answer.json").write_text(answer, encoding="utf-8")
    return 0


def run(
    expect: expectation.Expect, journal: Journal, *, full: bool = False, only: tuple[str, ...] = ()
) -> int:
    """Run the checks that apply and have no result in the journal; return pytest's exit code."""
    files = check_files(HERE) if _import_stack(expect, journal) else [WITHOUT_TORCH]
    if only == (IMPORT["id"],):
        return 0
    return run_checks(expect, journal, files=files, full=full, only=only)


def run_checks(
    expect: expectation.Expect,
    journal: Journal,
    *,
    files: list[Path],
    full: bool,
    only: tuple[str, ...],
) -> int:
    """Run pytest in this process, with the suite's own configuration and no other plugin.

    Variables, plugins and configuration of the caller must not select, skip or change checks.
    """
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        del os.environ[name]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        import pytest
    except ImportError as error:
        journal.write(broken=f"the environment has no pytest: {error}")
        return 3
    from smoke.pytest_plugin import Suite

    suite = Suite(expect, journal, bytecode_written, full=full, only=only)
    ours = ["-c", str(HERE / "pytest.ini"), f"--rootdir={HERE}"]
    # Beside the journal, so that the supervisor removes it, also after a crash.
    scratch = f"--basetemp={journal.path.parent / 'scratch'}"
    code = int(pytest.main([*ours, scratch, *map(str, files)], plugins=[suite]))
    if unknown := set(only) - suite.known - {IMPORT["id"]}:
        journal.write(broken=f"no such check: {', '.join(sorted(unknown))}")
    elif only and suite.unfit == set(only):
        journal.write(broken=f"not for {expect.target}: {', '.join(sorted(suite.unfit))}")
    return code


def _import_stack(expect: expectation.Expect, journal: Journal) -> bool:
    """Run the first check: import torch and its operators; return whether that worked."""
    earlier = {result["id"]: result["outcome"] for result in journal.results()}.get(IMPORT["id"])
    if earlier == "passed":
        with bytecode_written():
            _imports(expect, journal)
    if earlier:
        return bool(earlier == "passed")
    journal.write(start=IMPORT)
    began = time.monotonic()
    finding = None
    try:
        with bytecode_written():
            _imports(expect, journal)
    # Not SystemExit: an import that exits ends the worker, and the supervisor reads the log.
    except Exception as error:  # noqa: BLE001
        finding = explain(error, code="import-fails").as_json()
    seconds = round(time.monotonic() - began, 3)
    numbers = {"import": {"value": seconds, "unit": "s"}}
    outcome = {"outcome": "failed" if finding else "passed", "finding": finding}
    journal.write(result={**IMPORT, **outcome, "seconds": seconds, "numbers": numbers})
    return finding is None


def _imports(expect: expectation.Expect, journal: Journal) -> None:
    """Import torch and the modules that register operators with it."""
    for module in import_order.operators(expect):
        journal.write(step=f"import {module}")
        import_order.load(module)
    journal.write(torch=sys.modules["torch"].__version__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
