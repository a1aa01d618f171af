"""IPEX's fused operators: arguments and float64 references of those that the suite can check.

Schemas are of IPEX's sources, 1.13.120 to 2.9.10, whose arguments have no names to call them by.
"""

from collections.abc import Callable
from typing import Any

import torch

from smoke.engine.check import Numbers
from smoke.engine.finding import fail
from smoke.reference import reference

KEYS = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU"}


def _three(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    return tuple(reference.noise(6, 10, dtype=dtype, seed=seed) for seed in range(3))


# Operator -> its reference, and the makers of the arguments of its overloads, on the CPU.
OPERATORS: dict[
    str, tuple[Callable[..., Any], dict[str, Callable[[torch.dtype], Any]]]
] = {
    # csrc/gpu/aten/operators/TripleOps.cpp
    "torch_ipex::mul_add": (
        lambda a, b, c, alpha: a * b + alpha * c,
        {
            "default": lambda dtype: (*_three(dtype), 0.5),
            "Scalar_Tensor": lambda dtype: (
                _three(dtype)[0],
                1.5,
                _three(dtype)[2],
                0.5,
            ),
            "Tensor_Scalar": lambda dtype: (*_three(dtype)[:2], 1.5, 0.5),
            "Scalar_Scalar": lambda dtype: (_three(dtype)[0], 1.5, 2.5, 0.5),
        },
    )
}


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
    right, overloads = OPERATORS[name]
    for overload in overloads:
        _registered(name, overload, device)
    for overload, make in overloads.items():
        packet = getattr(torch.ops.torch_ipex, name.partition("::")[2])
        for dtype in reference.dtypes(device):
            _values(getattr(packet, overload), make(dtype), right, device, numbers)


def _registered(name: str, overload: str, device: torch.device) -> None:
    """Fail unless the overload exists and has a kernel for the device's own dispatch key.

    A call would not show that: without such a kernel it can still reach a composite fallback.
    """
    full = name if overload == "default" else f"{name}.{overload}"
    key = KEYS.get(device.type, "PrivateUse1")
    if full not in torch._C._dispatch_get_all_op_names():
        code, what = "fused-op-missing", "is not registered"
    elif not torch._C._dispatch_has_kernel_for_dispatch_key(full, key):
        code, what = "fused-op-without-kernel", f"has no kernel for {key}"
    else:
        return
    fail(
        code,
        f"{full} {what}",
        evidence=[f"dispatch key {key}", f"torch {torch.__version__}"],
    )


def _values(
    function: Callable[..., torch.Tensor],
    arguments: tuple[Any, ...],
    right: Callable[..., torch.Tensor],
    device: torch.device,
    numbers: Numbers,
) -> None:
    dtype = arguments[0].dtype
    wide = [
        part.double() if isinstance(part, torch.Tensor) else part for part in arguments
    ]
    for layout in ("contiguous", "strided"):
        name = f"{function} {reference.short(dtype)} {layout}"
        numbers.step(name)
        given = [
            reference.laid_out(part.to(device), layout)
            if isinstance(part, torch.Tensor)
            else part
            for part in arguments
        ]
        off = reference.error(function(*given), right(*wide))
        numbers.within(name, off, reference.LIMITS[dtype])
