"""The worker process: imports torch, then runs the checks that have no result yet.

The supervisor (``run.py``) starts it with ``expect.json`` and a journal, and another one when it
dies. It is started for `child_process.call` as well, with ``--call``.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
# At the end of sys.path: a module of the environment with the same name must win, as for its users.
if str(HERE.parent) not in sys.path:
    sys.path.append(str(HERE.parent))
sys.dont_write_bytecode = True  # not into this folder; see `bytecode_written`

from smoke.engine import (  # noqa: E402 - the path comes first
    child_process,
    import_order,
    lifetime,
    on_cpu,
    patience,
    requirements,
    runner,
)
from smoke.engine import expect as expectation  # noqa: E402
from smoke.engine.check import IMPORT  # noqa: E402
from smoke.engine.check_files import check_files, declared  # noqa: E402
from smoke.engine.finding import explain  # noqa: E402
from smoke.engine.import_order import bytecode_written, garbage_left  # noqa: E402
from smoke.engine.journal import Entry, Journal  # noqa: E402
from smoke.engine.plan import NOT_ASKED, REUSED, Plan, not_run, reused  # noqa: E402

WITHOUT_TORCH = HERE / "checks" / "test_identity.py"
# They take no torch in this process: what they import is imported in others.
APART = {WITHOUT_TORCH.name, "test_requirements.py"}
# Checks whose processes start early, beside this one: imports of torch take their time.
RESUMED, REQUIRED = "resume.fresh", "identity.requirements"
OLDEST = (3, 10)  # that the suite's own pytest runs on
NO_PYTEST = (
    "there is no pytest: `provision smoke` has one; otherwise name a folder that holds one with "
    "--runner, or install pytest into this environment"
)


def main(argv: list[str]) -> int:
    """Run the checks that the supervisor asks for in JSON, or with ``--call`` one function."""
    lifetime.end_with_parent()
    if argv[0] == "--call":
        return _call(argv[1], Path(argv[2]))
    asked = json.loads(argv[0])
    _set_variables(asked)
    expect = expectation.read(Path(asked["expect"]))
    journal = Journal(Path(asked["journal"]), asked["other"])
    child_process.alive = lambda: journal.write(alive=True)
    only, devices = frozenset(asked["only"]), (asked["device"],)
    plan = Plan(asked["full"], only, devices, reused(expect))
    files = check_files()
    if expect.earlier is not None or plan.only:
        files = _with_work(files, plan)
    if _is_ahead(RESUMED, plan, journal):
        child_process.stand_by("smoke.reference.training:resumed")
    if not _has_stack(expect, journal, files, plan):
        files = [WITHOUT_TORCH]
    elif _is_ahead(REQUIRED, plan, journal):
        modules = requirements.to_import(expect).values()
        load = "smoke.engine.requirements:import_modules"
        child_process.begin((load, {"modules": names}) for names in modules)
    if only == {IMPORT["id"]}:
        return 0
    if asked["runner"] and sys.version_info >= OLDEST:
        runner.install(Path(asked["runner"]))
    return run_checks(expect, journal, files, plan)


def _set_variables(asked: Entry) -> None:
    """Set what this process and its children read."""
    os.environ["SMOKE_DEVICE"] = str(asked["device"])  # by smoke.device
    # Both when torch is loaded, the first by torch for XPU alone.
    os.environ[on_cpu.NAMING] = "1"
    os.environ["SMOKE_ALONE"] = "1" if asked["alone"] else ""
    if "threads" in asked:
        os.environ.setdefault("OMP_NUM_THREADS", str(asked["threads"]))


def _with_work(files: list[Path], plan: Plan) -> list[Path]:
    """Return the files without those in which every check is left out: not asked for, or reused."""
    kept = []
    for path in files:
        checks = declared([path])
        if not all(plan.leaves_out(check.id, full=check.full) for check in checks):
            kept.append(path)
    return kept


def _is_ahead(identifier: str, plan: Plan, journal: Journal) -> bool:
    """Return whether a quick check will run, and has not ended in a worker before this one."""
    if plan.leaves_out(identifier, full=False):
        return False
    return identifier not in journal.ended()


def _call(function: str, folder: Path) -> int:
    module, _, name = function.partition(":")
    value, finding = None, None
    try:
        # The requirements are imported as their users do: one package, and nothing first.
        if module != "smoke.engine.requirements":
            with bytecode_written(), garbage_left():
                importlib.import_module("torch")
        home = importlib.import_module(module)
        with bytecode_written():
            if hasattr(home, "get_ready"):
                home.get_ready()
            asked = folder / "arguments.json"
            while not asked.exists():  # the check may begin later
                time.sleep(patience.TICK)
            arguments = json.loads(asked.read_text(encoding="utf-8"))
            value = getattr(home, name)(**arguments)
    except Exception as error:  # noqa: BLE001 - becomes the finding of the calling check
        finding = explain(error).as_json()
    answer = json.dumps({"value": value, "finding": finding})
    (folder / "answer.json").write_text(answer, encoding="utf-8")
    return 0


def run_checks(
    expect: expectation.Expect, journal: Journal, files: list[Path], plan: Plan
) -> int:
    """Run the checks that are required and have no result; return pytest's exit code.

    It runs in this process, with the suite's own configuration and no other plugin: those of the
    caller, and its variables, must not select, skip or change checks.

    Args:
        expect: What the target promises.
        journal: Where results go.
        files: The check files.
        plan: What of them is to be run, on which one device.
    """
    for name in list(os.environ):
        if name.startswith("PYTEST_"):
            del os.environ[name]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        import pytest
    except ImportError as error:
        journal.write(broken=f"{NO_PYTEST} ({error})")
        return 3
    from smoke.engine.pytest_plugin import Suite

    # Beside the journal, so that the supervisor removes it, also after a crash.
    scratch = journal.path.with_name(f"scratch{journal.index}")
    arguments = ["-c", str(HERE / "pytest.ini"), f"--rootdir={HERE}"]
    arguments += [f"--basetemp={scratch}", *map(str, files)]
    suite = Suite(expect, journal, plan)
    code = int(pytest.main(arguments, plugins=[suite]))
    if reasons := _refused(journal, plan):
        journal.write(broken=f"not for {expect.target}: {'; '.join(reasons)}")
    return code


def _refused(journal: Journal, plan: Plan) -> list[str]:
    """Return why none of the checks that were asked for is required, nothing where one is."""
    if not plan.only or journal.last("required"):
        return []
    reasons = []
    for entry in journal.last("not_required") or ():
        if entry["reason"] != NOT_ASKED:
            reasons.append(f"{entry['id']} ({entry['reason']})")
    return reasons


def _has_stack(
    expect: expectation.Expect, journal: Journal, files: list[Path], plan: Plan
) -> bool:
    """Return whether torch can be imported: by an import where a check of this run takes it."""
    if IMPORT["id"] in plan.reused and {path.name for path in files} <= APART:
        journal.write(excused=[not_run(IMPORT, REUSED, required=False)])
        return True
    return import_stack(expect, journal)


def import_stack(expect: expectation.Expect, journal: Journal) -> bool:
    """Run the first check: import torch and its operators; return whether that worked."""
    earlier = journal.outcomes().get(IMPORT["id"])
    if earlier == "failed":
        return False
    if earlier == "passed":
        with bytecode_written(), garbage_left():
            _imports(expect, journal)
        return True
    journal.write(start=IMPORT)
    began = time.monotonic()
    finding = None
    try:
        with bytecode_written(), garbage_left():
            _imports(expect, journal)
    # Not SystemExit: an import that exits ends the worker, and the supervisor reads the log.
    except Exception as error:  # noqa: BLE001
        finding = explain(error, code="import-fails").as_json()
    seconds = round(time.monotonic() - began, 3)
    result = {
        **IMPORT,
        "outcome": "failed" if finding else "passed",
        "finding": finding,
        "seconds": seconds,
        "numbers": {"import": {"value": seconds, "unit": "s"}},
    }
    journal.write(result=result)
    return finding is None


def _imports(expect: expectation.Expect, journal: Journal) -> None:
    """Import torch and the modules that register operators with it."""
    for module in import_order.operators(expect):
        journal.write(step=f"import {module}")
        import_order.load(module)
    journal.write(torch=sys.modules["torch"].__version__)


if __name__ == "__main__":
    status = main(sys.argv[1:])
    gc.freeze()  # a last collection of all that torch has made takes a second
    sys.exit(status)
