"""Runs inside an environment: applies faults, and runs the suite under each.

``harness.py --describe OUT``   an expectation that fits this environment as it is
``harness.py WORLD EXPECT OUT``   every fault of a world, one after the other, in this process
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
import sys
import tempfile
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

from smoke import expect as expectation  # noqa: E402 - the path comes first
from smoke import run, worker  # noqa: E402
from smoke.journal import Journal  # noqa: E402

sys.path.append(str(HERE))  # after the suite has looked at the path

from faults import FAULTS, Fault, check_ids  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        "transfer.speed",
        "resume.portable",
    }
)
# The pretend accelerator has no autocast and no compiler, and is not what torch would select.
NOT_ON_PRETEND = ("identity", "selection", "autocast", "compile", "collective", "noise")
PRETEND = {
    "accelerator": "xpu",
    "families": ["dg2"],
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
    if argv[0] in ("cpu", "pretend"):
        return every(argv[0], Path(argv[1]), Path(argv[2]))
    os.environ["SMOKE_CHILD"] = "1"
    fault = BY_NAME.get(os.environ.get("SMOKE_FAULT", ""))
    world = os.environ.get("SMOKE_WORLD", "cpu")
    if fault and fault.world == "process" and fault.expect.get("accelerator"):
        world = "pretend"
    with inhabit(world), fault.apply() if fault else nullcontext():
        return worker.main(argv)


def describe(out: Path) -> int:
    """Write an expectation of the CPU that fits this environment as it is."""
    from smoke.test_identity import installed

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
        import pretend
        import torch

        from smoke import device

        device.of = lambda _accelerator: pretend.DEVICE
        device.compiled = lambda _accelerator: True
        # Its memory is the host's.
        torch.Tensor.pin_memory = lambda tensor: tensor  # type: ignore[method-assign]
    yield


def every(world: str, base: Path, out: Path) -> int:
    """Run the suite under each fault of a world, and once under none; write the results."""
    os.environ["SMOKE_WORLD"] = world
    sound = Fault("none", "none", "", nullcontext, world)  # type: ignore[arg-type]
    data = json.loads(base.read_text(encoding="utf-8"))
    with inhabit(world):
        found = {sound.name: under(sound, data)}
        # Each run of pytest collects garbage ten times. What torch and pytest have imported by now
        # stays for good: frozen, it is not searched each time, which took a third of the run.
        gc.collect()
        gc.freeze()
        found |= {fault.name: under(fault, data) for fault in FAULTS if fault.world == world}
    out.write_text(json.dumps(found), encoding="utf-8")
    return 0


def under(fault: Fault, base: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the results of the suite under one fault."""
    os.environ["SMOKE_FAULT"] = fault.name if fault.children else ""
    data = {**base, **(PRETEND if fault.world == "pretend" else {}), **fault.expect}
    data["packages"] = {**base["packages"], **fault.expect.get("packages", {})}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "expect.json")
        path.write_text(json.dumps(data), encoding="utf-8")
        journal = Journal(Path(folder, "journal.jsonl"))
        aimed = (fault.check,) if fault.code else ()
        only = (*aimed, *(fault.only or beside(fault)))
        with fault.apply():
            worker.run_checks(
                expectation.read(path),
                journal,
                files=worker.check_files(worker.HERE),
                full=True,
                only=only,
            )
        if reason := journal.last("broken"):
            raise SystemExit(f"{fault.name}: {reason}")
        return journal.results()


def beside(fault: Fault) -> tuple[str, ...]:
    """Return the checks that must pass beside the one that a fault is for."""
    unfit = NOT_ON_PRETEND if fault.world == "pretend" else ("identity.import",)
    return tuple(sorted(name for name in check_ids() - SLOW if not name.startswith(unfit)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
