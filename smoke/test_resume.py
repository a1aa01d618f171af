"""Resume: a training that was broken off goes on as if nothing had happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from smoke import process, training
from smoke.checks import check
from smoke.finding import CheckFailed, fail

if TYPE_CHECKING:
    from pathlib import Path

    from smoke.checks import Numbers
    from smoke.expect import Expect

MIXED = "found at least two devices, xpu:0 and cpu, when training is resumed"
BEFORE, AFTER = 4, 3  # steps


@check("resume.fresh", stands_for="the loss jumps after a resume: optimizer state was lost")
def test_fresh(expect: Expect, device: torch.device, numbers: Numbers, tmp_path: Path) -> None:
    """Resumed in a fresh process, SGD, Adam and AdamW have the losses of the unbroken run."""
    paths, unbroken = {}, {}
    for name in training.OPTIMIZERS:
        numbers.step(f"train with {name}")
        model = training.network(seed=0).to(device)
        update = training.optimizer(name, model.parameters())
        training.steps(model, update, BEFORE, device)
        paths[name] = str(tmp_path / f"{name}.pt")
        training.save(paths[name], model, update)
        unbroken[name] = training.steps(model, update, AFTER, device)
    numbers.step("resume in a fresh process")
    answer = process.call(
        "smoke.training:resumed_losses",
        paths=paths,
        accelerator=expect.accelerator,
        count=AFTER,
    )
    if answer.finding:
        raise CheckFailed(answer.finding)
    for name, losses in answer.value.items():
        _same(name, losses, unbroken[name], numbers)


def _same(name: str, resumed: list[float], unbroken: list[float], numbers: Numbers) -> None:
    off = max(abs(a - b) for a, b in zip(resumed, unbroken, strict=True))
    numbers.record(name, off, "nats")
    if not off <= 1e-5:
        fail(
            "resume-differs",
            f"{name}: resumed losses differ by {off:.2g} from the unbroken run",
            cause="weights or optimizer state did not come back as they were saved",
            remedy="load weights, move the model to the device, then load the optimizer's state",
            evidence=[f"unbroken {unbroken}", f"resumed {resumed}"],
        )


@check("resume.state", stands_for=MIXED)
def test_state(device: torch.device, numbers: Numbers, tmp_path: Path) -> None:
    """After a resume in the right order all state is on the device, and training goes on."""
    path = _checkpoint(device, tmp_path)
    model, update = training.resume(path, "AdamW", device)
    if lost := training.strays(update):
        fail(
            "mixed-devices-on-resume",
            f"optimizer state is not on the device: {lost[0]}",
            cause="the optimizer's state was loaded before the model was on the device",
            remedy="load weights, move the model to the device, then load the optimizer's state",
            evidence=lost,
        )
    losses = training.steps(model, update, 2, device)
    numbers.sample("loss", losses, "nats")


@check("resume.order", stands_for=MIXED)
def test_order(device: torch.device, tmp_path: Path) -> None:
    """Optimizer state loaded before the move to a device is noticed."""
    state = torch.load(_checkpoint(device, tmp_path), map_location="cpu")
    model = training.network(seed=1)
    update = training.optimizer("AdamW", model.parameters())
    update.load_state_dict(state["optimizer"])
    # On a CPU target the meta device is the elsewhere to move to.
    model.to(device if device.type != "cpu" else "meta")
    moved = {id(parameter) for parameter in model.parameters()} == {
        id(parameter) for parameter in update.param_groups[0]["params"]
    }
    if moved and not training.strays(update):
        fail(
            "wrong-order-unnoticed",
            "the optimizer's state was left behind, and nothing tells",
            cause="this torch moves parameters in another way than the check knows",
            remedy="report it: the check of resumed trainings is blind here",
            evidence=[f"torch {torch.__version__}", f"device {device}"],
        )


def _checkpoint(device: torch.device, folder: Path) -> str:
    model = training.network(seed=0).to(device)
    update = training.optimizer("AdamW", model.parameters())
    training.steps(model, update, BEFORE, device)
    path = str(folder / "checkpoint.pt")
    training.save(path, model, update)
    return path


@check("resume.trains", stands_for="an optimizer built before the move trains nothing, in silence")
def test_trains(device: torch.device, numbers: Numbers) -> None:
    """A step changes every weight, also for an optimizer built before the move to the device."""
    model = training.network(seed=0)
    update = training.optimizer("SGD", model.parameters())
    model.to(device)
    before = training.to_cpu(dict(model.state_dict()))
    training.steps(model, update, 1, device)
    after = training.to_cpu(dict(model.state_dict()))
    idle = [name for name, weight in before.items() if torch.equal(weight, after[name])]
    numbers.record("trained", len(before) - len(idle), "tensors")
    if idle:
        fail(
            "optimizer-trains-nothing",
            f"{len(idle)} of {len(before)} weights did not change in a step: {idle[0]}",
            cause="moving the model replaced its parameters; the optimizer holds the old ones",
            remedy="build the optimizer after the model is on the device",
            evidence=idle,
        )
