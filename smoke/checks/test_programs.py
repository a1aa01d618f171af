"""Programs: options of torch and transformers have the effects that are documented."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from smoke.checks.test_resume import has_scaler
from smoke.engine.check import Numbers, check, since
from smoke.reference import models, reference

Pair = tuple[Any, Any]  # what came, and what is right
WORDS = 64
SIZES = {
    "vocab_size": WORDS,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@check(
    "programs.training",
    stands_for="an option has no effect",
    when=has_scaler,
    full=True,
)
def test_training(device: torch.device, numbers: Numbers) -> None:
    """Groups of weights, autocast, roundings, masks, look-ups and refusals are as documented."""
    torch.manual_seed(0)
    _equal(numbers, "groups of weights", *_groups(device), limit=1e-5)
    _equal(numbers, "types under autocast", *_autocast(device))
    _equal(numbers, "roundings", *_roundings(device))
    _equal(numbers, "masks of dropout", *_masks(device), limit=0.02)
    _equal(numbers, "look-ups", *_look_ups(device))
    _equal(numbers, "refusals", *_refusals(device))
    _equal(numbers, "attention modules", *_attention(device), limit=1e-5)


@check(
    "programs.generation",
    stands_for="batched chats go wrong",
    when=since("transformers", 4, 46),
    full=True,
)
def test_generation(device: torch.device, numbers: Numbers) -> None:
    """Beams are the same without a cache; a loss is that of the words that are not masked."""
    torch.manual_seed(0)
    _equal(numbers, "beams", *_beams(device))
    _equal(numbers, "loss", *_loss(device), limit=1e-4)


def _equal(
    numbers: Numbers, name: str, result: Any, right: Any, limit: float = 0.0
) -> None:
    numbers.step(name)
    exact = torch.as_tensor(right).detach().cpu().double()
    error = reference.error(torch.as_tensor(result), exact)
    numbers.within(name, error, limit)


def _groups(device: torch.device) -> Pair:
    """Return a weight of each group after one step, the first of AdamW being its rate."""
    sgd = _stepped(torch.optim.SGD, 0.5, device)
    adamw = _stepped(torch.optim.AdamW, 0.1, device)
    return torch.stack(sgd + adamw), [0.75, 0.875, 0.5, 0.9, 0.95, 0.85]


def _stepped(kind: Any, rate: float, device: torch.device) -> list[torch.Tensor]:
    """Return ones after a step: at a rate, at half of it, and with decay."""
    parts = []
    for _ in range(3):
        part = nn.Parameter(torch.ones(3, device=device))
        part.grad = torch.full_like(part, 0.5)
        parts.append(part)
    plain, slow, decaying = parts
    groups = [
        {"params": [plain]},
        {"params": [slow], "lr": rate / 2},
        {"params": [decaying], "weight_decay": 0.5},
    ]
    kind(groups, lr=rate, weight_decay=0.0).step()
    return [part[0] for part in parts]


def _autocast(device: torch.device) -> Pair:
    """Return which results are of half precision, and which inside are not."""
    x = torch.ones(2, 4, 6, 6, device=device)
    w = torch.ones(4, 4, 3, 3, device=device)
    a = w.flatten(1).mT
    with torch.autocast(device.type, torch.bfloat16):
        results = [
            functional.conv2d(x, w),
            functional.conv1d(x[..., 0], w[..., 0]),
            functional.linear(a, a),
            torch.bmm(a[None], a.mT[None]),
        ]
        with torch.autocast(device.type, enabled=False):
            results += [functional.conv2d(x, w), a @ a.mT]
    are_half = [result.dtype == torch.bfloat16 for result in results]
    return are_half, [True, True, True, True, False, False]


def _roundings(device: torch.device) -> Pair:
    """Return numbers in other types, of which some are half-way between two."""
    values = [2049.0, 2051.0, 1025.5, 257.0, 259.0, -771.0, -2.5]
    x = torch.tensor(values, device=device)
    rounded = [
        x.half().float(),
        x.bfloat16().float(),
        x.int(),
        x.round(),
    ]
    return torch.stack(rounded), [
        [2048, 2052, 1026, 257, 259, -771, -2.5],
        [2048, 2048, 1024, 256, 260, -772, -2.5],
        [2049, 2051, 1025, 257, 259, -771, -2],
        [2049, 2051, 1026, 257, 259, -771, -2],
    ]


def _masks(device: torch.device) -> Pair:
    """Return the share that masks have in common: all, where the generator does not go on."""
    x = torch.ones(100_003, device=device)
    first, *others = [functional.dropout(x, 0.5) > 0 for _ in range(3)]
    shares = [float((first == mask).float().mean()) for mask in others]
    return shares, [0.5, 0.5]


def _look_ups(device: torch.device) -> Pair:
    """Return what is looked up: the CPU's own would share what is wrong for integers there."""
    rows = torch.arange(300)
    x = 10 * rows[:, None] + torch.arange(5)
    x = x.to(device)
    i = (7 * rows % 300).to(device)
    ones = torch.ones(300, 1, device=device)
    results = [
        x.gather(0, i[:, None])[:, 0],
        x.gather(1, i[:, None] % 5)[:, 0],
        x[i, i % 5],
        x.index_select(0, i)[:, 4],
        x.flip(0)[:, 1],
        ones.argmin(1),
        ones.max(1).indices,
        ones.topk(1).indices[:, 0],
    ]
    right = []
    for row in range(300):
        place = 7 * row % 300
        column = place % 5
        right.append(
            [
                10 * place,
                10 * row + column,
                10 * place + column,
                10 * place + 4,
                10 * (299 - row) + 1,
                0,
                0,
                0,
            ]
        )
    return torch.stack(results, 1), right


