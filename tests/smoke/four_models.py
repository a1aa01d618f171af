"""Four models as their users run them; prints the operators of each as JSON. Run in an environment.

Other code than that of the checks, and other sizes: a Llama that is sampled, a UNet as Stable
Diffusion's with its scheduler, Whisper's encoder on noise, a training step of LPRNet. What they are
made with, and their inputs, are not counted: that runs on the CPU.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as f
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM, WhisperConfig, WhisperModel

if TYPE_CHECKING:
    from collections.abc import Iterator


class Names(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(
        self, operator: Any, _: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.seen.add(operator._schema.name)
        return operator(*args, **(kwargs or {}))


def llama() -> Iterator[None]:
    sizes = {"hidden_size": 192, "intermediate_size": 320, "vocab_size": 500}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "num_hidden_layers": 3}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **heads)).eval()
    words = torch.randint(3, 500, (2, 19))
    mask = torch.ones_like(words)
    mask[0, :4] = 0
    drawing = {"do_sample": True, "temperature": 0.7, "top_k": 40, "top_p": 0.95}
    yield
    model.generate(
        words, attention_mask=mask, max_new_tokens=8, pad_token_id=0, **drawing
    )


def whisper() -> Iterator[None]:
    sizes = {"d_model": 192, "encoder_attention_heads": 3, "encoder_ffn_dim": 400}
    model = WhisperModel(
        WhisperConfig(encoder_layers=2, decoder_layers=1, **sizes)
    ).eval()
    sound = torch.randn(2, 80, 3000)
    yield
    with torch.no_grad():
        model.encoder(sound)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.projections = nn.ModuleList(nn.Linear(width, width) for _ in range(8))
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def attend(self, x: Any, source: Any, parts: Any) -> Any:
        def split(layer: Any, y: Any) -> Any:
            return layer(y).view(y.shape[0], -1, 4, 40).transpose(1, 2)

        query, key, value, out = parts
        mixed = f.scaled_dot_product_attention(
            split(query, x), split(key, source), split(value, source)
        )
        return out(mixed.transpose(1, 2).reshape(x.shape))

    def forward(self, x: Any, text: Any) -> Any:
        h = self.norms[0](x)
        x = x + self.attend(h, h, self.projections[:4])
        x = x + self.attend(self.norms[1](x), text, self.projections[4:])
        value, gate = self.up(self.norms[2](x)).chunk(2, dim=-1)
        return x + self.down(value * f.gelu(gate))


def unet() -> Iterator[None]:
    inlet, outlet = nn.Conv2d(4, 160, 3, padding=1), nn.Conv2d(160, 4, 3, padding=1)
    down, up = nn.Conv2d(160, 160, 3, 2, 1), nn.Conv2d(160, 160, 3, padding=1)
    merge, block = nn.Conv2d(320, 160, 1), Block(160)
    clock = nn.Sequential(nn.Linear(160, 160), nn.SiLU(), nn.Linear(160, 160))
    norm = nn.GroupNorm(32, 160, eps=1e-6)
    latents, text = torch.randn(1, 4, 24, 24), torch.randn(2, 77, 160)
    signal = torch.cumprod(1 - torch.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2, 0)
    rates = torch.exp(-9.21 * torch.arange(80) / 80)
    yield
    with torch.no_grad():
        for time in (801, 401):
            x = torch.cat([latents] * 2)
            wheel = torch.cat(
                [torch.cos(rates * time), torch.sin(rates * time)]
            ).expand(2, -1)
            h = top = inlet(x) + f.silu(clock(wheel))[:, :, None, None]
            h = down(f.silu(norm(h)))
            batch, width, high, wide = h.shape
            rows = norm(h).permute(0, 2, 3, 1).reshape(batch, high * wide, width)
            h = h + block(rows, text).reshape(batch, high, wide, width).permute(
                0, 3, 1, 2
            )
            h = up(f.interpolate(h, scale_factor=2.0, mode="nearest"))
            noise = outlet(f.silu(norm(merge(torch.cat([h, top], dim=1)))))
            without, guided = noise.chunk(2)
            noise = without + 7.5 * (guided - without)
            now, later = float(signal[time]), float(signal[time - 400])
            clean = (latents - (1 - now) ** 0.5 * noise) / now**0.5
            latents = later**0.5 * clean + (1 - later) ** 0.5 * noise


def lprnet() -> Iterator[None]:
    def small(inputs: int, outputs: int) -> nn.Sequential:
        q = outputs // 4
        return nn.Sequential(
            *(
                nn.Conv2d(inputs, q, 1),
                nn.ReLU(),
                nn.Conv2d(q, q, (3, 1), padding=(1, 0)),
            ),
            *(nn.ReLU(), nn.Conv2d(q, q, (1, 3), padding=(0, 1)), nn.ReLU()),
            *(nn.Conv2d(q, outputs, 1), nn.BatchNorm2d(outputs), nn.ReLU()),
        )

    stages = nn.ModuleList(
        [
            nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU()),
            nn.Sequential(nn.MaxPool2d(3, 1), small(64, 128)),
            nn.Sequential(nn.MaxPool2d(3, (1, 2)), small(128, 256), small(256, 256)),
            nn.Sequential(
                nn.MaxPool2d(3, (1, 2)), nn.Dropout(0.5), nn.Conv2d(256, 256, (1, 4))
            ),
        ]
    )
    last = nn.Sequential(
        nn.BatchNorm2d(256), nn.ReLU(), nn.Conv2d(256, 68, (13, 1)), nn.ReLU()
    )
    joined = nn.Conv2d(64 + 128 + 256 + 68, 68, 1)
    parameters = [*stages.parameters(), *last.parameters(), *joined.parameters()]
    update = torch.optim.Adam(parameters, lr=1e-3)
    x = torch.randn(2, 3, 24, 94)
    text, lengths = torch.randint(1, 68, (2, 7)), torch.full((2,), 7)
    times = torch.full((2,), 18)
    yield
    context = [x := stage(x) for stage in stages]
    context[-1] = last(x)
    pools = [((5, 5), (5, 5)), ((5, 5), (5, 5)), ((4, 10), (4, 2))]
    for place, (size, stride) in enumerate(pools):
        context[place] = f.avg_pool2d(context[place], size, stride)
    context = [each / each.pow(2).mean() for each in context]
    logits = joined(torch.cat(context, 1)).mean(2).permute(2, 0, 1).log_softmax(2)
    f.ctc_loss(logits, text, times, lengths).backward()
    update.step()


def main() -> None:
    """Print the names."""
    found = {}
    for model in (llama, unet, whisper, lprnet):
        torch.manual_seed(0)
        steps = model()
        next(steps)
        with Names() as names:
            next(steps, None)
        found[model.__name__] = sorted(
            name for name in names.seen if name.startswith("aten")
        )
    print(json.dumps(found))  # noqa: T201


main()
