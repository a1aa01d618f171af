"""Memory: freed memory is released, and an allocation that is too large is refused cleanly."""

import ctypes
import gc
import re
import sys
from pathlib import Path

import torch

from smoke.device import capabilities, devices
from smoke.engine.check import Numbers, check, on_gpu
from smoke.engine.expect import Expect
from smoke.engine.finding import fail
from smoke.reference import training

MEBI = 2**20


def countable(expect: Expect) -> str:
    """Apply where memory in use can be read: on a device, or from Linux' procfs."""
    if expect.on_gpu or sys.platform == "linux":
        return ""
    return "needs a GPU, or Linux, which tells the memory of a process"


def in_use(device: torch.device) -> int:
    """Return the bytes that live tensors (on the CPU: the whole process) take."""
    gc.collect()
    module = devices.backend(device)
    if module is None:
        # A new tensor may be in freed memory that the C library keeps: let it return all of that.
        getattr(ctypes.CDLL(None), "malloc_trim", id)(0)
        return _resident()
    devices.synchronize(device)
    return int(module.memory_allocated())


def _resident() -> int:
    """Return the bytes of this process in memory, counted page by page where the kernel does it.

    The number in `statm` may lack some pages for each processor, since Linux 6.2 keeps one part of
    it there: up to 32 MiB on a machine of 64 (`mm/memory.c`, `lib/percpu_counter.c`).
    """
    try:
        text = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
        return 1024 * int(re.findall(r"^Rss: +(\d+) kB", text, re.MULTILINE)[0])
    except OSError:  # gVisor has none
        text = Path("/proc/self/statm").read_text(encoding="ascii")
        return 4096 * int(text.split()[1])


@check(
    "memory.leak",
    stands_for="training runs out of memory after hours: each step leaks a little",
    when=countable,
    full=True,
)
def test_leak(device: torch.device, numbers: Numbers) -> None:
    """Training does not leak: after fifty steps as much memory is in use as after ten."""
    model = training.network(seed=0).to(device)
    update = training.optimizer("AdamW", model.parameters())
    _steps(model, update, 10, device)
    before = in_use(device)
    _steps(model, update, 40, device)
    grown = (in_use(device) - before) / MEBI
    numbers.record("grown", grown, "MiB")
    # On the CPU it is the resident memory of the process, which varies by some pages.
    allowed = 8.0 if device.type == "cpu" else 0.0
    if grown > allowed:
        fail(
            "memory-leak",
            f"forty steps of training kept {grown:.2f} MiB",
            [f"{before / MEBI:.1f} MiB before", f"at most {allowed} MiB may be kept"],
        )


def _steps(
    model: torch.nn.Module,
    update: torch.optim.Optimizer,
    count: int,
    device: torch.device,
) -> None:
    """Train, and attend to words of which there is one more or less each time."""
    training.steps(model, update, count, device)
    for turn in range(count):
        words = 64 + turn % 5
        x = torch.ones(1, 2, words, 64, device=device, requires_grad=True)
        result = torch.nn.functional.scaled_dot_product_attention(x, x, x)
        result.sum().backward()


@check(
    "memory.release",
    stands_for="memory is not released when a model is deleted",
    when=countable,
    full=True,
)
def test_release(device: torch.device, numbers: Numbers) -> None:
    """The memory of a deleted tensor of 64 MiB is released."""
    before = in_use(device)
    tensor = torch.ones(64 * MEBI // 4, device=device)
    held = (in_use(device) - before) / MEBI
    del tensor
    kept = (in_use(device) - before) / MEBI
    numbers.record("held", held, "MiB")
    numbers.record("kept", kept, "MiB")
    if not (60 < held < 120 and kept < 4):  # what counts each tensor twice says 128
        fail(
            "memory-not-released",
            f"a tensor of 64 MiB took {held:.1f} MiB, and {kept:.1f} MiB after it was deleted",
            [f"held {held:.1f} MiB", f"kept {kept:.1f} MiB"],
        )


@check(
    "memory.exhausted",
    stands_for="out of memory takes the driver or the process down",
    full=True,
)
def test_exhausted(device: torch.device, numbers: Numbers) -> None:
    """An allocation beyond all memory raises an error, and the device works afterwards."""
    code = "out-of-memory-not-refused"
    numbers.step("ask for a pebibyte")
    refusal = ""
    try:
        torch.empty(2**50, dtype=torch.uint8, device=device)
    except RuntimeError as error:
        refusal = str(error).splitlines()[0]
    numbers.step("compute after the refusal")
    devices.synchronize(device)  # raises what is still pending
    total = float(torch.ones(1000, device=device).sum())
    if not refusal:
        fail(code, "a pebibyte was allocated", ["no error"])
    if total != 1000.0:
        fail(code, f"afterwards 1000 ones add to {total}", [refusal])


@check(
    "memory.large",
    stands_for="tensors beyond 4 GiB: addresses of 32 bits wrap",
    when=on_gpu,
    needs=(capabilities.large_tensors,),
    full=True,
)
def test_large(device: torch.device, numbers: Numbers) -> None:
    """A tensor of more than 4 GiB is granted, and its parts can be told apart."""
    tensor = torch.empty(capabilities.LARGE, dtype=torch.uint8, device=device)
    starts = list(range(0, 5 * 2**30, 2**30))
    starts += [start + 2**20 for start in starts]
    length = 2**16
    for value, start in enumerate(starts):
        tensor[start : start + length] = value
    last = torch.tensor(starts).to(device) + length - 1
    picked = tensor.index_select(0, last).cpu()
    wrong = int((picked != torch.arange(10)).sum())
    for value, start in enumerate(starts):
        part = tensor[start : start + length]
        wrong += int((part != value).sum())
    numbers.within("elements with other values than were written", wrong, 0)
    # A kernel over all elements, of which there are more than 32 bits count.
    tensor.fill_(3)
    tensor[-1] = 200
    tensor.add_(4)
    places = (0, 2**31 - 1, 2**31, 2**32 - 1, 2**32, capabilities.LARGE - 2)
    missed = [place for place in places if tensor[place].item() != 7]
    wrong = len(missed)
    if tensor.max().item() != 204:
        wrong += 1
    numbers.within("elements that one kernel over all of them missed", wrong, 0)
