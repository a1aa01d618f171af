"""IPEX's fused operators: arguments and float64 references of those that the suite can check.

Schemas are of IPEX's sources, 1.13.120 to 2.9.10, whose arguments have no names to call them by.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from smoke.engine.check import Numbers
from smoke.engine.finding import fail
from smoke.reference import reference

KEYS = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU"}
Arguments = tuple[Any, ...]


def mul_add(a: Any, b: Any, c: Any, alpha: float) -> Any:
    """Return what the operator is defined as."""
    return a * b + alpha * c


def arguments_of_mul_add(dtype: torch.dtype) -> dict[str, Arguments]:
    """Return the arguments of each overload (csrc/gpu/aten/operators/TripleOps.cpp)."""
    a, b, c = (reference.noise(6, 10, dtype=dtype, seed=seed) for seed in range(3))
    return {
        "default": (a, b, c, 0.5),
        "Scalar_Tensor": (a, 1.5, c, 0.5),
        "Tensor_Scalar": (a, b, 1.5, 0.5),
        "Scalar_Scalar": (a, 1.5, 2.5, 0.5),
    }


# Operator -> its reference, and what makes the arguments of its overloads, on the CPU.
OPERATORS = {"torch_ipex::mul_add": (mul_add, arguments_of_mul_add)}


def prove_operator(name: str, device: torch.device, numbers: Numbers) -> None:
    """Check every overload of an operator on the device, in each dtype and layout.

    Raises:
        CheckFailed: The operator is unknown, not registered, without a kernel, or wrong.
    """
    if name not in OPERATORS:
        fail(
            "fused-op-without-reference",
            f"this suite has no reference for {name}",
            [f"known: {', '.join(OPERATORS)}"],
        )
    right, arguments = OPERATORS[name]
    overloads = list(arguments(torch.float32))
    for overload in overloads:
        _registered(name, overload, device)
    packet = getattr(torch.ops.torch_ipex, name.partition("::")[2])
    for overload in overloads:
        function = getattr(packet, overload)
        for dtype in reference.dtypes(device):
            _values(function, arguments(dtype)[overload], right, device, numbers)


def _registered(name: str, overload: str, device: torch.device) -> None:
    """Fail unless the overload exists and has a kernel for the device's own dispatch key.

    A call would not show that: without such a kernel it can still reach a composite fallback.
    """
    full = name if overload == "default" else f"{name}.{overload}"
    key = KEYS.get(device.type, "PrivateUse1")
    evidence = [f"dispatch key {key}", f"torch {torch.__version__}"]
    if full not in torch._C._dispatch_get_all_op_names():
        fail("fused-op-missing", f"{full} is not registered", evidence)
    if not torch._C._dispatch_has_kernel_for_dispatch_key(full, key):
        fail("fused-op-without-kernel", f"{full} has no kernel for {key}", evidence)


def _values(
    function: Callable[..., Tensor],
    arguments: Arguments,
    right: Callable[..., Tensor],
    device: torch.device,
    numbers: Numbers,
) -> None:
    dtype = arguments[0].dtype
    exact = right(*tree_map_only(Tensor, Tensor.double, arguments))
    for layout in ("contiguous", "strided"):
        name = f"{function} {reference.short(dtype)} {layout}"
        numbers.step(name)
        placed = [_placed(argument, device, layout) for argument in arguments]
        error = reference.error(function(*placed), exact)
        numbers.within(name, error, reference.LIMITS[dtype])


def _placed(argument: Any, device: torch.device, layout: str) -> Any:
    """Return a tensor on the device in a layout, and a number as it is."""
    if isinstance(argument, Tensor):
        return reference.laid_out(argument.to(device), layout)
    return argument
