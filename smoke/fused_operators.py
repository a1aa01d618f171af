"""IPEX's fused operators: arguments and float64 references of those that the suite can check.

Schemas are of IPEX's sources at ten tags, 1.13.120 to 2.9.10. They give the arguments no usable
names, so operators are called by position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from smoke import reference
from smoke.finding import fail

if TYPE_CHECKING:
    from collections.abc import Callable

    from smoke.checks import Numbers

KEYS = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU"}
Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Operator:
    """Arguments and reference of one operator.

    Attributes:
        overloads: Name of each overload -> maker of its arguments, in a dtype, on the CPU.
        right: The reference, given the arguments in float64.
    """

    overloads: dict[str, Callable[[torch.dtype], Arguments]]
    right: Callable[..., torch.Tensor]


def _three(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    return tuple(reference.noise(6, 10, dtype=dtype, seed=seed) for seed in range(3))


def _rms_norm(x: torch.Tensor, _shape: list[int], weight: torch.Tensor, _b: None, e: float) -> Any:  # noqa: ANN401
    return x * (x.square().mean(-1, keepdim=True) + e).rsqrt() * weight


OPERATORS = {
    # csrc/gpu/aten/operators/TripleOps.cpp: _0 * _1 + _3 * _2
    "torch_ipex::mul_add": Operator(
        {
            "default": lambda dtype: (*_three(dtype), 0.5),
            "Scalar_Tensor": lambda dtype: (_three(dtype)[0], 1.5, _three(dtype)[2], 0.5),
            "Tensor_Scalar": lambda dtype: (*_three(dtype)[:2], 1.5, 0.5),
            "Scalar_Scalar": lambda dtype: (_three(dtype)[0], 1.5, 2.5, 0.5),
        },
        lambda a, b, c, alpha: a * b + alpha * c,
    ),
    # csrc/gpu/aten/operators/RMSNorm.cpp, 2.1.10 and later
    "torch_ipex::fast_rms_norm": Operator(
        {"default": lambda dtype: (_three(dtype)[0], [10], _three(dtype)[1][0], None, 1e-5)},
        _rms_norm,
    ),
}


def prove_operator(name: str, device: torch.device, numbers: Numbers) -> None:
    """Check every overload of an operator on the device, in each dtype and layout.

    Raises:
        CheckFailed: The operator is unknown, not registered, without a kernel, or wrong.
    """
    operator = OPERATORS.get(name)
    if operator is None:
        fail(
            "fused-op-without-reference",
            f"this suite has no reference for {name}",
            cause="smoke/fused_operators.py does not list this operator of the spec",
            remedy="add it there, or remove it from the spec's fused_ops",
            evidence=[f"known: {', '.join(OPERATORS)}"],
        )
    for overload in operator.overloads:
        _registered(name, overload, device)
    for overload, make in operator.overloads.items():
        packet = getattr(torch.ops.torch_ipex, name.partition("::")[2])
        for dtype in reference.dtypes(device):
            _values(getattr(packet, overload), make(dtype), operator.right, device, numbers)


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
        cause="the library that registers it was not loaded, or is another build",
        remedy="build the environment again from its lock; it must hold exactly one IPEX",
        evidence=[f"dispatch key {key}", f"torch {torch.__version__}"],
    )


def _values(
    function: Callable[..., torch.Tensor],
    arguments: Arguments,
    right: Callable[..., torch.Tensor],
    device: torch.device,
    numbers: Numbers,
) -> None:
    dtype = arguments[0].dtype
    wide = [part.double() if isinstance(part, torch.Tensor) else part for part in arguments]
    for layout in ("contiguous", "strided"):
        name = f"{function} {reference.short(dtype)} {layout}"
        numbers.step(name)
        given = [
            reference.laid_out(part.to(device), layout) if isinstance(part, torch.Tensor) else part
            for part in arguments
        ]
        off = reference.error(function(*given), right(*wide))
        numbers.within(name, off, reference.LIMITS[dtype])
