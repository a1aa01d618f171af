"""Programs: options of torch, Accelerate and transformers have the effects that are documented."""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from smoke.checks.test_resume import has_scaler
from smoke.device import devices
from smoke.engine.check import Numbers, check, since
from smoke.reference import models, reference

# The lines of a program, and an expression of two values that are equal, what it has and what it
# should have; in groups, which name the library that they need.
PROGRAMS = json.loads(
    Path(__file__).with_name("programs.json").read_text(encoding="utf-8")
)


ACCELERATE, TRANSFORMERS = since("accelerate", 1), since("transformers", 4, 46)


@check(
    "programs.training",
    stands_for="an option has no effect",
    when=has_scaler,
    full=True,
)
def test_training(device: torch.device, numbers: Numbers) -> None:
    """Groups of parameters, rates, autocast, samplers and frozen weights work as documented."""
    _run("torch", device, numbers)


@check(
    "programs.accelerate",
    stands_for="batches repeat, rates fall",
    when=ACCELERATE,
    full=True,
)
def test_accelerate(device: torch.device, numbers: Numbers) -> None:
    """Accelerator accumulates, clips, shuffles, and steps rates with its optimizer."""
    _run("accelerate", device, numbers)


@check(
    "programs.generation",
    stands_for="batched chats go wrong",
    when=TRANSFORMERS,
    full=True,
)
def test_generation(device: torch.device, numbers: Numbers) -> None:
    """Beams, penalties, padding and checkpoints in several files work as documented."""
    _run("transformers", device, numbers)


def _run(group: str, device: torch.device, numbers: Numbers) -> None:
    for name, program in PROGRAMS[group].items():
        numbers.step(name)
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory(
            prefix="smoke-", ignore_cleanup_errors=True
        ) as folder:
            names: dict[str, Any] = {
                "device": device,
                "devices": devices,
                "folder": Path(folder),
                "torch": torch,
                "models": models,
            }
            exec("\n".join(program.get("lines", [])), names)  # noqa: S102 - the suite's own file
            pair = eval(program["equal"], names)  # noqa: S307
        found, right = (torch.as_tensor(each).detach().cpu().double() for each in pair)
        numbers.within(name, reference.error(found, right), program.get("limit", 0.0))
