"""Programs whose result is known: each returns what it has and what it should have.

A program is a function of the device and of an empty folder, in a group that names its library.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from smoke.device import devices
from smoke.reference import models

Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        library: What it needs.
        run: Returns two values that are equal.
        limit: The relative error that is allowed.
    """

    library: str
    run: Callable[[torch.device, Path], Pair]
    limit: float

    @property
    def name(self) -> str:
        """What the report calls it."""
        return self.run.__name__.replace("_", " ")


PROGRAMS: list[Program] = []


def program(library: str, limit: float = 0.0) -> Callable[..., Any]:
    """Mark a function as a program of a library."""

    def mark(run: Callable[[torch.device, Path], Pair]) -> Callable[..., Pair]:
        PROGRAMS.append(Program(library, run, limit))
        return run

    return mark


@program("torch")
def groups_of_sgd(device: torch.device, _folder: Path) -> Pair:
    """Groups of SGD: as documented."""
    parts = [torch.nn.Parameter(torch.ones(3, device=device)) for _ in range(3)]
    groups = [
        {"params": parts[:1]},
        {"params": parts[1:2], "lr": 0.25},
        {"params": parts[2:], "weight_decay": 0.5},
    ]
    update = torch.optim.SGD(groups, lr=0.5)
    for part in parts:
        part.grad = torch.full_like(part, 0.5)
    update.step()
    return torch.stack(parts)[:, 0], [0.75, 0.875, 0.5]


@program("torch", limit=1e-05)
def groups_of_adamw(device: torch.device, _folder: Path) -> Pair:
    """The first step of each weight is its rate."""
    parts = [torch.nn.Parameter(torch.ones(3, device=device)) for _ in range(3)]
    groups = [
        {"params": parts[:1]},
        {"params": parts[1:2], "lr": 0.2},
        {"params": parts[2:], "weight_decay": 0.5},
    ]
    update = torch.optim.AdamW(groups, lr=0.1, weight_decay=0.0)
    for part in parts:
        part.grad = torch.full_like(part, 0.5)
    update.step()
    return torch.stack(parts)[:, 0], [0.9, 0.8, 0.85]


@program("torch", limit=1e-06)
def rates(_device: torch.device, _folder: Path) -> Pair:
    """Rates: as documented."""
    from math import cos, pi

    from torch.optim import lr_scheduler as s

    def rates(kind: Any, *more: Any, **named: Any) -> list[float]:
        update = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=8.0)
        found, schedule = [], kind(update, *more, **named)
        for _ in range(6):
            found.append(update.param_groups[0]["lr"])
            update.step()
            schedule.step()
        return found

    found = [
        rates(s.StepLR, 2, 0.5),
        rates(s.MultiStepLR, [1, 4], 0.25),
        rates(s.ExponentialLR, 0.5),
        rates(s.CosineAnnealingLR, 4, 2.0),
        rates(s.LinearLR, 0.25, 1.0, 3),
        rates(s.LambdaLR, lambda n: 1 / (n + 1)),
        rates(s.CosineAnnealingWarmRestarts, 3),
        rates(s.ConstantLR, 0.5, 2),
    ]
    right = [
        [8, 8, 4, 4, 2, 2],
        [8, 2, 2, 2, 0.5, 0.5],
        [8 / 2**n for n in range(6)],
        [5 + 3 * cos(pi * n / 4) for n in range(6)],
        [2, 4, 6, 8, 8, 8],
        [8 / (n + 1) for n in range(6)],
        [4 + 4 * cos(pi * n / 3) for n in (0, 1, 2) * 2],
        [4, 4, 8, 8, 8, 8],
    ]
    return found, right


