"""Operators that programs use, each with inputs of a real size, for comparison with the CPU.

A case runs on the device in the dtype under test, and on the CPU in float64 with the same values.
Inputs are made so that rounding does not decide: values to be ordered are distinct, nothing is near
a pole. Of each case `variants` makes others. `smoke.reference.tables` has the cases.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it
from torch.nn.utils import rnn

from smoke.reference import reference
from smoke.reference.reference import noise

Inputs = Callable[[], tuple[torch.Tensor, ...]]


def rows(count: int = 1, *shape: int) -> Inputs:
    """Return noise, several times; 4,097 columns end inside of a block of each reduction kernel."""
    return lambda: tuple(
        noise(*(shape or (33, 4097)), seed=seed) for seed in range(count)
    )


def whole(high: int, *shape: int) -> Inputs:
    """Return non-negative integers below a limit."""
    return lambda: (
        torch.randint(high, shape, generator=torch.Generator().manual_seed(4)),
    )


def drawn(*shapes: tuple[int, ...]) -> Inputs:
    """Return noise of several shapes: an image, a filter and a bias."""
    return lambda: tuple(noise(*shape, seed=seed) for seed, shape in enumerate(shapes))


def distinct() -> tuple[torch.Tensor, ...]:
    """Return rows of distinct numbers that float16 and bfloat16 both hold, in random order."""
    return (noise(513, 256).argsort(-1).sub(128).float(),)


def indexed() -> tuple[torch.Tensor, ...]:
    """Return rows, indices into them, and values of the indices' shape."""
    return noise(33, 4097), *whole(4097, 33, 2000)(), noise(33, 2000, seed=2)


class Case(NamedTuple):
    """One operator: a function, and what makes its inputs on the CPU.

    The function returns a tensor or several; the gradients of the first are compared, too, where it
    has any. Floating inputs are cast to the dtype under test.
    """

    run: Callable[..., Any]
    inputs: Inputs = rows()
    # How many results, one after the other, some device rounds to half precision on the way to one
    # element: more than 8 where it adds up in that type; 0 for a case of float32 only.
    roundings: int = 8
    float32: float = reference.LIMITS[torch.float32]  # the limit in that type
    called: str = ""  # what of `offered` it is, besides the functions that it calls
    spared: str = (
        ""  # values and layouts of `variants` that have no defined result, or "all"
    )


