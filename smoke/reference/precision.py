"""Models against float64, by limits that are derived: what the rounding of each step changes.

The reference is computed twice, once with the result of every operator, those of the backward pass
too, rounded to fewer bits than the type under test has. What that changes is the limit.
"""

import copy
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from smoke.device import devices
from smoke.engine.check import Numbers
from smoke.reference import reference

# Their results are of the numbers that they get: no type rounds them.
CHOOSES = re.compile(
    "aten::(a?(max|min)|aminmax|sort|topk|kthvalue|(nan)?median|cum(max|min))"
)
# The types have 24, 11 and 8 bits. A kernel in float32 rounds often where the reference rounds
# once, and emulated functions are some units off; half types are summed in float32. Before cuDNN
# convolves it makes TF32 of float32, which has the bits of float16.
BITS = {torch.float32: 16, torch.float16: 8, torch.bfloat16: 6}


class Each(TorchDispatchMode):
    """Gives each operator, its arguments and its result to a function, which returns the result."""

    def __init__(self, act: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        self._act = act

    def __torch_dispatch__(
        self, operator: Any, _: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self._act(operator, args, operator(*args, **(kwargs or {})))


def rounded(bits: int) -> Each:
    """Round what each operator computes in float64, by Veltkamp's splitting."""
    split = 2.0 ** (53 - bits) + 1

    def cut(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float64:
            return value
        large = value * split
        return torch.where(value.isfinite(), large - (large - value), value)

    def act(operator: Any, _: Any, found: Any) -> Any:
        exact = operator.is_view or CHOOSES.fullmatch(operator._schema.name)
        return found if exact else tree_map(cut, found)

    return Each(act)


@contextmanager
def recorded(device: torch.device, numbers: Numbers) -> Iterator[None]:
    """Journal the names of the operators that run on a device."""
    names = set()

    def note(operator: Any, args: Any, found: Any) -> Any:
        leaves = tree_flatten((args, found))[0]
        if device.type in (
            each.device.type for each in leaves if isinstance(each, torch.Tensor)
        ):
            names.add(operator._schema.name)
        return found

    with Each(note):
        yield
    numbers.journal.write(operators=sorted(names))


def half_types(device: torch.device) -> list[torch.dtype]:
    """Return the dtypes of autocast on the device; older torch has only bfloat16 on the CPU."""
    return [torch.bfloat16] if device.type == "cpu" else [torch.bfloat16, torch.float16]


def prove(
    device: torch.device,
    numbers: Numbers,
    model: nn.Module,
    *x: torch.Tensor,
    amp: bool = False,
) -> None:
    """Fail the check if a model on a device differs from itself in float64 on the CPU.

    The last of what it gets are the classes or values for its loss. In half types only the output
    is compared; under autocast (``amp``) the gradients, too.
    """
    convolves = any(
        isinstance(each, (nn.Conv1d, nn.Conv2d)) for each in model.modules()
    )
    for dtype in half_types(device) if amp else reference.dtypes(device):
        name, stored = reference.short(dtype), torch.float32 if amp else dtype
        tf32 = convolves and dtype == torch.float32 and devices.kind(device) == "cuda"
        # The CPU of torch before 2.3, without float16: its gradients of GELU and of attention read
        # and write beyond their memory where a transposed view comes in.
        trains = stored == torch.float32 and torch.float16 in reference.dtypes(device)
        numbers.step(f"{name} on {device}")
        wide, rounding = (
            (stored, torch.float64),
            rounded(BITS[torch.float16 if tf32 else dtype]),
        )
        right = _values(model, x, wide, nullcontext(), trains=trains)
        near = _values(model, x, wide, rounding, trains=trains)
        cast = torch.autocast(device.type, dtype) if amp else nullcontext()
        with recorded(device, numbers):
            found = _values(model, x, (stored, device), cast, trains=trains)
        for kind, exact in right.items():
            limit = _distance(near[kind], exact)
            numbers.within(f"{name} {kind}", _distance(found[kind], exact), limit)


def _values(
    model: nn.Module,
    given: Iterable[torch.Tensor],
    places: Any,
    context: Any,
    *,
    trains: bool,
) -> dict[str, list[torch.Tensor]]:
    """Return the output of a copy in these types and places, and what it gets if it trains."""
    model = copy.deepcopy(model)
    for place in places:
        model, moves = model.to(place), isinstance(place, torch.device)
        given = [x.to(place) if moves or x.is_floating_point() else x for x in given]
    *inputs, wanted = given
    with context, torch.set_grad_enabled(trains):
        output = model(*inputs)
        output = output if isinstance(output, torch.Tensor) else output[0]
        if not trains:
            return {"output": [output]}
        if wanted.is_floating_point():
            loss = nn.functional.mse_loss(output, wanted)
        else:  # classes are the second dimension, but words the last
            words = output.shape[:2] == wanted.shape
            loss = nn.functional.cross_entropy(
                output.transpose(1, 2) if words else output, wanted
            )
        # Half types have no gradients as small as these: that is what a scaler is for.
        gradients = torch.autograd.grad(loss * 1024, list(model.parameters()))
    found = {"output": [output, loss], "gradient": [each / 1024 for each in gradients]}
    kept = [each for name, each in model.named_buffers() if "running" in name]
    return found | ({"statistics": kept} if kept else {})


def _distance(some: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    """Return the relative deviation, as the root of the mean square over the tensors."""
    sizes = [float(each.norm()) for each in exact]
    # What is zero by design, such as the gradient of a bias before a normalisation, is noise.
    least = 0.1 * sorted(sizes)[len(sizes) // 2]
    shares = [
        float((one.detach().cpu().double() - other).norm()) / max(size, least)
        for one, other, size in zip(some, exact, sizes, strict=True)
    ]
    return math.hypot(*shares) / math.sqrt(len(shares))
