"""Health: what the hardware does and reports, under a load of seconds or of minutes."""

import time
from collections import Counter
from functools import partial
from typing import Any

import torch

from smoke.checks.test_transfer import copy_speed
from smoke.device import capabilities, devices, sensors
from smoke.device.intel_device import essence
from smoke.engine.check import Numbers, check, on_gpu
from smoke.engine.expect import Expect
from smoke.engine.finding import fail

SECONDS, ROUNDS = 3.0, 5
# By whether it is a GPU: bytes, more than caches hold; and block, inner size, blocks per side.
BYTES = {True: 2**28, False: 2**26}
SIZE = {True: (512, 2048, 8), False: (512, 512, 1)}
LOW = 0.2  # of a peak; oneDNN, cuBLAS and copies reach more than a half
UNITS = {"throughput": "TFLOP/s", "temperature": "°C", "power": "W", "clock": "MHz"}


class Product:
    """A product of -1, 0 and 1, which no type and no order of summation rounds."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        block, inner, times = SIZE[device.type != "cpu"]
        generator = torch.Generator().manual_seed(0)
        draw = partial(torch.randint, -1, 2, generator=generator)
        left = draw((block, inner)).float()
        right = draw((inner, block)).float()
        product = (left @ right).repeat(times, times)
        self._right_product = product.to(dtype).to(device)
        left = left.repeat(times, 1).to(dtype)
        right = right.repeat(1, times).to(dtype)
        self._left = left.to(device)
        self._right = right.to(device)
        self._device = device
        self._flops = 2 * inner * (times * block) ** 2
        self._wrong = torch.zeros((), dtype=torch.int64, device=device)
        self.rate(0.0)  # kernels are compiled, clocks rise

    def rate(self, seconds: float, *, every_one: bool = False) -> float:
        """Return TFLOP/s over at least so many seconds; every product or the last is compared."""
        devices.synchronize(self._device)
        began, done = time.perf_counter(), 0
        while not done or time.perf_counter() - began < seconds:
            count = max(1, done // 4)
            for _ in range(count):
                product = self._left @ self._right
                if every_one:
                    self._wrong += (product != self._right_product).sum()
            devices.synchronize(self._device)
            done += count
        rate = done * self._flops / (time.perf_counter() - began) / 1e12
        if not every_one:
            self._wrong += (product != self._right_product).sum()
        return rate

    def verify(self, code: str, where: str) -> None:
        """Fail the check unless every number of the products was right."""
        if wrong := int(self._wrong):
            fail(code, f"{wrong} values of exact products are wrong", [where])


@check(
    "health.bandwidth",
    stands_for="memory at a fraction of what the card's data sheet promises",
    full=True,
)
def test_bandwidth(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """Copies within the memory are as fast as the device's peak allows."""
    size = BYTES[device.type != "cpu"]
    source = torch.ones(size // 8, device=device)
    rounds = []
    for _ in range(ROUNDS + 1):
        speed = copy_speed(torch.empty_like(source), source, device)
        rounds.append(2 * speed * 2**30 / 1e9)  # it reads and writes
    rate = numbers.sample("memory", rounds[1:], "GB/s")
    _compare_with_peak(expect, device, {"memory": rate}, numbers)


@check(
    "health.speed",
    stands_for="a card at a fraction of what its data sheet promises",
    full=True,
)
def test_speed(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """Products are exact in each type, and as fast as the device's peak allows."""
    rates = {}
    types = ["float32", "bfloat16"]
    if device.type != "cpu":  # torch 2.1 multiplies no float16 there
        types.append("float16")
    if reason := capabilities.float64(device):
        numbers.missing["float64"] = reason
    else:
        types.append("float64")
    for name in types:
        numbers.step(f"product in {name}")
        product = Product(device, getattr(torch, name))
        rounds = [product.rate(0.05) for _ in range(ROUNDS)]
        rates[name] = numbers.sample(name, rounds, "TFLOP/s")
        product.verify("wrong-numbers", name)
    _compare_with_peak(expect, device, rates, numbers)


def _compare_with_peak(
    expect: Expect, device: torch.device, rates: dict[str, float], numbers: Numbers
) -> None:
    """Fail where a device reaches a small part of its data sheet."""
    promised = {essence(name): peaks for name, peaks in expect.peaks.items()}
    device_name = essence(str(devices.facts(device)["name"]))
    low = []
    for name, peak in promised.get(device_name, {}).items():
        if name in rates:
            share = rates[name] / peak
            numbers.record(f"{name}, share of the peak", share, "1")
            if share < LOW:
                low.append(f"{name}: {share:.0%} of the peak")
    if low:
        fail("slow", f"{low[0]}, {LOW:.0%} at least is usual", low)


@check(
    "health.memory",
    stands_for="memory that loses bits: random crashes and numbers",
    full=True,
)
def test_memory(device: torch.device, numbers: Numbers) -> None:
    """A part of the memory holds walking ones, its own addresses, and the inverse of each."""
    count = BYTES[device.type != "cpu"] // 4
    addresses = torch.arange(count, dtype=torch.int32, device=device)
    words = torch.empty_like(addresses)
    patterns: dict[str, Any] = {"addresses": addresses}
    for bit in range(31):
        patterns[f"a one at bit {bit}"] = 1 << bit
    for name, pattern in patterns.items():
        numbers.step(name)
        words.zero_().add_(pattern)
        for kind, right in (("", pattern), ("the inverse of ", ~pattern)):
            wrong = words != right
            if wrong.any():
                fail(
                    "memory-corrupts",
                    f"{int(wrong.sum())} of {count} words do not hold {kind}{name}",
                    [f"{words.nbytes >> 20} MiB on {device}"],
                )
            words.bitwise_not_()
    numbers.record("tested", words.nbytes >> 20, "MiB")


@check(
    "health.load",
    stands_for="a card that throttles or miscomputes once it is hot",
    full=True,
)
def test_load(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """Under load results stay exact, and heat slows nothing."""
    seconds = expect.soak or SECONDS
    readings = devices.sensors_of(device)
    began = time.monotonic()
    courses, reasons = _under_load(device, seconds, readings, numbers)
    rounds = len(courses["throughput"])
    every = (time.monotonic() - began) / rounds
    # Minutes heat more: they are another number.
    total = f" over {seconds:.0f} s" if expect.soak else ""
    for name, course in courses.items():
        numbers.sample(name + total, course, UNITS[name], every)
    for reason, times in reasons.items():
        numbers.record(f"throttled: {reason}", times / rounds, "1")
    if hot := sorted(set(reasons) & set(sensors.TABLE["heat"])):
        evidence = []
        for name, course in courses.items():
            evidence.append(f"{name} {course[0]:.4g} to {course[-1]:.4g}")
        fail(
            "throttled-by-heat",
            f"throttled by heat in {reasons[hot[0]]} of {rounds} readings ({hot[0]})",
            evidence,
            "error" if readings.fixed else "warning",
        )


def _under_load(
    device: torch.device, seconds: float, readings: sensors.Sensors, numbers: Numbers
) -> tuple[dict[str, list[float]], Counter[str]]:
    """Multiply for so long; return what was measured, and how often the clock was throttled."""
    on_cpu = device.type == "cpu"
    product = Product(device, torch.float32 if on_cpu else torch.float16)
    courses: dict[str, list[float]] = {name: [] for name in UNITS}
    reasons = Counter[str]()
    every = min(30.0, max(0.2, seconds / 240))
    began, used = time.monotonic(), time.process_time()
    passed = 0.0
    with numbers.measuring("power"):
        # Some count energy: power is what it grew by since the last look.
        readings.read("power")
    while passed < seconds:
        numbers.step(f"load for {seconds:.0f} s")
        courses["throughput"].append(product.rate(every, every_one=True))
        product.verify("values-drift", f"after {passed:.0f} s")
        for name in ("temperature", "power", "clock"):
            with numbers.measuring(name):
                courses[name] += readings.read(name)[:1]
        with numbers.measuring("throttle reasons"):
            reasons.update(readings.throttled())
        passed = time.monotonic() - began
    if on_cpu:  # tells a busy host from a slow processor
        used = time.process_time() - used
        numbers.record("CPU share", used / passed, "1")
    return {name: course for name, course in courses.items() if course}, reasons


@check(
    "health.errors",
    stands_for="a card whose memory lost bits, and that nobody took out of use",
    when=on_gpu,
    full=True,
)
def test_errors(device: torch.device, numbers: Numbers) -> None:
    """The driver reports no error of the device: memory beyond repair, Xid."""
    readings = devices.sensors_of(device)
    for function, names in sensors.TABLE["errors"].items():
        with numbers.measuring(function):
            counts = readings.read(function)
            for name, count in zip(names, counts, strict=True):
                numbers.record(name, count, "count")
    with numbers.measuring("Xid errors"):
        xids = readings.xids()
        of_programs = [xid for xid in xids if xid in sensors.TABLE["of_programs"]]
        numbers.record("Xid errors", len(xids) - len(of_programs), "count")
        numbers.record("Xid errors of programs", len(of_programs), "count")
    for name, code in sensors.TABLE["judged"].items():
        if name in numbers.values and numbers.values[name]["value"]:
            errors = f"{name}: {numbers.values[name]['value']:.0f}"
            fail(code, errors, [errors])