@program("torch")
def autocast(device: torch.device, _folder: Path) -> Pair:
    """Autocast: as documented."""
    x, w = torch.ones(2, 4, 6, 6, device=device), torch.ones(4, 4, 3, 3, device=device)
    a = w.flatten(1).mT
    with torch.autocast(device.type, torch.bfloat16):
        low = [
            functional.conv2d(x, w),
            functional.conv1d(x[..., 0], w[..., 0]),
            functional.linear(a, a),
            a @ a.mT,
            torch.bmm(a[None], a.mT[None]),
        ]
        with torch.autocast(device.type, enabled=False):
            wide = [functional.conv2d(x, w), functional.linear(a, a), a @ a.mT]
    return [each.dtype == torch.bfloat16 for each in low] + [
        each.dtype == torch.float32 for each in wide
    ], [True] * 8


@program("torch")
def parts_of_a_sampler(_device: torch.device, _folder: Path) -> Pair:
    """Parts of a sampler: as documented."""
    from torch.utils.data import distributed as d

    parts = [
        d.DistributedSampler(range(7), 2, rank, shuffle=False) for rank in range(2)
    ]
    drawn = d.DistributedSampler(range(99), 2, 1)
    first = [*drawn]
    drawn.set_epoch(1)
    return [*map(list, parts), [first != [*drawn]] * 4], [
        [0, 2, 4, 6],
        [1, 3, 5, 0],
        [1] * 4,
    ]


