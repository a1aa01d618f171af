"""Optimizers and trainings that are interrupted: save, resume, and compare."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler
from torch.utils._pytree import tree_map_only

from smoke.device import devices

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": partial(torch.optim.SGD, lr=0.05, momentum=0.9),
    "Adam": partial(torch.optim.Adam, lr=0.01),
    "AdamW": partial(torch.optim.AdamW, lr=0.01, weight_decay=0.1),
}


def network(seed: int) -> nn.Module:
    """Return a small classifier on the CPU."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.BatchNorm1d(8),
        nn.Linear(8, 16),
        nn.GELU(),
        nn.LayerNorm(16),
        nn.Linear(16, 4),
    )


def optimizer(name: str, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return an optimizer of this name with our settings."""
    return OPTIMIZERS[name](parameters)


def steps(
    model: nn.Module,
    update: torch.optim.Optimizer,
    count: int,
    device: torch.device,
    schedule: Any = None,
) -> list[float]:
    """Train on one fixed batch, with a schedule on a noisy one; return the loss of each step."""
    generator = torch.Generator().manual_seed(9)
    x = torch.randn(6, 8, generator=generator).to(device)
    y = torch.arange(6).remainder(4).to(device)
    losses = []
    for _ in range(count):
        update.zero_grad()
        noise: Any = 0.0
        if schedule:
            # Drawn on the host as by a loader, and on the device as by dropout.
            noise = torch.randn(6, 8).to(device) + torch.randn_like(x)
        loss = nn.functional.cross_entropy(model(x + noise), y)
        loss.backward()
        update.step()
        if schedule:
            schedule.step()
        losses.append(loss.item())
    return losses


def to_cpu(state: Any) -> Any:
    """Return a copy of a state with every tensor on the CPU."""
    return tree_map_only(Tensor, _copied, state)


def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().clone()


class Whole:
    """A training, with the parts that a checkpoint of it has to hold."""

    def __init__(self, name: str, device: torch.device, seed: int) -> None:
        self.device = device
        self.model = network(seed).to(device)
        self.update = optimizer(name, self.model.parameters())
        warm = lr_scheduler.LinearLR(self.update, 0.1)
        cool = lr_scheduler.CosineAnnealingLR(self.update, 9)
        self.schedule = lr_scheduler.SequentialLR(self.update, [warm, cool], [3])
        self.parts = {
            "model": self.model,
            "optimizer": self.update,
            "schedule": self.schedule,
        }
        if hasattr(torch.amp, "GradScaler"):  # since torch 2.3
            scale = 512.0 / (seed + 1)
            self.parts["scaler"] = torch.amp.GradScaler(device.type, init_scale=scale)
        self._backend = devices.backend(device)

    def train(self, count: int) -> list[float]:
        """Train; return losses, rate, scale, and the sum of the running statistics."""
        losses = steps(self.model, self.update, count, self.device, self.schedule)
        scale = 0.0
        if "scaler" in self.parts:
            scale = self.parts["scaler"].get_scale()
        statistics = sum(float(buffer.sum()) for buffer in self.model.buffers())
        return [*losses, *self.schedule.get_last_lr(), scale, statistics]

    def save(self, path: str) -> None:
        """Write a checkpoint that any machine can read."""
        state = {name: dict(part.state_dict()) for name, part in self.parts.items()}
        state["host"] = torch.get_rng_state()
        if hasattr(self._backend, "get_rng_state"):
            state["device"] = self._backend.get_rng_state(self.device)
        torch.save(to_cpu(state), path)

    def load(self, path: str) -> None:
        """Go on from a checkpoint, in the right order: the model is on its device by now."""
        state = torch.load(path, map_location="cpu")
        for name in self.parts.keys() & state.keys():
            self.parts[name].load_state_dict(state[name])
        if "host" in state:
            torch.set_rng_state(state["host"])
        if "device" in state:
            self._backend.set_rng_state(state["device"], self.device)


def mismatches(model: nn.Module, update: torch.optim.Optimizer) -> list[str]:
    """Return what in an optimizer does not match its model.

    That is state on another device than its parameter (step counters stay on the CPU by design),
    and parameters that the model does not hold any more: moving a model can replace them.
    """
    lines = []
    of_model = set(map(id, model.parameters()))
    for group in update.param_groups:
        for parameter in group["params"]:
            if id(parameter) not in of_model:
                lines.append(f"a parameter on {parameter.device} is not the model's")
    for parameter, state in update.state.items():
        place = parameter.device
        for key, value in state.items():
            if key == "step" or not isinstance(value, Tensor):
                continue
            if value.device != place:
                lines.append(f"{key} on {value.device}, parameter on {place}")
    return sorted(lines)


def get_ready() -> None:
    """Make an optimizer, for which torch imports its compiler: more than a second."""
    optimizer("SGD", network(seed=0).parameters())


def resumed(
    paths: dict[str, str], accelerator: str, count: int
) -> dict[str, list[float]]:
    """Resume each checkpoint and train on; runs in a fresh process (`child_process.call`)."""
    trained = {}
    for name, path in paths.items():
        whole = Whole(name, devices.of(accelerator), seed=1)
        whole.load(path)
        trained[name] = whole.train(count)
    return trained
