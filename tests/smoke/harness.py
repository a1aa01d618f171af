"""Runs inside an environment: applies faults, and runs the suite under each.

``harness.py --describe OUT``   an expectation that fits this environment as it is
``harness.py WORLD EXPECT OUT PART PARTS``   every fault of a part of a world, one after the other
``harness.py --worlds WORLDS OUT``   a share of the worlds of a file, see `profiles.py`
``harness.py --traits OUT``   what each function of `traits.py` finds wrong
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
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from multiprocessing import forkserver, spawn
from pathlib import Path
from typing import TYPE_CHECKING, Any
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
from smoke.engine import owed, worker  # noqa: E402
from smoke.engine.check_files import check_files, declared  # noqa: E402
from smoke.engine.journal import Journal  # noqa: E402

sys.path.append(str(HERE))  # after the suite has looked at the path

from faults import DEEP, FAULTS, Fault, check_ids, left_out  # noqa: E402

if (
    __name__ == "__mp_main__"
):  # the server of `worlds`, from which its processes are forked
    import worlds  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Iterator

SOUND = Fault("none", "none", "", nullcontext, "pretend")  # type: ignore[arg-type]
BY_NAME = {fault.name: fault for fault in FAULTS}
# Each needs a process or seconds of its own: they run where a fault aims at them.
SLOW = frozenset(
    {
        "resume.fresh",
        "throughput.training",
        "compile.mul_add",
        "collective.sum",
        "identity.requirements",
        "noise.imports",
        "rotary.transformers",
        "memory.leak",
        "memory.release",
        "transfer.roundtrip",
        "transfer.speed",
        "resume.portable",
        "operators.samples",
        "operators.sizes",
        "low-bit.linear",
        "low-bit.models",
        "offload.checkpoint",
        "offload.cpu",
        "offload.disk",
        "offload.tied",
        "programs.training",
        "programs.accelerate",
        "programs.generation",
        "health.speed",
        "health.memory",
        "health.load",
    }
)
# The pretend accelerator has no autocast, no compiler and no generator, and is not what torch would
# select.
NOT_ON_PRETEND = (
    *("identity", "selection", "autocast", "compile", "collective", "noise"),
    "random.seed",
)
PRETEND = {
    "accelerator": "xpu",
    "families": ["bmg"],
    "driver": ">=1.6.33578",
    "driver_judgement": {
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
    if argv[0] == "--worlds":
        return play_worlds(Path(argv[1]), Path(argv[2]))
    if argv[0] == "--traits":
        return play_traits(Path(argv[1]))
    if argv[0] in ("cpu", "pretend"):
        return every(argv[0], Path(argv[1]), Path(argv[2]), Path(argv[3]))
    os.environ["SMOKE_CHILD"] = "1"
    fault = BY_NAME.get(os.environ.get("SMOKE_FAULT", ""))
    world = os.environ.get("SMOKE_WORLD", "cpu")
    if fault and fault.world == "process" and fault.expect.get("accelerator"):
        world = "pretend"
    with inhabit(world), fault.apply() if fault else nullcontext():
        return worker.main(argv)


def describe(out: Path) -> int:
    """Write an expectation of the CPU that fits this environment as it is."""
    from smoke.engine.requirements import installed

    expect = {
        "schema": 3,
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


@contextmanager
def inhabit(world: str) -> Iterator[None]:
    """Let the pretend accelerator be the target's device, where the world is its."""
    if world == "pretend":
        import faults_offload
        import pretend
        import torch

        from smoke.device import devices as device

        device.of = lambda _accelerator: pretend.DEVICE
        device.compiled = lambda _accelerator: True
        torch.load = partial(pretend.load, torch.load)
        # Its memory is the host's.
        torch.Tensor.pin_memory = lambda tensor: tensor  # type: ignore[method-assign]
        faults_offload.read_safetensors(pretend.NAME)
        # Its sizes are small, and what this machine tells of its own GPUs is not about it.
        health = importlib.import_module("smoke.checks.test_health")
        health.BYTES, health.SIZE, health.SECONDS = (
            {True: 2**16},
            {True: (16, 32, 2)},
            0.3,
        )
        health.ROUNDS = 2
        importlib.import_module("smoke.checks.test_transfer").SIZE = 2**16
        importlib.import_module("smoke.device.sensors").SYS = Path("/nowhere")
        # It is one core of a CPU: a minute for one of them in float16.
        importlib.import_module("smoke.checks.test_operators").LARGE = ()
        samples = importlib.import_module("smoke.checks.test_samples")
        samples.MOST = 4
        samples.UNFIT = re.compile(f"{samples.UNFIT.pattern}|{pretend.UNFIT}")
    yield


