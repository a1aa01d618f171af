"""Resume: an interrupted training continues with the same losses."""

from pathlib import Path

import torch

from smoke.checks.test_throughput import placed
from smoke.device import capabilities
from smoke.engine import child_process
from smoke.engine.check import Numbers, check, on_gpu
from smoke.engine.expect import Expect
from smoke.engine.finding import CheckFailed, fail
from smoke.reference import reference, training

MIXED = "found at least two devices, xpu:0 and cpu, when training is resumed"
BEFORE, AFTER = 4, 3  # steps


@check(
    "resume.fresh",
    stands_for="the loss jumps after a resume: optimizer state was lost",
)
def test_fresh(
    expect: Expect, device: torch.device, numbers: Numbers, tmp_path: Path
) -> None:
    """Resumed in a fresh process, SGD, Adam and AdamW go on with rates, scale, noise and losses."""
    paths, unbroken = {}, {}
    for name in training.OPTIMIZERS:
        numbers.step(f"train with {name}")
        whole = training.Whole(name, device, seed=0)
        whole.train(BEFORE)
        paths[name] = str(tmp_path / f"{name}.pt")
        whole.save(paths[name])
        unbroken[name] = whole.train(AFTER)
    numbers.step("resume in a fresh process")
    answer = child_process.call(
        "smoke.reference.training:resumed",
        paths=paths,
        accelerator=expect.accelerator,
        count=AFTER,
    )
    if answer.finding:
        raise CheckFailed(answer.finding)
    for name, losses in answer.value.items():
        _same(name, losses, unbroken[name], numbers)


def _same(
    name: str,
    resumed: list[float],
    unbroken: list[float],
    numbers: Numbers,
    *,
    limit: float = 1e-5,
) -> None:
    errors = [abs(a - b) for a, b in zip(resumed, unbroken, strict=True)]
    error = max(errors)
    numbers.record(name, error, "nats")
    if not error <= limit:
        fail(
            "resume-differs",
            f"{name}: resumed losses differ by {error:.2g} from the uninterrupted run",
            [f"uninterrupted {unbroken}", f"resumed {resumed}"],
        )


@check("resume.state", stands_for=MIXED)
def test_state(device: torch.device, numbers: Numbers, tmp_path: Path) -> None:
    """After a resume in the right order all state is on the device, and training continues."""
    path = _checkpoint(device, tmp_path)
    whole = training.Whole("AdamW", device, seed=1)
    whole.load(path)
    if lost := training.mismatches(whole.model, whole.update):
        fail(
            "mixed-devices-on-resume",
            f"the optimizer does not match its model: {lost[0]}",
            lost,
        )
    losses = training.steps(whole.model, whole.update, 2, device)
    numbers.sample("loss", losses, "nats")


@check("resume.order", stands_for=MIXED)
def test_order(device: torch.device, tmp_path: Path) -> None:
    """Optimizer state that was loaded before the move to a device is detected."""
    state = torch.load(_checkpoint(device, tmp_path), map_location="cpu")
    model = training.network(seed=1)
    update = training.optimizer("AdamW", model.parameters())
    update.load_state_dict(state["optimizer"])
    # A CPU target has no other device to move to but the meta device.
    model.to(device if device.type != "cpu" else "meta")
    if not training.mismatches(model, update):
        fail(
            "wrong-order-unnoticed",
            "optimizer state on the wrong device was not detected",
            [f"torch {torch.__version__}", f"device {device}"],
        )


def _checkpoint(device: torch.device, folder: Path) -> str:
    whole = training.Whole("AdamW", device, seed=0)
    path = str(folder / "checkpoint.pt")
    whole.train(BEFORE)
    whole.save(path)
    return path


@check(
    "resume.trains",
    stands_for="an optimizer built before the move trains nothing, without an error",
)
def test_trains(device: torch.device, numbers: Numbers) -> None:
    """A step changes every weight, also for an optimizer built before the move to the device."""
    model = training.network(seed=0)
    update = training.optimizer("SGD", model.parameters())
    model.to(device)
    placed(device, *model.state_dict().values())
    before = training.to_cpu(dict(model.state_dict()))
    training.steps(model, update, 1, device)
    after = training.to_cpu(dict(model.state_dict()))
    idle = []
    for name, weight in before.items():
        if torch.equal(weight, after[name]):
            idle.append(name)
    numbers.record("trained", len(before) - len(idle), "tensors")
    if idle:
        fail(
            "optimizer-trains-nothing",
            f"{len(idle)} of {len(before)} weights did not change in a step: {idle[0]}",
            idle,
        )


@check(
    "resume.portable",
    stands_for="a checkpoint made on a GPU can't be read where there is none",
    when=on_gpu,
    full=True,
)
def test_portable(device: torch.device, numbers: Numbers, tmp_path: Path) -> None:
    """A checkpoint of the device can be trained on the CPU, and the other way round."""
    cpu = torch.device("cpu")
    whole = training.Whole("AdamW", device, seed=0)
    training.steps(whole.model, whole.update, BEFORE, device)
    for here, there in ((device, cpu), (cpu, device)):
        numbers.step(f"from {here} to {there}")
        path = str(tmp_path / f"{here.type}.pt")
        # As programs save: without moving the tensors to the CPU first.
        state = {
            "model": whole.model.state_dict(),
            "optimizer": whole.update.state_dict(),
        }
        torch.save(state, path)
        unbroken = training.steps(whole.model, whole.update, AFTER, here)
        whole = training.Whole("AdamW", there, seed=1)
        whole.load(path)
        resumed = training.steps(whole.model, whole.update, AFTER, there)
        _same(f"on {there.type}", resumed, unbroken, numbers, limit=1e-3)


def has_scaler(expect: Expect) -> str:
    """Apply where torch has a gradient scaler for every device: 2.3 and later."""
    return "" if expect.release("torch") >= (2, 3) else "needs torch 2.3 or later"


@check(
    "resume.scaler",
    stands_for="after a resume the loss scale is reset, and the first steps are lost",
    when=has_scaler,
    needs=(capabilities.float64,),  # GradScaler.unscale_ computes 1 / scale in float64
    full=True,
)
def test_scaler(device: torch.device, numbers: Numbers) -> None:
    """A gradient scaler skips a step with infinite gradients, and a resumed one keeps its scale."""
    scaler = torch.amp.GradScaler(device.type, init_scale=1024.0, growth_interval=1)
    weight = torch.nn.Parameter(torch.ones(3, device=device))
    update = torch.optim.SGD([weight], lr=0.1)
    for factor in (1.0, float("inf")):
        update.zero_grad()
        loss = (weight * factor).sum()
        scaler.scale(loss).backward()
        scaler.step(update)
        scaler.update()
    resumed = torch.amp.GradScaler(device.type)
    resumed.load_state_dict(scaler.state_dict())
    right = torch.full((3,), 0.9).double()
    error = reference.error(weight.detach(), right)
    numbers.within("weight", error, 1e-6)
    _same("scale", [resumed.get_scale()], [1024.0], numbers)  # doubled once, and halved
