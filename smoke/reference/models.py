"""Small models: a licence plate reader as LPRNet, a transformer, a UNet as Stable Diffusion's."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from smoke.reference import reference, rotary

CLASSES = 37  # ten digits, 26 letters, blank
COLUMNS = 18
PLATE = (3, 24, 94)  # channels, height, width: LPRNet's input (Zherzdev & Gruzdev 2018)


def _small_block(inputs: int, outputs: int) -> nn.Sequential:
    """Return LPRNet's bottleneck: 1x1, 3x1, 1x3, 1x1."""
    quarter = outputs // 4
    return nn.Sequential(
        nn.Conv2d(inputs, quarter, 1),
        nn.ReLU(),
        nn.Conv2d(quarter, quarter, (3, 1), padding=(1, 0)),
        nn.ReLU(),
        nn.Conv2d(quarter, quarter, (1, 3), padding=(0, 1)),
        nn.ReLU(),
        nn.Conv2d(quarter, outputs, 1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class PlateReader(nn.Module):
    """Licence plate reader of 0.44 million parameters: images to one character class per column."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 64, 3),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=1),
            _small_block(64, 128),
            nn.MaxPool2d(3, stride=(1, 2)),
            _small_block(128, 256),
            _small_block(256, 256),
            nn.MaxPool2d(3, stride=(1, 2)),
            nn.Dropout(0.5),
            nn.Conv2d(256, 256, (1, 4)),
            nn.BatchNorm2d(256),
            nn.ReLU(),
            nn.Conv2d(256, CLASSES, 1),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, batch by class by column."""
        return self.layers(images).mean(2)


def plates(count: int) -> tuple[Tensor, Tensor]:
    """Return synthetic plates and their text, the same on every machine."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, *PLATE, generator=generator)
    return images, torch.randint(0, CLASSES, (count, COLUMNS), generator=generator)


class Attention(nn.Module):
    """One rotary self-attention block, the shape of ChatGLM2's and Llama's."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.heads = 4
        self.inputs = nn.Linear(width, 3 * width)
        self.outputs = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return the block's output; x is batch by length by width."""
        batch, length, width = x.shape
        shape = (batch, length, 3, self.heads, width // self.heads)
        query, key, value = self.inputs(x).view(shape).permute(2, 0, 3, 1, 4)
        query = rotary.half(query, cos, sin)
        key = rotary.half(key, cos, sin)
        mixed = nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=True
        )
        joined = mixed.transpose(1, 2).reshape(x.shape)
        return self.outputs(joined)


class Block(Attention):
    """An attention block with its residual, a buffer that is saved, and one that is not."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        shift = torch.linspace(-0.5, 0.5, width)
        self.register_buffer("scale", torch.linspace(0.5, 1.0, width))
        self.register_buffer("shift", shift, persistent=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return the block's output; x is batch by length by width."""
        moved = x * self.scale + self.shift.to(x.dtype)
        return moved + super().forward(x, cos, sin)


class TiedTransformer(nn.Module):
    """A transformer whose embedding, of more than 1 MiB, and output layer share one weight."""

    def __init__(self, words: int = 1100, width: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(5))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.tie_weights()

    def tie_weights(self) -> None:
        """Share the weight, which an initialisation without memory separates."""
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits, batch by length by word."""
        x = self.embedding(tokens)
        positions = torch.arange(tokens.shape[1], device=x.device)
        cos, sin = rotary.table(positions, x.shape[2] // 4)
        for block in self.blocks:
            x = block(x, cos.to(x.dtype), sin.to(x.dtype))
        return self.head(self.norm(x))


def filled(model: nn.Module) -> nn.Module:
    """Fill a model with noise that keeps the size of what it computes, and leave dropout out."""
    for number, weight in enumerate(model.requires_grad_().parameters()):
        noise = reference.noise(*weight.shape, seed=number)
        if weight.dim() > 1:
            terms = math.prod(weight.shape[1:])
            weight.data = noise / math.sqrt(terms)
        else:
            weight.data = weight.data + noise / 8
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def llama(**options: Any) -> nn.Module:
    """Return transformers' Llama of two layers, whose heads share keys, filled with noise."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(num_hidden_layers=2, **options)
    return filled(LlamaForCausalLM(config)).eval()


def _normed(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.GroupNorm(32, inputs),
        nn.SiLU(),
        nn.Conv2d(inputs, outputs, 3, padding=1),
    )


class UNet(nn.Module):
    """A guided denoising step of Stable Diffusion with a small network."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 64))
        self.inlet = nn.Conv2d(4, 64, 3, padding=1)
        self.down = nn.Sequential(_normed(64, 64), _normed(64, 64))
        self.shrink = nn.Conv2d(64, 64, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(32, 64)
        self.cross = nn.TransformerDecoderLayer(
            64,
            nhead=1,
            dim_feedforward=256,
            dropout=0.0,
            activation=nn.functional.gelu,
            batch_first=True,
            norm_first=True,
        )
        self.grow = nn.Sequential(
            nn.Upsample(scale_factor=2), nn.Conv2d(64, 64, 3, padding=1)
        )
        self.up = nn.Sequential(_normed(128, 64), _normed(64, 64))
        self.outlet = _normed(64, 4)

    def forward(self, latents: Tensor, text: Tensor, time: Tensor) -> Tensor:
        """Return the next latents; text is without and with what guides, time 1 by 32 angles."""
        clock = self.clock(torch.cat([time.cos(), time.sin()], 1))
        x = self.inlet(torch.cat([latents, latents]))
        top = x + self.down(x) + clock[:, :, None, None]
        h = self.shrink(top) + nn.functional.avg_pool2d(top, 2)
        pixels = self.norm(h).flatten(2).transpose(1, 2)
        guides = self.cross(pixels, text).transpose(1, 2)
        h = self.grow(h + guides.reshape(h.shape))
        h = h + self.up(torch.cat([h, top], 1))
        without, guided = self.outlet(h).chunk(2)
        noise = without + 2.0 * (guided - without)
        # DDIM, from 0.4 to 0.6
        clean = latents - 0.6**0.5 * noise
        return 1.5**0.5 * clean + 0.4**0.5 * noise


def denoising() -> tuple[nn.Module, ...]:
    """Return a UNet, what it gets for one step, and what its loss compares the result with."""
    # So small that the epsilon of the first group norm counts.
    latents = reference.noise(1, 4, 32, 32) / 30
    text = reference.noise(2, 77, 64, seed=1)
    time = 501 * 10000.0 ** (-torch.arange(32)[None] / 32)
    wanted = reference.noise(1, 4, 32, 32, seed=2)
    return filled(UNet()), latents, text, time, wanted
