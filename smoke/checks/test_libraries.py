"""Code of installed libraries: rotary embeddings, and ipex-llm's low-bit models."""

import copy
import importlib
import inspect
from pathlib import Path
from typing import Any

import torch
from torch import nn

from smoke.device import devices
from smoke.engine.check import Numbers, check, needs_package
from smoke.engine.expect import Expect
from smoke.engine.finding import fail
from smoke.reference import reference

SEED = "Langchain-Chatchat with ipex-llm on Arc: ChatGLM2's rotary embedding"
RIGHT = {"llama": reference.rotate_half, "glm": reference.rotate_interleaved}

has_ipex_llm = needs_package("ipex-llm")
# Format -> bits, and the code of the value of a block that is largest without its sign (ggml.c,
# quantize_row_q4_0_reference and _q8_0_reference).
FORMATS = {"sym_int4": (4, -8), "sym_int8": (8, 127)}


def has_rotation(expect: Expect) -> str:
    """Apply to targets whose spec names the rotation of ipex-llm."""
    if "ipex-llm" in expect.rotary:
        return ""
    return "the spec does not name the rotation of ipex-llm"


@check("rotary.ipex-llm", stands_for=SEED, when=has_rotation)
def test_ipex_llm(device: torch.device, numbers: Numbers) -> None:
    """ipex-llm's attention of ChatGLM2 is right, and uses its fused rotation on XPU."""
    from ipex_llm.transformers.models.chatglm2 import chatglm2_attention_forward
    from ipex_llm.transformers.models.utils import should_use_fuse_rope

    length = 6
    layer = ChatGlm2()
    positions = torch.arange(length)[None]
    exponents = torch.arange(0, layer.turned, 2).float() / layer.turned
    inverse = 10000.0**-exponents
    for dtype in (torch.float32, torch.bfloat16):
        x = reference.noise(length, 1, layer.width, dtype=dtype)
        model = copy.deepcopy(layer).to(dtype)
        exact = copy.deepcopy(model).double()
        with torch.no_grad():
            right = exact.plain(x.double(), positions[0])
            model.to(device)
            rotary = (inverse.to(device), positions.to(device))
            is_fused = should_use_fuse_rope(x.to(device), rotary[1], False)  # noqa: FBT003
            _takes_fused(is_fused, device)
            numbers.step(f"attention {reference.short(dtype)}")
            result, _ = chatglm2_attention_forward(
                model,
                x.to(device),
                None,
                rotary,
                None,
                True,  # noqa: FBT003
            )
        error = reference.error(result, right)
        numbers.within(reference.short(dtype), error, reference.LIMITS[dtype])


