"""Programs: options of torch, Accelerate and transformers have the effects that are documented."""

import tempfile
from pathlib import Path

import torch

from smoke.checks.programs import PROGRAMS
from smoke.checks.test_resume import has_scaler
from smoke.engine.check import Numbers, check, since
from smoke.reference import reference

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


def _run(library: str, device: torch.device, numbers: Numbers) -> None:
    for program in PROGRAMS:
        if program.library != library:
            continue
        numbers.step(program.name)
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory(
            prefix="smoke-", ignore_cleanup_errors=True
        ) as folder:
            pair = program.run(device, Path(folder))
        result, right = (torch.as_tensor(each).detach().cpu().double() for each in pair)
        numbers.within(program.name, reference.error(result, right), program.limit)
