"""Models: what people run computes right on the device, forward and backward, in each type."""

import copy
from typing import Any

import torch
from torch import Tensor

from smoke.engine.check import Numbers, check, needs_package
from smoke.engine.expect import Expect
from smoke.reference import models, precision, reference

STOCK = needs_package("transformers")
# Tokens are generated after more than 64: some caches and tables end there.
WORDS, NEW = 320, 8
SIZES = {
    "vocab_size": WORDS,
    "hidden_size": 256,
    "intermediate_size": 384,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}
HEAT, LARGEST, NUCLEUS = 0.8, 50, 0.9  # temperature, top_k, top_p


@check("models.llama", stands_for="a model that loads well writes nonsense", full=True)
def test_llama(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """A Llama's logits, loss and gradients are right, of transformers' class where it is locked."""
    if STOCK(expect):
        model = models.filled(models.TiedTransformer(WORDS, 512))
    else:
        model = models.llama(**SIZES)
    tokens = _tokens(200)
    precision.prove(device, numbers, model, tokens, tokens.roll(-1, 1))


@check(
    "models.whisper", stands_for="a transcription repeats words", when=STOCK, full=True
)
def test_whisper(device: torch.device, numbers: Numbers) -> None:
    """Whisper's encoder and its gradients are right for thirty seconds of sound."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=128,
        encoder_attention_heads=2,
        encoder_ffn_dim=256,
        encoder_layers=1,
    )
    model = models.filled(WhisperEncoder(config))
    sound = reference.noise(1, 80, 3000)
    wanted = reference.noise(1, 1500, 128, seed=1)
    precision.prove(device, numbers, model, sound, wanted)


@check(
    "models.unet",
    stands_for="Stable Diffusion makes black images",
    full=True,
)
def test_unet(device: torch.device, numbers: Numbers) -> None:
    """A guided denoising step of a UNet and its gradients are right."""
    precision.prove(device, numbers, *models.denoising())


@check(
    "models.plates",
    stands_for="LPRNet does not learn on one device",
    full=True,
)
def test_plates(device: torch.device, numbers: Numbers) -> None:
    """LPRNet's logits, gradients and running statistics of a training step are right."""
    model = models.filled(models.PlateReader())
    images, text = models.plates(2)
    precision.prove(device, numbers, model, images, text)


@check(
    "models.generate",
    stands_for="a chat goes wrong after some words",
    when=STOCK,
    full=True,
)
def test_generate(device: torch.device, numbers: Numbers) -> None:
    """Generated tokens are the likeliest, with and without a cache; drawn ones are likely."""
    tokens = _tokens(70)
    tokens[1, :9] = 0  # padded at the left
    drawing = {"temperature": HEAT, "top_k": LARGEST, "top_p": NUCLEUS}
    for dtype in reference.dtypes(device):
        name = reference.short(dtype)
        numbers.step(f"{name} on {device}")
        wide = models.llama(**SIZES).to(dtype)
        model = copy.deepcopy(wide).to(device)
        wide = wide.double()
        with precision.recorded(device, numbers):
            likeliest = _generate(model, tokens, do_sample=False)
            torch.manual_seed(0)
            drawn = _generate(model, tokens, do_sample=True, **drawing)
        if dtype == torch.float32:  # rounding may turn two that are equally likely
            without = _generate(model, tokens, do_sample=False, use_cache=False)
            changed = float((likeliest != without).sum())
            numbers.within("changed by the cache", changed, 0.0)
        same = float((drawn == likeliest).sum())
        numbers.within(f"{name} not drawn", same, drawn.numel() / 2)
        # Two logits of some units, each with an error of some roundings.
        slack = 16 * 2.0 ** -precision.BITS[dtype]
        logits, chosen = _expected(wide, tokens, likeliest)
        behind = logits.amax(1, keepdim=True) - chosen
        numbers.within(f"{name} behind", float(behind.max()), slack)
        logits, chosen = _expected(wide, tokens, drawn)
        above = _chance_of_more(logits, chosen + slack)
        excess = max(0.0, above - NUCLEUS)
        numbers.within(f"{name} drawn too low", excess, 0.05)


def _tokens(length: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(1, WORDS, (2, length), generator=generator)


def _generate(model: Any, tokens: Tensor, **options: Any) -> Tensor:
    """Return the new tokens, batch by length."""
    options["max_new_tokens"] = NEW
    options["pad_token_id"] = 0
    options["eos_token_id"] = WORDS  # a word it never says
    given = tokens.to(model.device)
    result = model.generate(given, attention_mask=(given > 0).long(), **options)
    return result[:, tokens.shape[1] :].cpu()


def _chance_of_more(logits: Tensor, chosen: Tensor) -> float:
    """Return the largest chance of all words together that are likelier than the chosen one."""
    largest = logits.topk(LARGEST).values
    chances = (largest / HEAT).softmax(1)
    above = chances * (largest > chosen)
    return float(above.sum(1).max())


def _expected(model: Any, tokens: Tensor, new: Tensor) -> tuple[Tensor, ...]:
    """Return the logits of each new token's place, places by words, and the token's own."""
    rows = []
    for given, generated in zip(tokens, new, strict=True):
        words = torch.cat([given[given > 0], generated])
        with torch.no_grad():
            logits = model(words[None]).logits
        rows.append(logits[0, -NEW - 1 : -1])
    logits = torch.cat(rows)
    return logits, logits.gather(1, new.reshape(-1, 1))
