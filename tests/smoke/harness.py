"""Runs inside an environment: applies faults, and runs the suite under each.

``harness.py --describe OUT``   an expectation that fits this environment as it is
``harness.py --play JOBS OUT``   a share of the jobs of a file, see `conftest.play`
``harness.py --job EXPECT OUT NAME…``   the processes of a job, each under a fault
``harness.py --supervise NAME EXPECT REPORT``   the whole suite as a user starts it, under one fault
Anything else is the worker's own command line, run under the fault that SMOKE_FAULT names.

SMOKE_COVERAGE names the site-packages of a coverage that this environment does not have: each
process then writes which lines of the suite it ran, beside the data of the tests.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import re
import sys
import tempfile
from contextlib import ExitStack, nullcontext
from functools import cache, partial
from multiprocessing import forkserver, spawn
from pathlib import Path
from typing import Any
from unittest.mock import patch

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True


def measure(site: str) -> None:
    """Record the lines that this process runs of the suite."""
    sys.path.append(site)
    coverage = importlib.import_module("coverage")
    # Its submodules are found through the package; everything else of that folder stays hidden
    # from the suite, which looks for foreign packages.
    sys.path.remove(site)
    recorder = coverage.Coverage(
        data_file=str(ROOT / ".coverage"),
        data_suffix=True,
        config_file=str(ROOT / "pyproject.toml"),
        source=[str(ROOT / "smoke")],
        messages=False,
    )
    recorder.start()
    atexit.register(recorder.save)
    atexit.register(recorder.stop)  # exit handlers run in reverse: this one first


if folder := os.environ.get("SMOKE_COVERAGE"):
    measure(folder)
sys.path.append(str(ROOT))

from smoke import run  # noqa: E402
from smoke.engine import expect as expectation  # noqa: E402 - the path comes first
from smoke.engine import requirements, worker  # noqa: E402
from smoke.engine.check_files import check_files, declared  # noqa: E402
from smoke.engine.import_order import garbage_left  # noqa: E402
from smoke.engine.journal import Journal  # noqa: E402
from smoke.engine.plan import Plan, missing  # noqa: E402

sys.path.append(str(HERE))  # after the suite has looked at the path

from faults import FAULTS, Fault, check_ids, left_out  # noqa: E402

if __name__ == "__mp_main__":  # the server of worlds, which forks their processes
    with garbage_left():
        import worlds  # noqa: F401

BY_NAME = {fault.name: fault for fault in FAULTS}
PRETEND = {
    "accelerator": "xpu",
    "families": ["bmg"],
    "driver": ">=1.6.33578",
    "driver_verdict": {
        "verdict": "new-enough",
        "reason": "driver 1.6.33578 is >=1.6.33578",
        "evidence": ["driver 1.6.33578", "required >=1.6.33578"],
    },
}


def main(argv: list[str]) -> int:
    """Choose by the command line; see the module."""
    if argv[0] == "--describe":
        return describe(Path(argv[1]))
    if argv[0] == "--supervise":
        os.environ["SMOKE_FAULT"] = argv[1]
        return run.main(argv[2:], worker=Path(__file__))
    if argv[0] == "--play":
        return play(Path(argv[1]), Path(argv[2]))
    if argv[0] == "--job":
        return job(Path(argv[1]), Path(argv[2]), argv[3:])
    os.environ["SMOKE_CHILD"] = "1"
    fault = BY_NAME.get(os.environ.get("SMOKE_FAULT", ""))
    world = os.environ.get("SMOKE_WORLD", "cpu")
    supervised = fault and fault.world in {"process", "devices"}
    if fault and supervised and fault.expect.get("accelerator"):
        world = "pretend"
    if world == "pretend":
        move_to_pretend()
    if fault and fault.world == "group":
        exchange_little()
    with fault.apply() if fault else nullcontext():
        return worker.main(argv)


def describe(out: Path) -> int:
    """Write an expectation of the CPU that fits this environment as it is."""
    from smoke.engine.requirements import installed

    expect = {
        "schema": 4,
        "target": "cpu-linux",
        "accelerator": "cpu",
        "python": "{}.{}".format(*sys.version_info),
        "packages": {name: min(versions) for name, versions in installed().items()},
        "requirements": ["torch", "transformers", "accelerate", "numpy", "safetensors"],
        "forbid": [],
        "driver": None,
        "families": [],
        "intel_devices": {},
        "fused_ops": [],
        "rotary": ["half", "interleaved"],
        "speedup_over_cpu": None,
        "environment": {},
    }
    out.write_text(json.dumps(expect), encoding="utf-8")
    return 0


def exchange_little() -> None:
    """Spare the processes of a job the seconds that sums of what a layer has take each."""
    importlib.import_module("smoke.checks.test_group").LARGE = 2**16


def job(expect: Path, out: Path, names: list[str]) -> int:
    """Fork the processes of a job; write what the check between them reported, by rank."""
    load_torch()
    exchange_little()
    base = json.loads(expect.read_text(encoding="utf-8"))
    for rank, name in enumerate(names):
        if os.fork():
            continue
        group = base["group"] | {"rank": str(rank)}
        fault = BY_NAME[name]
        reported = reported_of(
            base | {"group": group}, [fault], frozenset({fault.check})
        )
        text = json.dumps(reported["results"])
        Path(out, str(rank)).write_text(text, encoding="utf-8")
        os._exit(0)
    for _ in names:
        os.wait()
    return 0


@cache
def load_torch() -> None:
    """Import torch, as the worker does before the checks."""
    with garbage_left():
        importlib.import_module("torch")


@cache
def move_to_pretend() -> None:
    """Let the pretend accelerator be the target's device, for the rest of this process."""
    with garbage_left():
        import faults_offload
        import pretend
        import torch

    from smoke.device import devices

    devices.of = lambda _accelerator: pretend.DEVICE
    devices.compiled = lambda _accelerator: True
    torch.load = partial(pretend.load, torch.load)
    # Its memory is the host's.
    torch.Tensor.pin_memory = lambda tensor: tensor  # type: ignore[method-assign]
    faults_offload.read_safetensors(pretend.NAME)
    _shrink(pretend.UNFIT)