def _refusals(device: torch.device) -> Pair:
    """Return whether what does not fit is refused, and not read beyond its end."""
    misfits: Any = (
        (torch.mm, (3, 4), (5, 6)),
        (torch.bmm, (2, 3, 4), (3, 4, 5)),
        (functional.linear, (3, 4), (5, 6)),
        (functional.conv2d, (1, 3, 5, 5), (4, 2, 3, 3)),
        (torch.add, (3, 4), (3, 5)),
        (torch.mv, (3, 4), (5,)),
    )
    refused = 0
    for function, left, right in misfits:
        a = torch.ones(left, device=device)
        b = torch.ones(right, device=device)
        try:
            function(a, b)
        except (RuntimeError, ValueError):
            refused += 1
    return refused, len(misfits)


def _attention(device: torch.device) -> Pair:
    """Return the fast paths of evaluation, and the slow ones of training; one row is masked."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)
    attention = nn.MultiheadAttention(32, 4, batch_first=True)
    models.filled(layer).to(device)
    models.filled(attention).to(device)
    x = reference.noise(2, 9, 32).to(device)
    mask = torch.zeros(2, 9, dtype=torch.bool, device=device)
    mask[1, 6:] = True

    def results() -> torch.Tensor:
        whole = layer(x, src_key_padding_mask=mask)
        weighted, _ = attention(x, x, x, key_padding_mask=mask)
        fast, _ = attention(x, x, x, key_padding_mask=mask, need_weights=False)
        return torch.stack([whole, weighted, fast])[:, ~mask]

    slow = results()
    layer.eval()
    attention.eval()
    with torch.no_grad():
        return results(), slow


def _beams(device: torch.device) -> Pair:
    model = models.llama(**SIZES).to(device)
    words = torch.arange(1, 13, device=device)[None]
    options = {"max_new_tokens": 8, "num_beams": 4, "do_sample": False}
    options |= {"attention_mask": words > 0, "pad_token_id": 0, "eos_token_id": 99}
    without = model.generate(words, use_cache=False, **options)
    return model.generate(words, **options), without


def _loss(device: torch.device) -> Pair:
    """Return losses and norms of gradients: eager, fused, and with recomputed activations."""
    words = torch.arange(1, 25, device=device).view(2, 12)
    labels = words.clone()
    labels[0, :5] = -100
    labels[1, 9:] = -100
    mask = torch.ones_like(words)
    mask[1, 9:] = 0
    losses = []
    norms = []
    for kind in ("eager", "sdpa", "recomputed"):
        attention = "eager" if kind == "eager" else "sdpa"
        model = models.llama(**SIZES, attn_implementation=attention)
        model = model.to(device).train()
        if kind == "recomputed":
            model.gradient_checkpointing_enable()
        result = model(words, attention_mask=mask, labels=labels)
        result.loss.backward()
        losses.append(float(result.loss))
        gradients = [weight.grad.flatten() for weight in model.parameters()]
        norms.append(float(torch.cat(gradients).norm()))
    scores = result.logits[:, :-1].reshape(-1, WORDS)
    following = labels[:, 1:].flatten()
    loss = float(functional.cross_entropy(scores.float(), following))
    norm = norms[0]
    return [*losses, *norms], [loss, loss, loss, norm, norm, norm]
