"""Two small models: a licence plate reader of LPRNet's size, a transformer with tied weights."""

from __future__ import annotations

import torch
from torch import nn

from smoke import rotary

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

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits, batch by class by column."""
        return self.layers(images).mean(2)


def plates(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return synthetic plates and their text, the same on every machine."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, *PLATE, generator=generator)
    return images, torch.randint(0, CLASSES, (count, COLUMNS), generator=generator)


class Attention(nn.Module):
    """One rotary self-attention block, the shape of ChatGLM2's and Llama's."""

    def __init__(self, width: int = 32, heads: int = 4, *, interleaved: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.rotate = rotary.interleaved if interleaved else rotary.half
        self.inputs = nn.Linear(width, 3 * width)
        self.outputs = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Return the block's output; x is batch by length by width."""
        batch, length, width = x.shape
        shape = (batch, length, 3, self.heads, width // self.heads)
        query, key, value = self.inputs(x).view(shape).permute(2, 0, 3, 1, 4)
        query, key = self.rotate(query, cos, sin), self.rotate(key, cos, sin)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.outputs(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(Attention):
    """An attention block with its residual, a buffer that is saved, and one that is not."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.register_buffer("scale", torch.linspace(0.5, 1.0, width))
        self.register_buffer("shift", torch.linspace(-0.5, 0.5, width), persistent=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Return the block's output; x is batch by length by width."""
        return x * self.scale + self.shift.to(x.dtype) + super().forward(x, cos, sin)


class TiedTransformer(nn.Module):
    """A transformer whose embedding, of more than 1 MiB, and output layer share one weight."""

    def __init__(self, words: int = 1100, width: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(5))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.tie_weights()
        for weight in self.parameters():
            nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)

    def tie_weights(self) -> None:
        """Share the weight, which an initialisation without memory separates."""
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits, batch by length by word."""
        x = self.embedding(tokens)
        positions = torch.arange(tokens.shape[1], device=x.device)
        cos, sin = (part.to(x.dtype) for part in rotary.table(positions, x.shape[2] // 4))
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


def seeded(model: type[nn.Module]) -> nn.Module:
    """Return a model with the same weights on every machine, on the CPU."""
    torch.manual_seed(0)
    return model()