@program("torch")
def frozen_weights(_device: torch.device, folder: Path) -> Pair:
    """Frozen weights: as documented."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    model[0].requires_grad_(requires_grad=False)
    model[1].running_mean += 3
    torch.save(model.eval(), folder / "model.pt")
    again = torch.load(folder / "model.pt", weights_only=False)
    for each in again.parameters():
        each.data += 1
    return [each.requires_grad for each in again.parameters()] + [
        again.training,
        *again[1].running_mean - model[1].running_mean,
        *(again[0].bias - model[0].bias).round(),
    ], [0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1]


@program("torch")
def loading(device: torch.device, folder: Path) -> Pair:
    """Loading: as documented."""
    from copy import deepcopy

    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2)).to(
        device
    )
    other = deepcopy(model)
    for each in [*other.parameters(), other[0].running_mean, other[0].running_var]:
        each.data += 1
    apart = [
        float((a - b).abs().min() > 0.5)
        for a, b in zip(model.parameters(), other.parameters(), strict=True)
    ]
    torch.save(other.state_dict(), folder / "state.pt")
    lacking = model.load_state_dict(
        torch.load(folder / "state.pt", map_location="cpu"), strict=False
    )
    same = [
        torch.equal(a, b)
        for a, b in zip(
            model.state_dict().values(), other.state_dict().values(), strict=True
        )
    ]
    return [*apart, *same, lacking.missing_keys == []], [True] * (
        len(apart) + len(same) + 1
    )


@program("torch")
def roundings(device: torch.device, _folder: Path) -> Pair:
    """Roundings: as documented."""
    x = torch.tensor(
        [2049.0, 2051.0, -2049.0, 1025.5, 257.0, 259.0, -771.0, 0.099999994, 3.0, -2.5],
        device=device,
    )
    return torch.stack(
        [x.half().float(), x.bfloat16().float(), x.int().float(), x.round()]
    ), [
        [2048, 2052, -2048, 1026, 257, 259, -771, 0.0999755859375, 3, -2.5],
        [2048, 2048, -2048, 1024, 256, 260, -772, 0.10009765625, 3, -2.5],
        [2049, 2051, -2049, 1025, 257, 259, -771, 0, 3, -2],
        [2049, 2051, -2049, 1026, 257, 259, -771, 0, 3, -2],
    ]


@program("torch")
def modes_of_gradients(device: torch.device, _folder: Path) -> Pair:
    """Modes of gradients: as documented."""
    x = torch.tensor([1.0, -2.0, 3.0], device=device, requires_grad=True)
    with torch.no_grad():
        y = x * 2
        with torch.enable_grad():
            z = x * 2
    with torch.inference_mode():
        w = x * 2
    modes = [
        y.requires_grad,
        z.requires_grad,
        w.requires_grad,
        z.detach().requires_grad,
    ]
    seen = []

    def scaled(slope: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return slope * 10

    hook = x.register_hook(scaled)
    (x**2).sum().backward()
    hook.remove()
    found = x.square().sum()
    found.backward(retain_graph=True)
    found.backward()
    return [*map(float, x.grad), *modes, len(seen)], [24.0, -48.0, 72.0, 0, 1, 0, 0, 1]


@program("torch", limit=1e-05)
def transforms_of_functions(device: torch.device, _folder: Path) -> Pair:
    """Transforms of functions: as documented."""
    from torch.func import functional_call, grad, jacrev, vmap

    x = torch.arange(6.0, device=device).view(2, 3)
    layer = torch.nn.Linear(3, 1).to(device)
    weights = {
        "weight": torch.ones(1, 3, device=device),
        "bias": torch.ones(1, device=device),
    }
    return torch.cat(
        [
            vmap(grad(lambda r: r.pow(3).sum()))(x),
            jacrev(lambda r: r * r.sum())(x[0]),
            functional_call(layer, weights, (x,)).expand(2, 3),
        ]
    ), [
        [0, 3, 12],
        [27, 48, 75],
        [3, 0, 0],
        [1, 4, 1],
        [2, 2, 5],
        [4, 4, 4],
        [13, 13, 13],
    ]


@program("torch", limit=1e-05)
def averages_and_clipping(device: torch.device, _folder: Path) -> Pair:
    """Averages and clipping: as documented."""
    from torch.optim.swa_utils import AveragedModel

    model = torch.nn.Linear(1, 2, bias=False).to(device)
    model.weight.data.fill_(1.0)
    mean, moving = (
        AveragedModel(model),
        AveragedModel(model, avg_fn=lambda a, b, _n: 0.75 * a + 0.25 * b),
    )
    for value in (1.0, 3.0, 5.0):
        model.weight.data.fill_(value)
        mean.update_parameters(model)
        moving.update_parameters(model)
    parts = [torch.nn.Parameter(torch.zeros(2, device=device)) for _ in range(2)]
    for part, values in zip(parts, ([3.0, 0.0], [0.0, 4.0]), strict=True):
        part.grad = torch.tensor(values, device=device)
    norm = float(torch.nn.utils.clip_grad_norm_(parts, 2.5))
    largest = float(torch.nn.utils.clip_grad_norm_(parts, 9.0, math.inf))
    clipped = [float(each) for part in parts for each in part.grad]
    torch.nn.utils.clip_grad_value_(parts, 1.75)
    return [
        float(mean.module.weight[0]),
        float(moving.module.weight[0]),
        norm,
        largest,
        *clipped,
        *map(float, parts[1].grad),
    ], [3.0, 2.375, 5.0, 2.0, 1.5, 0, 0, 2.0, 0, 1.75]


@program("torch")
def seeds(device: torch.device, _folder: Path) -> Pair:
    """Seeds: as documented."""

    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return torch.cat(
            [
                torch.rand(9, device=device),
                torch.randn(9, device=device),
                torch.randperm(50, device=device)[:9].float(),
            ]
        )

    first, again, other = drawn(1), drawn(1), drawn(2)
    a, b = (
        torch.utils.data.DataLoader(
            range(50), 50, shuffle=True, generator=torch.Generator().manual_seed(4)
        )
        for _ in range(2)
    )
    heavy = torch.utils.data.WeightedRandomSampler([0.0, 1.0, 0.0, 3.0], 999)
    return [
        torch.equal(first, again),
        torch.equal(first, other),
        torch.equal(next(iter(a)), next(iter(b))),
        set(heavy) == {1, 3},
        sum(each == 3 for each in heavy) > 600,
    ], [1, 0, 1, 1, 1]


@program("torch", limit=1e-05)
def attention_modules(device: torch.device, _folder: Path) -> Pair:
    """The fast paths of evaluation are the slow ones of training; masked words change nothing."""
    layer = models.filled(
        torch.nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)
    ).to(device)
    own = models.filled(torch.nn.MultiheadAttention(32, 4, batch_first=True)).to(device)
    x = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0)).to(device)
    mask = torch.zeros(2, 9, dtype=torch.bool, device=device)
    mask[1, 6:] = True
    slow = [
        layer(x, src_key_padding_mask=mask),
        own(x, x, x, key_padding_mask=mask)[0],
        own(x, x, x, key_padding_mask=mask, need_weights=False)[0],
    ]
    with torch.no_grad():
        layer.eval()
        own.eval()
        fast = [
            layer(x, src_key_padding_mask=mask),
            own(x, x, x, key_padding_mask=mask)[0],
            own(x, x, x, key_padding_mask=mask, need_weights=False)[0],
        ]
        alone = layer(x[1:, :6])
    return torch.cat(
        [*(each[0] for each in fast), *(each[1, :6] for each in fast), alone[0]]
    ), torch.cat(
        [*(each[0] for each in slow), *(each[1, :6] for each in slow), slow[0][1, :6]]
    )


@program("torch", limit=0.02)
def masks_of_dropout(device: torch.device, _folder: Path) -> Pair:
    """Half of the elements of two masks are the same, and all where the generator does not go on."""
    x = torch.ones(100_003, device=device)
    first, *masks = [torch.nn.functional.dropout(x, 0.5) > 0 for _ in range(3)]
    alike = [float((first == each).float().mean()) for each in masks]
    return alike, [0.5, 0.5]


@program("torch")
def copies_to_the_host(device: torch.device, _folder: Path) -> Pair:
    """Copies of a mebibyte and more keep no memory of the device, and their order."""
    held = (
        getattr(devices.backend(device), "memory_allocated", None)
        if devices.kind(device) != "mps"
        else None
    )
    held = held or (lambda: 0)
    x = torch.arange(2.0**19, device=device).view(512, 1024)
    before = held()
    sums = [
        ((x * 1).cpu().double().sum() + (x * 1).mT.cpu()[3].double().sum()).item()
        for _ in range(5)
    ]
    return [held() - before, *sums], [
        0.0,
        *[2.0**18 * (2**19 - 1) + 512 * (511 * 512 + 3)] * 5,
    ]


@program("torch")
def refusals(device: torch.device, _folder: Path) -> Pair:
    """What does not fit is refused, and not read beyond its end."""

    def refused(function: Any, *shapes: Any) -> bool:
        try:
            function(*[torch.ones(shape, device=device) for shape in shapes])
        except (RuntimeError, ValueError):
            return True
        return False

    found = [
        refused(torch.mm, (3, 4), (5, 6)),
        refused(torch.matmul, (2, 3, 4), (2, 5, 6)),
        refused(torch.bmm, (2, 3, 4), (3, 4, 5)),
        refused(functional.linear, (3, 4), (5, 6)),
        refused(functional.conv2d, (1, 3, 5, 5), (4, 2, 3, 3)),
        refused(torch.add, (3, 4), (3, 5)),
        refused(lambda x: functional.layer_norm(x, (5,)), (3, 4)),
        refused(lambda *x: torch.cat(x), (3, 4), (3, 5)),
        refused(torch.mv, (3, 4), (5,)),
        refused(torch.addmm, (3, 7), (3, 4), (4, 6)),
    ]
    return found, [True] * 10


@program("torch")
def counts_of_steps(device: torch.device, _folder: Path) -> Pair:
    """Steps are counted beyond 256, which bfloat16 does not hold, for parameters of that type, too."""
    parts = [
        torch.nn.Parameter(torch.ones(3, device=device, dtype=torch.bfloat16))
        for _ in range(2)
    ]
    first, second = [torch.optim.AdamW([each], lr=0.1) for each in parts]
    parts[0].grad = torch.ones_like(parts[0])
    first.step()
    first.state[parts[0]]["step"] += 256
    second.load_state_dict(first.state_dict())
    return float(second.state[parts[1]]["step"]), 257.0


@program("torch")
def look_ups(device: torch.device, _folder: Path) -> Pair:
    """By their definition: a reference on the CPU would share what is wrong for integers there."""
    rows = [[10 * n + m for m in range(5)] for n in range(300)]
    picks = [7 * n % 300 for n in range(300)]
    x, i = torch.tensor(rows, device=device), torch.tensor(picks, device=device)
    found = [
        x.gather(0, i[:, None])[:, 0],
        x.gather(1, i[:, None] % 5)[:, 0],
        x.take_along_dim(i[:, None], 0)[:, 2],
        x[i, i % 5],
        x.index_select(0, i)[:, 4],
        x.flip(0)[:, 1],
        x.argsort(0, descending=True)[:, 0],
    ]
    ones = torch.ones(40_001, 1, device=device)
    alone = [
        ones.argmin(1),
        ones.argmax(1),
        ones.min(1).indices,
        ones.topk(1).indices[:, 0],
    ]
    right = [
        [rows[p][0] for p in picks],
        [rows[n][p % 5] for n, p in enumerate(picks)],
        [rows[p][2] for p in picks],
        [rows[p][p % 5] for p in picks],
        [rows[p][4] for p in picks],
        [each[1] for each in rows[::-1]],
        [*range(299, -1, -1)],
    ]
    expected = [*chain.from_iterable(right), *[0] * 4 * 40_001]
    return torch.cat([torch.stack(found).flatten(), *alone]), expected


@program("torch", limit=0.001)
def sums_of_a_million(device: torch.device, _folder: Path) -> Pair:
    """One after the other, in float32, they would be off by a hundredth."""
    x = torch.full((1_000_003, 3), 0.1, device=device)
    loss = torch.nn.functional.cross_entropy(
        x, torch.zeros(len(x), dtype=torch.long, device=device)
    )
    return torch.stack(
        [*x.mean(0), *x.sum(0) / len(x), x.mean(), x.mT.mean(1)[0], loss / 10.98612289]
    ), [0.1] * 9


@program("torch")
def loading_to_the_device(device: torch.device, folder: Path) -> Pair:
    """Loading to the device: as documented."""
    torch.save({"w": torch.arange(70_000.0).to(device)}, folder / "w.pt")
    found = [
        torch.load(folder / "w.pt", map_location=where)["w"]
        for where in (device, str(device))
    ]
    return torch.stack([each * (each.device.type == device.type) for each in found]), [
        [*map(float, range(70_000))]
    ] * 2


@program("torch")
def what_a_scaler_sees(device: torch.device, _folder: Path) -> Pair:
    """What a scaler sees: as documented."""

    def seen(value: float) -> list[float]:
        gradients = [torch.ones(count, device=device) for count in (9, 100_003)]
        gradients[1][70_001] = value
        found = torch.zeros(1, device=device)
        torch._amp_foreach_non_finite_check_and_unscale_(
            gradients, found, torch.full_like(found, 0.5)
        )
        return [float(found), float(gradients[0].sum())]

    return [seen(1.0), seen(float("inf")), seen(-float("inf")), seen(float("nan"))], [
        [0.0, 4.5],
        [1.0, 4.5],
        [1.0, 4.5],
        [1.0, 4.5],
    ]


@program("torch")
def peak_of_memory(device: torch.device, _folder: Path) -> Pair:
    """Peak of memory: as documented."""
    peak = getattr(devices.backend(device), "max_memory_allocated", None)
    held = torch.ones(2**20, device=device)
    if peak:
        devices.backend(device).reset_peak_memory_stats()
    return not peak or peak() >= held.nbytes, True


@program("accelerate", limit=1e-05)
def accumulation(_device: torch.device, _folder: Path) -> Pair:
    """Gradients of 2 and 3, clipped to 2.5, at rates of 1 and 0.5; also in one process of many."""
    import os

    import accelerate

    names = [
        name
        for name in os.environ
        if name.endswith(("_SIZE", "RANK")) or name.startswith("ACCELERATE_")
    ]
    kept = {name: os.environ.pop(name) for name in names}
    helper = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(1.0)
    update = torch.optim.SGD(model.parameters(), lr=1.0)
    model, update, schedule = helper.prepare(
        model, update, torch.optim.lr_scheduler.StepLR(update, 1, 0.5)
    )
    rates = []
    for x in (1.0, 3.0, 2.0, 4.0):
        with helper.accumulate(model):
            helper.backward(model(torch.tensor([[x]])).sum())
            if helper.sync_gradients:
                helper.clip_grad_norm_(model.parameters(), 2.5)
            update.step()
            schedule.step()
            update.zero_grad()
        rates.append(schedule.get_last_lr()[0])
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()
    os.environ.update(kept)
    return [model.weight.item(), *rates], [-2.25, 1.0, 0.5, 0.5, 0.25]


@program("accelerate")
def a_saved_state(_device: torch.device, folder: Path) -> Pair:
    """A saved state: as documented."""
    import os

    import accelerate

    names = [
        name
        for name in os.environ
        if name.endswith(("_SIZE", "RANK")) or name.startswith("ACCELERATE_")
    ]
    kept = {name: os.environ.pop(name) for name in names}
    helper = accelerate.Accelerator(cpu=True)
    model = torch.nn.Linear(2, 1)
    update = torch.optim.Adam(model.parameters(), lr=0.5)
    model, update, schedule = helper.prepare(
        model, update, torch.optim.lr_scheduler.StepLR(update, 1, 0.5)
    )

    def step() -> list[float]:
        update.zero_grad()
        helper.backward((model(torch.randn(3, 2)) - 1).square().sum())
        update.step()
        schedule.step()
        return [*model.weight[0].tolist(), *schedule.get_last_lr()]

    step()
    helper.save_state(str(folder))
    right = step() + step()
    helper.load_state(str(folder))
    found = step() + step()
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()
    os.environ.update(kept)
    return found, right


@program("accelerate")
def prepared_batches(_device: torch.device, _folder: Path) -> Pair:
    """Prepared batches: as documented."""
    import os

    import accelerate

    names = [
        name
        for name in os.environ
        if name.endswith(("_SIZE", "RANK")) or name.startswith("ACCELERATE_")
    ]
    kept = {name: os.environ.pop(name) for name in names}
    loader = accelerate.Accelerator(cpu=True).prepare(
        torch.utils.data.DataLoader(range(22), 4, shuffle=True)
    )
    epochs = [torch.cat([*loader]).tolist() for _ in range(3)]
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()
    os.environ.update(kept)
    return [
        *map(sorted, epochs),
        [epochs[0] != epochs[1], epochs[1] != epochs[2]] * 11,
    ], [[*range(22)]] * 3 + [[1] * 22]


@program("transformers")
def beams(device: torch.device, _folder: Path) -> Pair:
    """Beams: as documented."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {
        "vocab_size": 64,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    model = models.filled(LlamaForCausalLM(LlamaConfig(**sizes))).to(device).eval()
    x = torch.arange(1, 13, device=device)[None]
    how = {
        "max_new_tokens": 8,
        "num_beams": 4,
        "do_sample": False,
        "attention_mask": x > 0,
        "pad_token_id": 0,
        "eos_token_id": 99,
    }
    return model.generate(x, **how), model.generate(x, use_cache=False, **how)