def _attention(shape: list[int], mask: str = "none") -> Case:
    """Return a call of attention; the mask: causal, last, boolean, additive, padded, none."""
    heads, groups, length, keys, size = shape

    def run(query: torch.Tensor, *pair: torch.Tensor) -> torch.Tensor:
        first, second = (
            torch.arange(count, device=query.device) for count in (length, keys)
        )
        places = (7 * first[:, None] + 3 * second) % 5
        floor = torch.finfo(query.dtype).min
        bias = {
            "boolean": places > 0,
            "additive": (places / 2).to(query.dtype),
            "padded": (second + 0 * places < 128).to(query.dtype) * floor,
            "last": second <= first[:, None] + keys - length,
        }.get(mask)
        key, value = (x.repeat_interleave(heads // groups, 1) for x in pair)
        if query.dtype == torch.float64:
            bias = torch.zeros(1) if mask == "none" else bias
            return reference.attention(query, key, value, bias)
        # With torch 2.5 came enable_gqa, which XPU's first kernels did not take.
        itself = "enable_gqa" in (F.scaled_dot_product_attention.__doc__ or "")
        if heads != groups and itself and query.device.type != "xpu":
            return F.scaled_dot_product_attention(query, *pair, bias, enable_gqa=True)
        causal = mask == "causal"
        return F.scaled_dot_product_attention(query, key, value, bias, is_causal=causal)

    # Scores of up to 8 are rounded, which moves their weights by 8 u.
    return Case(
        run,
        lambda: (
            noise(1, heads, length, size),
            noise(1, groups, keys, size, seed=1),
            noise(1, groups, keys, size, seed=2),
        ),
        16,
        spared="all",
    )


def images(groups: int) -> Inputs:
    """Return images of 32 channels, and the weights of a convolution in groups."""
    return lambda: (noise(2, 32, 25, 29), noise(32, 32 // groups, 3, 3, seed=1))


def in_place(x: torch.Tensor, name: str, *more: Any) -> torch.Tensor:
    """Call a method that writes to a copy of a tensor in the same layout; return the copy."""
    found: torch.Tensor = getattr(x.detach().clone(), name)(*more)
    return found


def written(x: torch.Tensor) -> torch.Tensor:
    """Write to overlapping views of a tensor, one after the other."""
    x[:, ::2].mul_(2)
    x.mT[3:9].add_(x.mT[:6].clone())
    x.diagonal().zero_()
    return x


def flat(found: Any) -> list[torch.Tensor]:
    """Return the tensors of a result, one after the other."""
    return (
        [found]
        if isinstance(found, torch.Tensor)
        else [x for part in found for x in flat(part)]
    )


def slopes(
    results: list[torch.Tensor], leaves: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Return the gradients of a weighted sum of results, none where they have none."""
    results = [each for each in results if each.requires_grad]
    # Weights that are nearly equal would cancel in the gradient of a normalisation.
    weights = [
        noise(x.numel(), dtype=x.dtype, seed=7).sign().add(0.25) for x in results
    ]
    weights = [
        w.view(x.shape).to(x.device) for w, x in zip(weights, results, strict=True)
    ]
    if not (results and leaves):
        return []
    found = torch.autograd.grad(results, leaves, weights, allow_unused=True)
    return [each for each in found if each is not None]


def of(module: nn.Module, x: torch.Tensor) -> nn.Module:
    """Return a module with weights that each type holds, on the device and in the type of x."""
    for number, weight in enumerate(module.parameters()):
        weight.data.copy_(
            noise(*weight.shape, seed=number).mul(16).round().clamp(-32, 32) / 64
        )
    return module.to(x)


def trained(module: nn.Module, *x: torch.Tensor) -> list[torch.Tensor]:
    """Return what a module makes, its weights' gradients, x frozen, its buffers, and evaluation."""
    made = flat(of(module, x[0])(*x))
    frozen = flat(module(*(each.detach() for each in x)))
    made += [*slopes(frozen, [*module.parameters()]), *module.buffers()]
    with torch.no_grad():
        return made + flat(module.eval()(*x))


def packed(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Return what a recurrent module makes of sequences of many lengths, packed or one by one."""
    lengths, module = [len(x) - 3 * n % 7 for n in range(x.shape[1])], of(module, x)
    if x.dtype == torch.float64:
        return rnn.pad_sequence([module(x[:n, i])[0] for i, n in enumerate(lengths)])
    found = module(
        rnn.pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
    )[0]
    return rnn.pad_packed_sequence(found)[0]


def dropped(
    run: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
) -> torch.Tensor:
    """Return a quotient that is 1 where backward draws what a random, linear function drew."""
    found = run(x := x.detach().requires_grad_())
    found = run(x := x.detach().requires_grad_())
    (slope,) = torch.autograd.grad(found, x, found.detach())
    return (slope * x).sum() / found.square().sum()


def stepped(
    kind: str, *x: torch.Tensor, scale: float = 0.0, **options: Any
) -> torch.Tensor:
    """Return rows of weights after steps; scaled, the second is skipped, as a scaler asks for."""
    wide = x[0].dtype == torch.float64
    options |= (
        dict.fromkeys(options.keys() & {"foreach", "fused"}, False) if wide else {}
    )
    weights = [nn.Parameter(part.clone()) for part in x[0].detach()]
    update = getattr(torch.optim, kind)(weights, **options)
    for turn, gradients in enumerate(x[1:]):
        for weight, gradient in zip(weights, gradients.detach(), strict=True):
            weight.grad = gradient * (1.0 if wide else scale or 1.0)
        if scale and not wide:
            update.grad_scale, update.found_inf = map(
                x[0].new_tensor, (scale, float(turn == 1))
            )
        if not (wide and scale and turn == 1):
            update.step()
    return torch.stack(weights).detach()


def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return a product of matrices that fp8 holds, of which each row has its scale."""
    a, b = (each.detach().clamp(-3, 3).mul(4).round() / 4 for each in (x, y))
    first, second = (
        torch.arange(len(each), device=x.device)[:, None] / 8 + 1 for each in (x, y)
    )
    if x.dtype == torch.float64:
        return (a * first) @ (b * second).mT
    a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).mT
    return torch._scaled_mm(a, b, first, second.mT, out_dtype=torch.bfloat16).float()


def statistics(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return a normalised batch, and its mean and variance as evaluation will use them."""
    mean, var = x.detach().new_zeros(x.shape[1]), x.detach().new_ones(x.shape[1])
    return F.batch_norm(x, mean, var, training=True, momentum=0.9), mean, var


def filled_parts(x: torch.Tensor) -> list[torch.Tensor]:
    """Return copies of which the end of the last row was written to, by methods in place."""
    end = x.detach()[-1:, 1:]
    changes: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("fill_", (7.0,)),
        ("add_", (1,)),
        ("neg_", ()),
        ("copy_", (x.detach()[:1, 1:],)),
        ("masked_fill_", (end > 0, 2.0)),
    )
    copies = []
    for method, arguments in changes:
        copy = x.detach().clone()
        getattr(copy[-1:, 1:], method)(*arguments)
        copies.append(copy)
    return copies


def at(offset: int, run: Callable[[torch.Tensor], Any]) -> Callable[..., Any]:
    """Return a function of integers that are moved beyond what floating types hold."""
    return lambda x: run(x + offset)


def cases(
    rows: dict[str, Callable[..., Any]],
    inputs: Inputs = rows(),  # noqa: B008 - a function that makes them
    *,
    roundings: int = 8,
    float32: float = reference.LIMITS[torch.float32],
    spared: str = "",
    since: str = "gelu",
) -> dict[str, Case]:
    """Return the cases of a group of rows that share inputs and limits; see `Case`.

    Args:
        rows: Functions by their names.
        inputs: What makes the inputs of each.
        roundings: See `Case`, as for the other options.
        float32: The limit in that type.
        spared: Values and layouts of `variants` without a defined result.
        since: A function of `torch.nn.functional` that this torch must have.
    """
    if not hasattr(F, since):
        return {}
    if not roundings:  # transforms, matrices
        spared += " NaN infinity"
    return {
        name: Case(run, inputs, roundings, float32, spared=spared)
        for name, run in rows.items()
    }


ATTENTION = {
    "causal": _attention([2, 2, 257, 257, 64], "causal"),
    "plain": _attention([2, 2, 256, 256, 128]),
    "grouped heads": _attention([8, 2, 200, 200, 64], "boolean"),
    "cross": _attention([2, 2, 129, 77, 40], "additive"),
    "one word": _attention([4, 4, 1, 300, 128]),
    "one of many words": _attention([2, 2, 1, 1100, 64]),
    "causal of few": _attention([2, 2, 3, 300, 64], "causal"),
    "last words": _attention([2, 2, 3, 300, 64], "last"),
    "padded": _attention([2, 2, 37, 300, 64], "padded"),
    "long": _attention([1, 1, 2048, 2048, 64]),
    "long causal": _attention([1, 1, 2048, 2048, 128], "causal"),
}