class ChatGlm2(nn.Module):
    """The attributes of ChatGLM2's attention layer that ipex-llm reads, and a reference for it."""

    width = 64
    num_attention_heads_per_partition = 4
    num_multi_query_groups_per_partition = 2
    multi_query_attention = True
    hidden_size_per_attention_head = width // num_attention_heads_per_partition
    turned = hidden_size_per_attention_head // 2
    layer_number = 1

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        groups = 2 * self.num_multi_query_groups_per_partition  # of keys and of values
        wide = self.width + groups * self.hidden_size_per_attention_head
        self.query_key_value = nn.Linear(self.width, wide)
        self.dense = nn.Linear(self.width, self.width, bias=False)
        self.eval()

    def plain(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return the layer's output in float64; x is length by 1 by width."""
        heads = self.num_attention_heads_per_partition
        groups = self.num_multi_query_groups_per_partition
        times = heads // groups
        parts = self.query_key_value(x)
        parts = parts.view(len(x), 1, heads + 2 * groups, -1)
        parts = parts.permute(1, 2, 0, 3)
        query, key, value = parts.split([heads, groups, groups], 1)
        angle = reference.angles(positions, self.turned)
        query = reference.rotate_interleaved(query, angle)
        key = reference.rotate_interleaved(key, angle)
        key = key.repeat_interleave(times, 1)
        value = value.repeat_interleave(times, 1)
        mixed = reference.attention(query, key, value).permute(2, 0, 1, 3)
        return self.dense(mixed.reshape(x.shape))


def _takes_fused(fused: object, device: torch.device) -> None:
    on_xpu = devices.kind(device) == "xpu"
    if bool(fused) != on_xpu:
        words = f"ipex-llm's decision for its fused rotation on {device} is {fused}"
        code = "fused-rotary-not-taken" if on_xpu else "fused-op-on-cpu-backend"
        fail(code, words, [words])


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
    cos = angle.cos().repeat(1, 2).float()
    sin = angle.sin().repeat(1, 2).float()
    sizes = {"llama": turned, "glm": 2 * turned}
    for family, size in sizes.items():
        if family == "glm" and expect.release("transformers") < (4, 46):
            continue  # older than the family
        module = f"transformers.models.{family}.modeling_{family}"
        function = importlib.import_module(module).apply_rotary_pos_emb
        numbers.step(f"{family}'s rotation")
        x = reference.noise(1, 3, length, size)
        # Up to 4.37 it selects rows of a table by position; later it takes one table per batch.
        inputs = [x, x, cos[None], sin[None]]
        parameters = inspect.signature(function).parameters
        given = parameters.get("position_ids")
        if given is not None and given.default is given.empty:
            inputs = [x, x, cos, sin, positions[None]]
        inputs = [tensor.to(device) for tensor in inputs]
        result, _ = function(*inputs)
        right = RIGHT[family](x, angle)
        numbers.within(family, reference.error(result, right), 1e-5)


@check(
    "low-bit.linear",
    stands_for="a 4-bit model on Arc answers nonsense",
    when=has_ipex_llm,
)
def test_linear(device: torch.device, numbers: Numbers) -> None:
    """4-bit, 8-bit and bfloat16 layers are as exact as the steps of their formats allow."""
    import ipex_llm

    plain = nn.Linear(1024, 256)
    weight = reference.noise(256, 1024, seed=2)
    bias = reference.noise(256, seed=1)
    plain.weight.data = weight.clone()
    plain.bias.data = bias.clone()
    for name in (*FORMATS, "bf16"):
        copied = nn.Sequential(copy.deepcopy(plain))
        model = ipex_llm.optimize_model(copied, low_bit=name)
        if name in FORMATS:
            data = model[0].weight.data
            stored, length = _unpacked(data, name, weight, numbers)
            least = _least(device)
        else:
            stored, length = weight.bfloat16().double(), 1
            least = reference.LIMITS[torch.bfloat16]
        model = model.eval().to(device)
        for tokens in (1, 40):
            numbers.step(f"{name}, {tokens} tokens")
            x = reference.noise(tokens, 1024, seed=9)
            with torch.no_grad():
                result = model(x[None].to(device))
            x = x.double()
            right = x @ stored.T + bias.double()
            error = result[0].cpu().double() - right
            variance = _variance(x, stored, length)
            limit = 6 * variance.sqrt() + least * right.abs().max()
            share = float((error.abs() / limit).max())
            numbers.within(f"{name}, {tokens} tokens, share", share, 1.0)


def _variance(x: torch.Tensor, weight: torch.Tensor, length: int) -> torch.Tensor:
    """Return the variance of what a low-bit layer returns.

    The CPU's kernels round x to 8 bits in each block, others compute in float16. The error of a step
    s is s / sqrt(12), and independent in each term of the sum.
    """
    blocks = x.unflatten(-1, (-1, length))
    steps = blocks.abs().amax(-1) / 127
    gains = weight.square().unflatten(-1, (-1, length))
    return steps.square() / 12 @ gains.sum(-1).T


def _unpacked(
    data: torch.Tensor, name: str, weight: torch.Tensor, numbers: Numbers
) -> tuple[torch.Tensor, int]:
    """Return the stored weights, each of which must be the nearest code, and the blocks' length.

    A block is its scale and its codes; of 4-bit codes the first half of a block is in the low
    halves of the bytes. The code 8 does not exist: up to it, values may be a whole step off.
    """
    from ipex_llm.transformers.low_bit_linear import get_block_size

    bits, extreme = FORMATS[name]
    length = get_block_size(name)
    blocks = weight.double().view(-1, length)
    rows = data.view(len(blocks), -1)
    of_codes = length * bits // 8
    of_scale = rows.shape[1] - of_codes
    scale, codes = rows.split([of_scale, of_codes], 1)
    scale_type = torch.float16 if of_scale == 2 else torch.float32
    scale = scale.contiguous().view(scale_type)
    codes = codes.contiguous().view(torch.int8)
    if bits == 4:
        low = codes & 15
        high = (codes >> 4) & 15
        codes = torch.cat([low, high], 1) - 8
    stored = codes.double() * scale.double()
    largest = blocks.abs().argmax(1, keepdim=True)
    step = blocks.gather(1, largest) / extreme
    highest = 2 ** (bits - 1) - 0.5
    error = stored / step - (blocks / step).clamp(max=highest)
    # Half a step, and what the scale in float16 moves the largest code of four bits.
    limit = 0.5 + 8 * 2**-11
    numbers.within(f"{name} weights, steps", float(error.abs().max()), limit)
    return stored.view(weight.shape), length


def _least(device: torch.device) -> float:
    dtype = torch.float32 if devices.kind(device) == "cpu" else torch.float16
    return reference.LIMITS[dtype]


@check(
    "low-bit.models",
    stands_for="a model saved in low bits answers otherwise",
    when=has_ipex_llm,
    full=True,
)
def test_models(device: torch.device, numbers: Numbers, tmp_path: Path) -> None:
    """ipex-llm's Llama gives transformers' logits, and saved in low bits it stays the same."""
    from ipex_llm import optimize_model
    from ipex_llm.transformers import AutoModelForCausalLM

    tokens = torch.arange(18).reshape(2, 9) * 7 % 64
    tokens = tokens.to(device)
    plain = _tiny()
    folder = str(tmp_path / "plain")
    plain.save_pretrained(folder)
    with torch.no_grad():
        numbers.step("optimised")
        exact = copy.deepcopy(plain).double()
        right = exact(tokens.cpu()).logits
        optimised = optimize_model(plain, low_bit=None).to(device)
        error = reference.error(optimised(tokens).logits, right)
        numbers.within("optimised", error, _least(device))
        for name in FORMATS:
            numbers.step(name)
            saved = str(tmp_path / name)
            model = AutoModelForCausalLM.from_pretrained(folder, load_in_low_bit=name)
            model.save_low_bit(saved)
            loaded = AutoModelForCausalLM.load_low_bit(saved).eval().to(device)
            model = model.eval().to(device)
            right = model(tokens).logits.cpu().double()
            error = reference.error(loaded(tokens).logits, right)
            numbers.within(f"{name} loaded", error, _least(device))


def _tiny() -> Any:
    """Return a Llama with random weights, and with heads of a real size."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=256,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()
    for part in model.parameters():
        nn.init.normal_(part, std=0.1 if part.dim() > 1 else 1.0)
    return model