def _shrink(unfit: str) -> None:
    """Let the checks take sizes for one core of a CPU; leave out samples that it cannot play."""
    health = importlib.import_module("smoke.checks.test_health")
    health.BYTES, health.SIZE = {True: 2**16}, {True: (16, 32, 2)}
    health.SECONDS, health.ROUNDS = 0.3, 2
    importlib.import_module("smoke.checks.test_transfer").SIZE = 2**16
    # What this machine tells of its own GPUs is not about the pretend one.
    importlib.import_module("smoke.device.sensors").SYS = Path("/nowhere")
    # A minute for one of them in float16.
    importlib.import_module("smoke.checks.test_operators").LARGE = ()
    samples = importlib.import_module("smoke.checks.test_samples")
    samples.MOST = 4
    # Recurrent modules end on it: the gradient of an input without a batch has another shape.
    samples.MODULES = 0
    samples.UNFIT = re.compile(f"{samples.UNFIT.pattern}|{unfit}")


def play(path: Path, out: Path) -> int:
    """Run each job that no other process took; write what it reported, by its name."""
    reported = {}
    for number, job in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        try:
            path.with_suffix(f".{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        faults = [BY_NAME[name] for name in job["faults"]]
        if job["world"] == "stand-ins":
            move_to_pretend()
            wrong = importlib.import_module("stand_ins").wrong()
            reported[job["name"]] = {"wrong": wrong}
        elif isinstance(job["world"], str):
            reported[job["name"]] = in_process(job, faults)
        else:
            reported[job["name"]] = in_world(job["world"], faults)
    out.write_text(json.dumps(reported), encoding="utf-8")
    return 0


def in_process(job: dict[str, Any], faults: list[Fault]) -> dict[str, Any]:
    """Run the checks of some faults, on the CPU or on the pretend device."""
    os.environ["SMOKE_WORLD"] = job["world"]
    load_torch()
    expect = job["expect"]
    if job["world"] == "pretend":
        move_to_pretend()
        expect = expect | PRETEND
    for fault in faults:
        packages = expect["packages"] | fault.expect.get("packages", {})
        expect = expect | fault.expect | {"packages": packages}
    in_children = [fault.name for fault in faults if fault.children]
    os.environ["SMOKE_FAULT"] = "".join(in_children)
    return reported_of(expect, faults, frozenset(fault.check for fault in faults))


def in_world(world: dict[str, Any], faults: list[Fault]) -> dict[str, Any]:
    """Run the checks of some faults in a world; without any, all that it can run."""
    worlds = import_worlds()
    move_to_pretend()
    asked = {fault.check for fault in faults} or check_ids() - left_out(world)
    with worlds.play(world):
        index = world.get("device", 0)
        return reported_of(world["expect"], faults, frozenset(asked), index)


@cache
def import_worlds() -> Any:
    """Start the server that forks the processes of worlds."""
    with garbage_left():
        worlds = importlib.import_module("worlds")
    # Python 3.11 forgets to tell the server which program it is to have imported (gh-126631).
    named = {"main_path": str(Path(__file__).resolve())}
    with patch.object(spawn, "get_preparation_data", lambda _name: named):
        forkserver.ensure_running()
    gc.collect()
    gc.freeze()  # pytest collects garbage often: what was imported need not be searched
    return worlds


def reported_of(
    expect: dict[str, Any], faults: list[Fault], only: frozenset[str], index: int = 0
) -> dict[str, Any]:
    """Return what some checks reported under some faults."""
    plan = Plan(full=True, only=only, devices=(index,))
    # What is imported meanwhile, and taken away again, leaves nothing that finds modules.
    with ExitStack() as stack, patch.object(sys, "meta_path", list(sys.meta_path)):
        for fault in faults:
            stack.enter_context(fault.apply())
        # A run has one environment, and reads once what is installed; here are many.
        for read_once in (requirements.installed, requirements.top_level):
            read_once.cache_clear()
        journal = journal_of(expect, plan, imports=not faults)
    excused: list[dict[str, Any]] = []
    for event in journal.events():
        excused += event.get("excused", ())
    return {
        "results": journal.results(),
        "not_run": missing(journal, declared(check_files()), plan),
        "excused": excused,
    }


def journal_of(expect: dict[str, Any], plan: Plan, *, imports: bool) -> Journal:
    """Run some checks; return their journal, whose file is gone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "expect.json")
        path.write_text(json.dumps(expect), encoding="utf-8")
        journal = Journal(Path(folder, "journal.jsonl"), plan.devices[0])
        read = expectation.read(path)
        if imports:
            worker.import_stack(read, journal)
        # pytest takes longer to collect all files than most faults take to be found.
        files = [path for path in check_files() if _is_asked(path, plan)]
        worker.run_checks(read, journal, files, plan)
        journal.events()  # it keeps them; the file goes
    if reason := journal.last("broken"):
        raise SystemExit(f"{sorted(plan.only)}: {reason}")
    return journal


def _is_asked(path: Path, plan: Plan) -> bool:
    return any(
        not plan.leaves_out(check.id, full=check.full) for check in declared([path])
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
