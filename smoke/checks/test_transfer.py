"""Transfer: data returns from the device bit for bit, at a plausible speed."""

import time

import torch

from smoke.device import devices
from smoke.engine.check import Numbers, check, on_gpu
from smoke.engine.finding import fail

SIZE = 64 * 2**20  # bytes
TYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
    torch.bool,
)


@check(
    "transfer.roundtrip",
    stands_for="tensors arrive damaged on the device",
    when=on_gpu,
    full=True,
)
def test_roundtrip(device: torch.device, numbers: Numbers) -> None:
    """Tensors of every dtype, small or of megabytes, return unchanged, contiguous or not."""
    small = _counted(130, 70, period=120)
    large = _counted(2053, 1031, period=119)
    for dtype in TYPES:
        layouts = {
            "": small.to(dtype),
            "strided": small.to(dtype).t(),
            "large": large.to(dtype),
        }
        for layout, tensor in layouts.items():
            numbers.step(f"{dtype} {layout}")
            host = tensor.clone()
            kept = tensor.to(device, non_blocking=True)
            there = host.to(device, non_blocking=True)
            devices.synchronize(device)
            host.zero_()  # which a copy that has ended does not see
            copies = [part.to("cpu", non_blocking=True) for part in (there, kept)]
            devices.synchronize(device)
            copies.append(kept.cpu())
            if not all(torch.equal(copy, tensor) for copy in copies):
                fail(
                    "transfer-corrupts",
                    f"a {layout} tensor of {dtype} returns changed",
                    [f"{dtype} {layout}", f"device {device}"],
                )
    numbers.record("types", len(TYPES), "count")


def _counted(rows: int, columns: int, period: int) -> torch.Tensor:
    return torch.arange(rows * columns).remainder(period).view(rows, columns)


@check(
    "transfer.speed",
    stands_for="a card in a slow slot, or a bad riser",
    when=on_gpu,
    full=True,
)
def test_speed(device: torch.device, numbers: Numbers) -> None:
    """Copies arrive unchanged, above half a GiB/s, on a link as fast as card and slot both can."""
    host = torch.randint(256, (SIZE,), dtype=torch.uint8)
    there = torch.empty_like(host, device=device)
    fast = pinned(SIZE, device)
    pairs = {
        "to device, pageable": (there, host),
        "to device": (there, fast.copy_(host)),
        "to host, pageable": (torch.empty_like(host), there),
        "to host": (fast, there),
    }
    for number in devices.alike(device)[1:]:
        other = torch.device(device.type, number)
        pairs[f"to device {number}"] = (torch.empty_like(there, device=other), there)
    speeds = {}
    for name, (target, source) in pairs.items():
        numbers.step(name)
        _first, *rounds = [copy_speed(target, source, device) for _ in range(5)]
        speeds[name] = numbers.sample(name, rounds, "GiB/s")
        if not torch.equal(target.cpu(), host):
            fail(
                "transfer-corrupts",
                f"data is changed on its way {name}",
                [f"from {device}"],
            )
    with numbers.measuring("link"):
        links = _links(there, fast, device)
        _judge_link(max(links), devices.sensors_of(device).fixed, numbers)
    slowest = min(speeds, key=speeds.__getitem__)
    if speeds[slowest] < 0.5:
        slow = f"{slowest}: {speeds[slowest]:.2f} GiB/s"
        fail("slow", f"{slow}; any slot gives more than 0.5 GiB/s", [slow])


def _links(
    there: torch.Tensor, fast: torch.Tensor, device: torch.device
) -> list[list[int]]:
    """Return the readings of the link while data moves: an idle one trains down."""
    links = []
    for _ in range(20):
        for _ in range(4):
            there.copy_(fast, non_blocking=True)
        links.append(devices.sensors_of(device).link())
        devices.synchronize(device)
    return links


def _judge_link(link: list[int], fixed: bool, numbers: Numbers) -> None:  # noqa: FBT001
    generation, width, most_generation, most_width = link
    numbers.record("PCIe generation", generation, "1")
    numbers.record("PCIe width", width, "lanes")
    numbers.record("PCIe generation at most", most_generation, "1")
    numbers.record("PCIe width at most", most_width, "lanes")
    if generation < most_generation or width < most_width:
        now = f"PCIe {generation} x{width}"
        most = f"PCIe {most_generation} x{most_width}"
        fail(
            "link-below-its-best",
            f"{now} under load, both ends can do {most}",
            [now],
            "error" if fixed else "warning",
        )


def pinned(size: int, device: torch.device) -> torch.Tensor:
    """Return pinned memory of the host for transfers to the device.

    torch 2.1 takes CUDA for granted where no device is named; later torch takes the accelerator,
    and warns about the argument.
    """
    memory = torch.zeros(size, dtype=torch.uint8)
    if devices.kind(device) == "mps":  # pins none: torch/utils/data/dataloader.py
        return memory
    try:
        return memory.pin_memory()
    # "Cannot initialize CUDA without ATen_cuda library"
    except (RuntimeError, AssertionError):
        return memory.pin_memory(device.type)


def copy_speed(
    target: torch.Tensor, source: torch.Tensor, device: torch.device
) -> float:
    """Return the speed of one copy in GiB/s."""
    devices.synchronize(device)
    began = time.perf_counter()
    target.copy_(source, non_blocking=True)
    devices.synchronize(device)
    seconds = time.perf_counter() - began
    return float(source.nbytes / 2**30 / seconds)