def every(world: str, base: Path, asked: Path, out: Path) -> int:
    """Run the suite under each fault of a world that is asked for; the results go to ``out``.

    ``asked`` has their names, "none" for none of them, and whether the other checks run beside.
    """
    os.environ["SMOKE_WORLD"] = world
    order = json.loads(asked.read_text(encoding="utf-8"))
    known = {"none": replace(SOUND, world=world), **BY_NAME}
    chosen = [known[name] for name in order["names"]]
    if not order["beside"]:
        for number, fault in enumerate(chosen[1:], 1):
            chosen[number] = replace(fault, only=fault.only or (fault.check,))
    first, *others = chosen
    data = json.loads(base.read_text(encoding="utf-8"))
    with inhabit(world):
        found = {first.name: under(first, data)}
        # Each run of pytest collects garbage ten times. What torch and pytest have imported by now
        # stays for good: frozen, it is not searched each time, which took a third of the run.
        gc.collect()
        gc.freeze()
        found |= {fault.name: under(fault, data) for fault in others}
    out.write_text(json.dumps(found), encoding="utf-8")
    return 0


def play_worlds(path: Path, out: Path) -> int:
    """Run the suite in each world that no other process took; write what it found."""
    import worlds

    # Python 3.11 forgets to tell the server which program it is to have imported (gh-126631).
    named = {"main_path": str(Path(__file__).resolve())}
    with patch.object(spawn, "get_preparation_data", lambda _name: named):
        forkserver.ensure_running()
    found = {}
    for number, world in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        try:
            path.with_suffix(f".{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        fault = BY_NAME.get(world.get("fault", ""), SOUND)
        only = tuple(world.get("only", ()))
        asked = only or tuple(sorted(check_ids() - left_out(world)))
        rows = every_so_many_rows(*world.get("rows", (0, 1)))
        with inhabit("pretend"), worlds.play(world), rows:
            index = world.get("device", 0)
            journal = journal_of(
                fault, world["expect"], only=asked, index=index, imports=not only
            )
        plan = owed.Plan(full=True, only=frozenset(asked), devices=(index,))
        found[world["name"]] = {
            "results": journal.results(),
            "not_run": owed.missing(journal, declared(check_files()), plan),
            "excused": [
                each for event in journal.events() for each in event.get("excused", ())
            ],
        }
        gc.collect()
        gc.freeze()  # see every()
    out.write_text(json.dumps(found), encoding="utf-8")
    return 0


@contextmanager
def every_so_many_rows(first: int, step: int) -> Iterator[None]:
    """Leave rows out of the long tables of operators, and none out of the short ones."""
    operators = importlib.import_module("smoke.checks.test_operators")
    compare = operators._compare

    def fewer(
        device: Any, numbers: Any, cases: Any, *more: Any, **options: Any
    ) -> None:
        chosen = dict([*cases.items()][first::step]) if len(cases) > 20 else cases
        compare(device, numbers, chosen, *more, **options)

    with patch.object(operators, "_compare", fewer):
        yield


def play_traits(out: Path) -> int:
    """Write why each trait is not played as documented, None where it is."""
    import traits

    out.write_text(json.dumps(traits.judge()), encoding="utf-8")
    return 0


def under(fault: Fault, base: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the results of the suite under one fault."""
    os.environ["SMOKE_FAULT"] = fault.name if fault.children else ""
    data = {**base, **(PRETEND if fault.world == "pretend" else {}), **fault.expect}
    data["packages"] = {**base["packages"], **fault.expect.get("packages", {})}
    aimed = (fault.check,) if fault.code else ()
    return journal_of(
        fault, data, only=(*aimed, *(fault.only or beside(fault)))
    ).results()


def journal_of(
    fault: Fault,
    expect: dict[str, Any],
    *,
    only: tuple[str, ...],
    index: int = 0,
    imports: bool = False,
) -> Journal:
    """Run the suite under one fault; return its journal, whose file is gone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "expect.json")
        path.write_text(json.dumps(expect), encoding="utf-8")
        journal = Journal(Path(folder, "journal.jsonl"))
        # What a fault imports and takes away again leaves nothing behind that finds modules.
        with patch.object(sys, "meta_path", list(sys.meta_path)), fault.apply():
            read = expectation.read(path)
            if imports:
                worker.import_stack(read, journal)
            plan = owed.Plan(full=True, only=frozenset(only), devices=(index,))
            # pytest takes longer to collect all files than most faults take to be found.
            files = [path for path in check_files() if _asked(path, plan)]
            worker.run_checks(read, journal, files, plan, other=bool(index))
        journal.events()  # it keeps them; the file goes
    if reason := journal.last("broken"):
        raise SystemExit(f"{fault.name}: {reason}")
    return journal


def _asked(path: Path, plan: owed.Plan) -> bool:
    return any(
        not plan.leaves_out(each.id, full=each.full) for each in declared([path])
    )


def beside(fault: Fault) -> tuple[str, ...]:
    """Return the checks that must pass beside the one that a fault is for."""
    pretend = fault.world == "pretend"
    unfit = NOT_ON_PRETEND if pretend else ("identity.import",)
    heavy = SLOW | DEEP  # `profiles` runs them where nothing is wrong
    return tuple(
        sorted(name for name in check_ids() - heavy if not name.startswith(unfit))
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