@program("transformers")
def padding(device: torch.device, _folder: Path) -> Pair:
    """Of absolute positions, which count from the first word on."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = (
        models.filled(
            GPT2LMHeadModel(
                GPT2Config(
                    vocab_size=64, n_positions=64, n_embd=64, n_layer=2, n_head=4
                )
            )
        )
        .to(device)
        .eval()
    )
    x = torch.arange(1, 25, device=device).view(2, 12)
    x[0, :5] = 0
    how = {
        "max_new_tokens": 8,
        "do_sample": False,
        "pad_token_id": 0,
        "eos_token_id": 99,
    }
    alone = model.generate(x[:1, 5:], attention_mask=x[:1, 5:] > 0, **how)
    return model.generate(x, attention_mask=(x > 0).long(), **how)[0, 12:], alone[0, 7:]


@program("transformers")
def ends(device: torch.device, _folder: Path) -> Pair:
    """One of two ends at its third word, and is filled up."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {
        "vocab_size": 64,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    model = models.filled(LlamaForCausalLM(LlamaConfig(**sizes))).to(device).eval()
    x = torch.arange(1, 13, device=device).view(2, 6)
    how = {
        "max_new_tokens": 8,
        "do_sample": False,
        "attention_mask": torch.ones_like(x),
        "pad_token_id": 0,
    }
    plain = model.generate(x, eos_token_id=99, **how)[:, 6:].cpu()
    end = int(plain[0, 2])
    right = plain.masked_fill(((plain == end).cumsum(1) - (plain == end).long()) > 0, 0)
    found = model.generate(x, eos_token_id=[end, 98], **how)[:, 6:].cpu()
    found = torch.nn.functional.pad(found, (0, 8 - found.shape[1]))
    return found, right


