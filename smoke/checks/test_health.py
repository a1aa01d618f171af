"""Health: what the hardware itself does and tells, under a load of seconds or of minutes."""

import time
from collections import Counter

import torch

from smoke.checks.test_transfer import copy_speed
from smoke.device import capabilities, devices, sensors
from smoke.device.intel_device import essence
from smoke.engine.check import Numbers, check
from smoke.engine.expect import Expect
from smoke.engine.finding import fail

SECONDS, ROUNDS = 3.0, 5
# By whether it is a GPU: bytes, more than caches hold; and block, inner size, blocks per side.
BYTES, SIZE = {True: 2**28, False: 2**26}, {True: (512, 2048, 8), False: (512, 512, 1)}
LOW = 0.2  # of a peak; oneDNN, cuBLAS and copies reach more than a half
UNITS = {"throughput": "TFLOP/s", "temperature": "°C", "power": "W", "clock": "MHz"}


class Product:
    """A product of -1, 0 and 1, which no type and no order of summation rounds."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        block, inner, times = SIZE[device.type != "cpu"]
        seed = torch.Generator().manual_seed(0)
        left = torch.randint(-1, 2, (block, inner), generator=seed).float()
        right = torch.randint(-1, 2, (inner, block), generator=seed).float()
        self._wanted = (left @ right).repeat(times, times).to(dtype).to(device)
        self._left = left.repeat(times, 1).to(dtype).to(device)
        self._right = right.repeat(1, times).to(dtype).to(device)
        self._device, self._flops = device, 2 * inner * (times * block) ** 2
        self._wrong = torch.zeros((), dtype=torch.int64, device=device)
        self.rate(0.0)  # kernels are compiled, clocks rise

    def rate(self, seconds: float, *, every_one: bool = False) -> float:
        """Return TFLOP/s over at least so many seconds; every product or the last is compared."""
        devices.synchronize(self._device)
        began, done = time.perf_counter(), 0
        while not done or time.perf_counter() - began < seconds:
            for _ in range(each := max(1, done // 4)):
                found = self._left @ self._right
                self._wrong += (found != self._wanted).sum() if every_one else 0
            devices.synchronize(self._device)
            done += each
        rate = done * self._flops / (time.perf_counter() - began) / 1e12
        self._wrong += 0 if every_one else (found != self._wanted).sum()
        return rate

    def verify(self, code: str, where: str) -> None:
        """Fail the check unless every number of the products was right."""
        if wrong := int(self._wrong):
            fail(code, f"{wrong} values of exact products are wrong", [where])


@check(
    "health.speed",
    stands_for="a card at a fraction of what its data sheet promises",
    full=True,
)
def test_speed(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """Products are exact in each type; they and copies are as fast as the device's peak allows."""
    there = torch.ones(BYTES[device.type != "cpu"] // 8, device=device)
    speeds = [
        copy_speed(torch.empty_like(there), there, device) for _ in range(ROUNDS + 1)
    ]
    copied = [2 * speed * 2**30 / 1e9 for speed in speeds[1:]]  # it reads and writes
    rates = {"memory": numbers.sample("memory", copied, "GB/s")}
    reason = capabilities.float64(device)
    numbers.missing |= {"float64": reason} if reason else {}
    types = ["float32", "bfloat16"] + ["float64"] * (not reason)
    types += ["float16"] * (device.type != "cpu")  # torch 2.1 multiplies none there
    for name in types:
        numbers.step(f"product in {name}")
        product = Product(device, getattr(torch, name))
        found = [product.rate(0.05) for _ in range(ROUNDS)]
        rates[name] = numbers.sample(name, found, "TFLOP/s")
        product.verify("wrong-numbers", name)
    promised = {essence(name): peak for name, peak in expect.peaks.items()}
    peak = promised.get(essence(str(devices.facts(device)["name"])), {})
    shares = {name: rate / peak[name] for name, rate in rates.items() if name in peak}
    for name, share in shares.items():
        numbers.record(f"{name}, share of the peak", share, "1")
    if low := [
        f"{name}: {share:.0%} of the peak"
        for name, share in shares.items()
        if share < LOW
    ]:
        fail("slow", f"{low[0]}, {LOW:.0%} at least is usual", low)


@check(
    "health.memory",
    stands_for="memory that loses bits: random crashes and numbers",
    full=True,
)
def test_memory(device: torch.device, numbers: Numbers) -> None:
    """A part of the memory holds walking ones, its own addresses, and the inverse of each."""
    count = BYTES[device.type != "cpu"] // 4
    try:
        torch.empty(
            4 * count, dtype=torch.int32, device=device
        )  # all that is used at once
    except RuntimeError:  # somebody else uses the memory
        count //= 16
    words = torch.empty_like(
        addresses := torch.arange(count, dtype=torch.int32, device=device)
    )
    ones = {
        f"a one at bit {bit}": (1 << bit) - (1 << 32) * (bit == 31) for bit in range(32)
    }
    for name, pattern in {**ones, "addresses": addresses}.items():
        numbers.step(name)
        words.zero_().add_(pattern)
        for kind, wanted in (("", pattern), ("the inverse of ", ~pattern)):
            if wrong := int((words != wanted).sum()):
                symptom = f"{wrong} of {len(words)} words do not hold {kind}{name}"
                fail(
                    "memory-corrupts",
                    symptom,
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
    """Under load results stay exact, heat slows nothing, and the driver tells no error."""
    seconds, readings = expect.soak or SECONDS, devices.sensors_of(device)
    product = Product(device, torch.float32 if device.type == "cpu" else torch.float16)
    courses: dict[str, list[float]] = {name: [] for name in UNITS}
    reasons, every = Counter[str](), min(30.0, max(0.2, seconds / 240))
    began, used = time.monotonic(), time.process_time()
    with numbers.measuring("power"):
        readings.read(
            "power"
        )  # some count energy: power is what it grew by since the last look
    while (passed := time.monotonic() - began) < seconds:
        numbers.step(f"load for {seconds:.0f} s")
        courses["throughput"].append(product.rate(every, every_one=True))
        product.verify("values-drift", f"after {passed:.0f} s")
        for name in UNITS.keys() - {"throughput"}:
            with numbers.measuring(name):
                courses[name] += readings.read(name)[:1]
        with numbers.measuring("throttle reasons"):
            reasons.update(readings.throttled())
    rounds = len(courses["throughput"])
    total = (
        f" over {seconds:.0f} s" if expect.soak else ""
    )  # minutes heat more: another number
    for name, course in (
        drawn := {name: each for name, each in courses.items() if each}
    ).items():
        numbers.sample(name + total, course, UNITS[name], passed / rounds)
    for reason, times in reasons.items():
        numbers.record(f"throttled: {reason}", times / rounds, "1")
    if expect.on_gpu:
        _errors(readings, numbers)
    else:  # what tells a busy host from a slow processor, when reports are compared
        numbers.record("CPU share", (time.process_time() - used) / passed, "1")
    if hot := sorted(set(reasons) & set(sensors.TABLE["heat"])):
        symptom = (
            f"throttled by heat in {reasons[hot[0]]} of {rounds} readings ({hot[0]})"
        )
        facts = [
            f"{name} {each[0]:.4g} to {each[-1]:.4g}" for name, each in drawn.items()
        ]
        fail(
            "throttled-by-heat",
            symptom,
            facts,
            "error" if readings.fixed else "warning",
        )


def _errors(readings: sensors.Sensors, numbers: Numbers) -> None:
    for function, names in sensors.TABLE["errors"].items():
        with numbers.measuring(function):
            for name, value in zip(names, readings.read(function), strict=True):
                numbers.record(name, value, "count")
    with numbers.measuring("Xid errors"):
        of_programs = [xid in sensors.TABLE["of_programs"] for xid in readings.xids()]
        numbers.record("Xid errors", of_programs.count(False), "count")
        numbers.record("Xid errors of programs", of_programs.count(True), "count")
    for name, code in sensors.TABLE["judged"].items():
        if told := numbers.values.get(name, {}).get("value"):
            fail(code, f"{name}: {told:.0f}", [f"{name}: {told:.0f}"])
