"""Rotary embeddings of the installed libraries: IPEX, ipex-llm, transformers."""

from __future__ import annotations

import copy
import importlib
import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from smoke import device as devices
from smoke import reference
from smoke.checks import check, needs_package
from smoke.finding import fail

if TYPE_CHECKING:
    from smoke.checks import Numbers
    from smoke.expect import Expect

SEED = "Langchain-Chatchat with ipex-llm on Arc: ChatGLM2's rotary embedding"
IPEX = "intel-extension-for-pytorch"


def has_cpu_ipex(expect: Expect) -> str:
    """Apply to targets that lock IPEX for the CPU."""
    if expect.on_gpu:
        return "only for targets without a GPU"
    return needs_package(IPEX)(expect)


def has_ipex_llm(expect: Expect) -> str:
    """Apply to targets whose spec names the rotation of ipex-llm."""
    return "" if "ipex-llm" in expect.rotary else "the spec does not name the rotation of ipex-llm"


@check(
    "rotary.ipex",
    stands_for="IPEX's own rotary embedding, called with the wrong pairing",
    when=has_cpu_ipex,
    depends=("transformers",),
)
def test_ipex(numbers: Numbers) -> None:
    """IPEX's rotary operator for the CPU is right, for pairs and for halves."""
    length, heads, size, turned = 7, 4, 16, 8
    angle = reference.angles(torch.arange(length), turned)
    table = torch.cat([angle.sin(), angle.cos()], -1).float().contiguous()
    positions = torch.arange(length)[None].repeat(2, 1)
    for kind, offset in (("interleaved", 1), ("half", turned // 2)):
        rotate = reference.rotate_interleaved if offset == 1 else reference.rotate_half
        for dtype in (torch.float32, torch.bfloat16):
            numbers.step(f"{kind} {reference.short(dtype)}")
            x = reference.noise(2, length, heads, size, dtype=dtype)
            found = torch.ops.torch_ipex.rotary_position_embedding(
                x.clone(), table, positions, heads, size, offset, turned
            )
            # IPEX 2.1 returns the tensor, later ones a tuple of query, key, value.
            found = found if isinstance(found, torch.Tensor) else found[0]
            right = rotate(x.transpose(1, 2), angle).transpose(1, 2)
            off = reference.error(found.reshape(x.shape), right)
            numbers.within(f"{kind} {reference.short(dtype)}", off, reference.LIMITS[dtype])


@check("rotary.ipex-llm", stands_for=SEED, when=has_ipex_llm, depends=("transformers",))
def test_ipex_llm(device: torch.device, numbers: Numbers) -> None:
    """ipex-llm's attention of ChatGLM2 is right, and uses its fused rotation on XPU."""
    from ipex_llm.transformers.models.chatglm2 import chatglm2_attention_forward
    from ipex_llm.transformers.models.utils import should_use_fuse_rope

    length = 6
    layer = ChatGlm2()
    positions = torch.arange(length)[None]
    inverse = 10000.0 ** (-torch.arange(0, layer.turned, 2).float() / layer.turned)
    for dtype in (torch.float32, torch.bfloat16):
        x = reference.noise(length, 1, layer.width, dtype=dtype)
        model = copy.deepcopy(layer).to(dtype)
        with torch.no_grad():
            right = copy.deepcopy(model).double().plain(x.double(), positions[0])
            model.to(device)
            given = (inverse.to(device), positions.to(device))
            _takes_fused(should_use_fuse_rope(x.to(device), given[1], False), device)  # noqa: FBT003
            numbers.step(f"attention {reference.short(dtype)}")
            found, _ = chatglm2_attention_forward(model, x.to(device), None, given, None, True)  # noqa: FBT003
        off = reference.error(found, right)
        numbers.within(reference.short(dtype), off, reference.LIMITS[dtype])


class ChatGlm2(nn.Module):
    """The attributes of ChatGLM2's attention layer that ipex-llm reads, and a reference for it."""

    width, num_attention_heads_per_partition, num_multi_query_groups_per_partition = 64, 4, 2
    multi_query_attention = True
    hidden_size_per_attention_head = width // num_attention_heads_per_partition
    turned = hidden_size_per_attention_head // 2
    layer_number = 1

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        keys = 2 * self.num_multi_query_groups_per_partition * self.hidden_size_per_attention_head
        self.query_key_value = nn.Linear(self.width, self.width + keys)
        self.dense = nn.Linear(self.width, self.width, bias=False)
        self.eval()

    def plain(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return the layer's output in float64; x is length by 1 by width."""
        heads, groups = (
            self.num_attention_heads_per_partition,
            self.num_multi_query_groups_per_partition,
        )
        parts = self.query_key_value(x).view(len(x), 1, heads + 2 * groups, -1).permute(1, 2, 0, 3)
        query, key, value = parts.split([heads, groups, groups], 1)
        angle = reference.angles(positions, self.turned)
        query, key = (reference.rotate_interleaved(part, angle) for part in (query, key))
        key, value = (part.repeat_interleave(heads // groups, 1) for part in (key, value))
        mixed = reference.attention(query, key, value)
        return self.dense(mixed.permute(2, 0, 1, 3).reshape(x.shape))


def _takes_fused(fused: Any, device: torch.device) -> None:  # noqa: ANN401 - of untyped ipex-llm
    on_xpu = devices.kind(device) == "xpu"
    if bool(fused) != on_xpu:
        fail(
            "fused-rotary-not-taken" if on_xpu else "fused-op-on-cpu-backend",
            f"ipex-llm's decision for its fused rotation on {device} is {fused}",
            cause="ipex-llm takes the device for another kind",
            remedy="build the environment again from its lock",
            evidence=[f"should_use_fuse_rope = {fused}", f"device {device}"],
        )


@check(
    "rotary.transformers",
    stands_for=SEED,
    when=needs_package("transformers"),
    full=True,
)
def test_transformers(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """The rotation in transformers' Llama and GLM is right."""
    turned, length = 8, 9
    positions = torch.arange(length)
    angle = reference.angles(positions, turned)
    for family, size, rotate in (
        ("llama", turned, reference.rotate_half),
        ("glm", 2 * turned, reference.rotate_interleaved),
    ):
        function = _apply(family, expect)
        if function is None:
            continue
        numbers.step(f"{family}'s rotation")
        x = reference.noise(1, 3, length, size)
        cos, sin = (torch.cat([part, part], -1).float() for part in (angle.cos(), angle.sin()))
        # Up to 4.37 it selects rows of a table by position; later it takes one table per batch.
        picks = "position_ids" in _required(function)
        given = (cos, sin, positions[None]) if picks else (cos[None], sin[None])
        found, _ = function(*(part.to(device) for part in (x, x, *given)))
        numbers.within(family, reference.error(found, rotate(x, angle)), 1e-5)


def _apply(family: str, expect: Expect) -> Any:  # noqa: ANN401 - a function of many versions
    """Return a family's function; None where this transformers is older than the family."""
    if family == "glm" and expect.release("transformers") < (4, 46):
        return None
    home = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    return home.apply_rotary_pos_emb


def _required(function: Any) -> list[str]:  # noqa: ANN401
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.default is each.empty]