@program("transformers", limit=0.0001)
def a_loss(device: torch.device, _folder: Path) -> Pair:
    """The loss of the next words that are not masked: eager, fused, with recomputed activations."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {
        "vocab_size": 64,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    kinds = [
        LlamaForCausalLM(LlamaConfig(attn_implementation=kind, **sizes))
        for kind in ("eager", "sdpa", "sdpa")
    ]
    kinds = [models.filled(each).to(device).train() for each in kinds]
    kinds[2].gradient_checkpointing_enable()
    x = torch.arange(1, 25, device=device).view(2, 12)
    labels, mask = x.clone(), torch.ones_like(x)
    labels[0, :5], labels[1, 9:], mask[1, 9:] = -100, -100, 0
    found = [each(x, attention_mask=mask, labels=labels) for each in kinds]
    for each in found:
        each.loss.backward()
    right = torch.nn.functional.cross_entropy(
        found[0].logits[:, :-1].reshape(-1, 64).float(), labels[:, 1:].flatten()
    )
    norms = [
        float(torch.cat([part.grad.flatten() for part in each.parameters()]).norm())
        for each in kinds
    ]
    return [*(float(each.loss) for each in found), *norms], [float(right)] * 3 + norms[
        :1
    ] * 3


@program("transformers", limit=1e-05)
def penalties(device: torch.device, _folder: Path) -> Pair:
    """Penalties: as documented."""
    import transformers as t

    words, scores = (
        torch.tensor([[0, 1, 0]], device=device),
        torch.tensor([[-1.0, 1.0, 3.0, 2.0]], device=device),
    )
    odds = torch.tensor([[0.5, 0.3, 0.15, 0.05]], device=device).log()
    found = [
        t.RepetitionPenaltyLogitsProcessor(2.0)(words, scores),
        t.TemperatureLogitsWarper(0.5)(words, scores),
        t.TopKLogitsWarper(2)(words, scores).exp(),
        t.TopPLogitsWarper(0.6)(words, odds).exp(),
        t.MinPLogitsWarper(0.4)(words, odds).exp(),
        t.NoRepeatNGramLogitsProcessor(2)(words, odds).exp(),
    ]
    e2, e3 = torch.tensor([2.0, 3.0]).exp().tolist()
    return torch.cat(found), [
        [-2, 0.5, 3, 2],
        [-2, 2, 6, 4],
        [0, 0, e3, e2],
        [0.5, 0.3, 0, 0],
        [0.5, 0.3, 0, 0],
        [0.5, 0, 0.15, 0.05],
    ]


@program("transformers")
def a_checkpoint_in_several_files(_device: torch.device, folder: Path) -> Pair:
    """A checkpoint in several files: as documented."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {
        "vocab_size": 64,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    model = models.filled(
        LlamaForCausalLM(LlamaConfig(tie_word_embeddings=True, **sizes))
    )
    model.save_pretrained(folder, max_shard_size="50KB")
    again = LlamaForCausalLM.from_pretrained(folder)
    same = [
        torch.equal(one, other)
        for one, other in zip(model.parameters(), again.parameters(), strict=True)
    ]
    return [
        len([*folder.glob("*.safetensors")]) > 2,
        again.lm_head.weight is again.model.embed_tokens.weight,
        *same,
    ], [True] * (2 + len(same))
