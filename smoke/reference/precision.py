"""Models against float64, by limits that are derived: what the rounding of each step changes.

The reference is computed twice, once with the result of every operator, those of the backward pass
too, rounded to fewer bits than the type under test has. What that changes is the limit.
"""

import copy
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
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

    def __init__(self, act: Callable[..., Any]) -> None:
        super().__init__()
        self._act = act

    def __torch_dispatch__(
        self, operator: Any, _: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = operator(*args, **(kwargs or {}))
        return self._act(operator, args, result)


def rounded(bits: int) -> Each:
    """Round what each operator computes in float64, by Veltkamp's splitting."""
    split = 2.0 ** (53 - bits) + 1

    def cut(value: Any) -> Any:
        if not isinstance(value, Tensor) or value.dtype != torch.float64:
            return value
        large = value * split
        return torch.where(value.isfinite(), large - (large - value), value)

    def act(operator: Any, _: Any, result: Any) -> Any:
        if operator.is_view or CHOOSES.fullmatch(operator._schema.name):
            return result
        return tree_map(cut, result)

    return Each(act)


@contextmanager
def recorded(device: torch.device, numbers: Numbers) -> Iterator[None]:
    """Journal the names of the operators that run on a device."""
    names = set()

    def note(operator: Any, args: Any, result: Any) -> Any:
        leaves, _ = tree_flatten((args, result))
        for leaf in leaves:
            if isinstance(leaf, Tensor) and leaf.device.type == device.type:
                names.add(operator._schema.name)
        return result

    with Each(note):
        yield
    numbers.journal.write(operators=sorted(names))


def half_types(device: torch.device) -> list[torch.dtype]:
    """Return the dtypes of autocast on the device; older torch has only bfloat16 on the CPU."""
    if device.type == "cpu":
        return [torch.bfloat16]
    return [torch.bfloat16, torch.float16]


def prove(
    device: torch.device,
    numbers: Numbers,
    model: nn.Module,
    *x: Tensor,
    amp: bool = False,
) -> None:
    """Fail the check if a model on a device differs from itself in float64 on the CPU.

    The last of what it gets are the classes or values for its loss. In half types only the output
    is compared; under autocast (``amp``) the gradients, too.
    """
    dtypes = half_types(device) if amp else reference.dtypes(device)
    for dtype in dtypes:
        name = reference.short(dtype)
        numbers.step(f"{name} on {device}")
        stored = torch.float32 if amp else dtype
        # The CPU of torch before 2.3, without float16: its gradients of GELU and of attention read
        # and write beyond their memory where a transposed view comes in.
        trains = stored == torch.float32 and torch.float16 in reference.dtypes(device)
        cast = torch.autocast(device.type, dtype) if amp else nullcontext()
        rounding = rounded(_bits(model, dtype, device))
        wide = (stored, torch.float64)
        right = _values(model, x, wide, nullcontext(), trains=trains)
        near = _values(model, x, wide, rounding, trains=trains)
        with recorded(device, numbers):
            results = _values(model, x, (stored, device), cast, trains=trains)
        for kind, exact in right.items():
            limit = _distance(near[kind], exact)
            error = _distance(results[kind], exact)
            numbers.within(f"{name} {kind}", error, limit)


def _bits(model: nn.Module, dtype: torch.dtype, device: torch.device) -> int:
    """Return the bits of a type, those of TF32 where cuDNN convolves in it."""
    if dtype == torch.float32 and devices.kind(device) == "cuda":
        for module in model.modules():
            if isinstance(module, (nn.Conv1d, nn.Conv2d)):
                return BITS[torch.float16]
    return BITS[dtype]


def _values(
    model: nn.Module,
    given: Sequence[Tensor],
    places: tuple[torch.dtype, torch.dtype | torch.device],
    context: AbstractContextManager[Any],
    *,
    trains: bool,
) -> dict[str, list[Tensor]]:
    """Return the output of a copy in these types and places, and what it gets if it trains."""
    model = copy.deepcopy(model)
    for place in places:
        model = model.to(place)
        if isinstance(place, torch.device):
            given = [x.to(place) for x in given]
        else:
            given = [reference.cast(x, place) for x in given]
    *inputs, wanted = given
    with context, torch.set_grad_enabled(trains):
        output = model(*inputs)
        if not isinstance(output, Tensor):
            output = output[0]
        if not trains:
            return {"output": [output]}
        loss = _loss(output, wanted)
        # Half types have no gradients as small as these: that is what a scaler is for.
        gradients = torch.autograd.grad(loss * 1024, list(model.parameters()))
    values = {
        "output": [output, loss],
        "gradient": [gradient / 1024 for gradient in gradients],
    }
    statistics = [x for name, x in model.named_buffers() if "running" in name]
    if statistics:
        values["statistics"] = statistics
    return values


def _loss(output: Tensor, wanted: Tensor) -> Tensor:
    """Return the loss of values, or of classes."""
    if wanted.is_floating_point():
        return nn.functional.mse_loss(output, wanted)
    # Classes are the second dimension, but words the last.
    if output.shape[:2] == wanted.shape:
        output = output.transpose(1, 2)
    return nn.functional.cross_entropy(output, wanted)


def _distance(some: list[Tensor], exact: list[Tensor]) -> float:
    """Return the relative deviation, as the root of the mean square over the tensors."""
    sizes = [float(x.norm()) for x in exact]
    # What is zero by design, such as the gradient of a bias before a normalisation, is noise.
    least = 0.1 * sorted(sizes)[len(sizes) // 2]
    shares = []
    for x, right, size in zip(some, exact, sizes, strict=True):
        deviation = x.detach().cpu().double() - right
        shares.append(float(deviation.norm()) / max(size, least))
    return math.hypot(*shares) / math.sqrt(len(shares))
