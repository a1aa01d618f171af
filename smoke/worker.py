"""One process of the suite: imports torch, then runs the checks that have no result yet."""

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
# Last on the path: whatever the environment holds of the same name comes first.
if str(HERE.parent) not in sys.path:
    sys.path.append(str(HERE.parent))
sys.dont_write_bytecode = True  # not into this folder; see written()

from smoke import expect as expectation  # noqa: E402 - the path comes first
from smoke import process, stack  # noqa: E402
from smoke.finding import explain  # noqa: E402
from smoke.journal import Journal  # noqa: E402

IMPORT = {
    "id": "identity.import",
    "title": "torch and what the target adds to it can be imported.",
    "stands_for": "sd-scripts dies while it imports intel_extension_for_pytorch",
}
# In this order, so that a cause is met before its symptoms.
WITHOUT_TORCH = ("identity",)
AREAS = (
    *WITHOUT_TORCH,
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


def main(argv: list[str]) -> int:
    """Run checks, or with ``--call`` one function in this fresh process."""
    process.end_with_parent()
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
def written() -> Iterator[None]:
    """Let Python keep bytecode of the environment's modules: the next process starts faster."""
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
        with written():
            importlib.import_module("torch")
        home = importlib.import_module(module)
        with written():
            value = getattr(home, name)(**arguments)
    except Exception as error:  # noqa: BLE001 - the check that asked gets it as its finding
        finding = explain(error).as_json()
    answer = json.dumps({"value": value, "finding": finding})
    (folder / "answer.json").write_text(answer, encoding="utf-8")
    return 0


def run(
    expect: expectation.Expect, journal: Journal, *, full: bool = False, only: tuple[str, ...] = ()
) -> int:
    """Run the checks that apply and have no result in the journal; return pytest's exit code."""
    usable = _import_stack(expect, journal)
    if only == (IMPORT["id"],):
        return 0
    return run_checks(
        expect, journal, areas=AREAS if usable else WITHOUT_TORCH, full=full, only=only
    )


def run_checks(
    expect: expectation.Expect,
    journal: Journal,
    *,
    areas: tuple[str, ...],
    full: bool,
    only: tuple[str, ...],
) -> int:
    """Run pytest in this process, on our files, with our configuration and nobody's plugins."""
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        del os.environ[name]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        import pytest
    except ImportError as error:
        journal.write(broken=f"the environment has no pytest: {error}")
        return 3
    from smoke.plugin import Suite

    suite = Suite(expect, journal, written, full=full, only=only)
    files = [str(HERE / f"test_{area}.py") for area in areas]
    ours = ["-c", str(HERE / "pytest.ini"), f"--rootdir={HERE}"]
    # Beside the journal, so that what the checks write goes with it.
    scratch = f"--basetemp={journal.path.parent / 'scratch'}"
    code = int(pytest.main([*ours, scratch, *files], plugins=[suite]))
    if unknown := set(only) - suite.known - {IMPORT["id"]}:
        journal.write(broken=f"no such check: {', '.join(sorted(unknown))}")
    elif only and suite.unfit == set(only):
        journal.write(broken=f"not for {expect.target}: {', '.join(sorted(suite.unfit))}")
    return code


def _import_stack(expect: expectation.Expect, journal: Journal) -> bool:
    """Do the first check: import torch and what registers its operators; say if torch is usable."""
    earlier = {result["id"]: result["outcome"] for result in journal.results()}.get(IMPORT["id"])
    if earlier == "passed":
        with written():
            _imports(expect, journal)
    if earlier:
        return earlier == "passed"
    journal.write(start=IMPORT)
    began = time.monotonic()
    finding = None
    try:
        with written():
            _imports(expect, journal)
    # An import that exits goes through: its last words are in the log, which the supervisor reads.
    except Exception as error:  # noqa: BLE001
        finding = explain(error, code="import-fails").as_json()
    seconds = round(time.monotonic() - began, 3)
    numbers = {"import": {"value": seconds, "unit": "s"}}
    outcome = {"outcome": "failed" if finding else "passed", "finding": finding}
    journal.write(result={**IMPORT, **outcome, "seconds": seconds, "numbers": numbers})
    return finding is None


def _imports(expect: expectation.Expect, journal: Journal) -> None:
    """Import torch and what registers operators with it."""
    for module in stack.operators(expect):
        journal.write(step=f"import {module}")
        stack.load(module)
    journal.write(torch=sys.modules["torch"].__version__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
