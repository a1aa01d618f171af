"""Rotary embeddings are right on the device and on the CPU, eager and scripted."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from smoke.device import devices
from smoke.engine.check import Numbers, check
from smoke.engine.expect import Expect
from smoke.reference import reference, rotary
from smoke.reference.models import Attention, filled

RIGHT = {"half": reference.rotate_half, "interleaved": reference.rotate_interleaved}
WIDTH = 16  # channels of a head
NEAR, FAR = 0, 32760  # first positions; the far ones are beyond any trained length
LIMIT = 1e-5  # near
TURNED = {"whole": WIDTH, "partial": WIDTH // 2}  # ChatGLM2 turns half of the channels


def far_limit(device: torch.device) -> float:
    """Return the error at far positions that the float32 angle of a healthy device can have.

    The angle is position / base**exponent; its error in rad is the result's. On XPU pow may be
    off by 16 ulp and a division by 2.5, as OpenCL allows (KhronosGroup/OpenCL-Docs,
    env/numerical_compliance.asciidoc), and the product rounds. The largest angle with a part of pow
    is that of the second pair of the whole width. Elsewhere 5e-3 is 4 ulp of that angle.
    """
    if devices.kind(device) != "xpu":
        return 5e-3
    largest = (FAR + 8) / math.pow(10000.0, 2 / WIDTH)
    return largest * (16 + 2.5 + 0.5) * 2.0**-23


def kinds(expect: Expect) -> list[str]:
    """Return the plain kinds of rotation that the spec names."""
    return [kind for kind in expect.rotary if kind in rotary.KINDS]


def has_kinds(expect: Expect) -> str:
    """Apply to targets whose spec names a plain kind of rotation."""
    return "" if kinds(expect) else "the spec names no plain kind of rotary embedding"


@check(
    "rotary.eager",
    stands_for="Langchain-Chatchat on Arc: ChatGLM2",
    when=has_kinds,
)
def test_eager(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """Rotation by halves and by pairs is right: whole and partial, near and far positions."""
    for kind in kinds(expect):
        for part, turned in TURNED.items():
            for place, first, limit in (
                ("near", NEAR, LIMIT),
                ("far", FAR, far_limit(device)),
            ):
                name = f"{kind} {part} {place}"
                numbers.step(name)
                rotate = rotary.KINDS[kind]
                error = _error(rotate, kind, device, turned=turned, first=first)
                numbers.within(name, error, limit)


def has_fusion_pass(expect: Expect) -> str:
    """Apply to the stacks whose models are scripted, and whose IPEX rewrites scripted code.

    TorchScript is deprecated since torch 2.11, and no model of the other stacks is scripted.
    """
    if "ipex-llm" in expect.rotary or expect.locks("intel-extension-for-pytorch"):
        return has_kinds(expect)
    return has_kinds(expect) or "only for stacks of IPEX, which script models"


SCRIPTED = "a fusion pass put torch_ipex::mul_add on CPU tensors (ChatGLM2, scripted)"


@check("rotary.scripted", stands_for=SCRIPTED, when=has_fusion_pass)
def test_scripted(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """Scripted rotation without profiling is right, on the device and on the CPU."""
    with _without_profiling(), torch.no_grad():
        for kind in kinds(expect):
            scripted = torch.jit.script(rotary.KINDS[kind])
            for where in dict.fromkeys((device, torch.device("cpu"))):
                # TorchScript optimises the graph during the first runs; fused code runs after them.
                for turn in range(3):
                    numbers.step(f"scripted {kind} on {where}, run {turn + 1}")
                    error = _error(scripted, kind, where, turned=WIDTH // 2, first=NEAR)
                    numbers.within(f"{kind} on {where.type}", error, LIMIT)


@contextmanager
def _without_profiling() -> Iterator[None]:
    """Switch TorchScript's profiling mode off, as ChatGLM2's modelling file does at import.

    Only then does IPEX's fusion pass run that puts ``mul_add`` on CPU tensors.
    """
    before = torch._C._jit_set_profiling_mode(False)  # noqa: FBT003
    try:
        yield
    finally:
        torch._C._jit_set_profiling_mode(before)


def _error(
    rotate: Callable[..., Tensor],
    kind: str,
    device: torch.device,
    *,
    turned: int,
    first: int,
) -> float:
    positions = torch.arange(first, first + 8)
    x = reference.noise(2, 3, 8, WIDTH)
    cos, sin = rotary.table(positions.to(device), turned)
    right = RIGHT[kind](x, reference.angles(positions, turned))
    result = rotate(x.to(device), cos, sin)
    return reference.error(result, right)


@check(
    "rotary.attention",
    stands_for="the forward pass of attention fails on Arc",
)
def test_attention(device: torch.device, numbers: Numbers) -> None:
    """The forward pass of a rotary attention block is right."""
    x = reference.noise(2, 9, 32)
    positions = torch.arange(9)
    model = filled(Attention()).eval()
    with torch.no_grad():
        right = _plain(model.double(), x.double(), positions)
        model.float().to(device)
        numbers.step("forward")
        cos, sin = rotary.table(positions.to(device), 8)
        result = model(x.to(device), cos, sin)
    numbers.within("output", reference.error(result, right), 1e-5)


def _plain(model: Attention, x: Tensor, positions: Tensor) -> Tensor:
    """Return the block's output in float64, computed with `smoke.reference.reference`."""
    batch, length, width = x.shape
    parts = model.inputs(x).view(batch, length, 3, model.heads, -1)
    query, key, value = parts.permute(2, 0, 3, 1, 4)
    angle = reference.angles(positions, width // model.heads)
    query = reference.rotate_half(query, angle)
    key = reference.rotate_half(key, angle)
    mixed = reference.attention(query, key, value)
    joined = mixed.transpose(1, 2).reshape(x.shape)
    return model.outputs(joined)
