"""A training that is interrupted: save it, resume it, and compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from smoke import device as devices

if TYPE_CHECKING:
    from collections.abc import Iterable

OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "SGD": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
    "Adam": (torch.optim.Adam, {"lr": 0.01}),
    "AdamW": (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
}


def network(seed: int) -> nn.Module:
    """Return a small classifier on the CPU."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def optimizer(name: str, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return an optimizer of this name with our settings."""
    kind, settings = OPTIMIZERS[name]
    return kind(parameters, **settings)


def steps(
    model: nn.Module, update: torch.optim.Optimizer, count: int, device: torch.device
) -> list[float]:
    """Train on one fixed batch; return the loss of each step."""
    generator = torch.Generator().manual_seed(9)
    x = torch.randn(6, 8, generator=generator).to(device)
    y = torch.arange(6).remainder(4).to(device)
    losses = []
    for _ in range(count):
        update.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        update.step()
        losses.append(loss.item())
    return losses


def to_cpu(state: Any) -> Any:  # noqa: ANN401 - a nested state of any types
    """Return a copy of a state with every tensor on the CPU."""
    return tree_map(
        lambda leaf: leaf.detach().cpu().clone() if isinstance(leaf, torch.Tensor) else leaf, state
    )


def save(path: str, model: nn.Module, update: torch.optim.Optimizer) -> None:
    """Write a checkpoint that any machine can read."""
    state = {"model": dict(model.state_dict()), "optimizer": update.state_dict()}
    torch.save(to_cpu(state), path)


def resume(path: str, name: str, device: torch.device) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Resume in the right order: weights, then device, then the optimizer and its state."""
    state = torch.load(path, map_location="cpu")
    model = network(seed=1)
    model.load_state_dict(state["model"])
    model.to(device)
    update = optimizer(name, model.parameters())
    update.load_state_dict(state["optimizer"])
    return model, update


def mismatches(model: nn.Module, update: torch.optim.Optimizer) -> list[str]:
    """Return what in an optimizer does not match its model.

    That is state on another device than its parameter (step counters stay on the CPU by design),
    and parameters that the model does not hold any more: moving a model can replace them.
    """
    ours = {id(parameter) for parameter in model.parameters()}
    held = [parameter for group in update.param_groups for parameter in group["params"]]
    foreign = [
        f"a parameter on {each.device} is not the model's" for each in held if id(each) not in ours
    ]
    strays = [
        f"{key} on {value.device}, parameter on {parameter.device}"
        for parameter, state in update.state.items()
        for key, value in state.items()
        if isinstance(value, torch.Tensor) and key != "step" and value.device != parameter.device
    ]
    return sorted(foreign + strays)


def resumed_losses(paths: dict[str, str], accelerator: str, count: int) -> dict[str, list[float]]:
    """Resume each checkpoint and train on; runs in a fresh process (`smoke.child_process.call`)."""
    device = devices.of(accelerator)
    return {name: steps(*resume(path, name, device), count, device) for name, path in paths.items()}
