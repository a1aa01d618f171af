"""A silent process that computes is given time; one that waits is not."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from smoke.engine import child_process, patience
from smoke.engine.patience import BUSY, LONGEST, TICK

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 120.0


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Return whether a process counts as hung after some seconds with some CPU time."""

    def judge(seconds: float, used: float | None) -> bool:
        clock: dict[str, float | None] = {"now": 1000.0, "used": 5.0}
        later = {"now": 1000.0 + seconds, "used": None if used is None else 5.0 + used}
        monkeypatch.setattr(patience, "work_seconds", lambda _process: clock["used"])
        monkeypatch.setattr(patience, "is_ready", lambda _process: False)
        monkeypatch.setattr(patience, "SURE", 1)
        monkeypatch.setattr(
            patience, "time", SimpleNamespace(monotonic=lambda: clock["now"])
        )

        class Silent:
            """A process that ends at the second look, unless it is given up at the first."""

            def wait(self, tick: float) -> int:
                if clock == later:
                    return 0
                clock.update(later)
                raise subprocess.TimeoutExpired("silent", tick)

        process: Any = Silent()
        code, _ = patience.wait(process, LIMIT, lambda: False)
        return code is None

    return judge


@pytest.mark.parametrize(
    ("seconds", "used", "hung"),
    [
        (LIMIT - 1, 0.0, False),
        (LIMIT + 1, 0.0, True),  # asleep: the driver does not answer
        (LIMIT + 1, LIMIT, False),  # kernels are compiled
        (600.0, 600.0 * BUSY + 1, False),
        (600.0, 50.0, True),  # it compiled, and hangs since
        (LONGEST + 1, LONGEST, True),  # a loop that polls the device for ever
        (LIMIT + 1, None, True),  # no CPU time to be read: the limit alone decides
    ],
)
def test_silence_is_a_hang_or_a_compilation(
    silence: Callable[..., bool], seconds: float, used: float | None, hung: bool
) -> None:
    assert silence(seconds, used) is hung


@pytest.mark.parametrize(
    ("heard", "computes"), [([True, False], [False]), ([False], [True, False])]
)
def test_who_is_heard_or_computes_now_and_then_does_not_hang(
    heard: list[bool], computes: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, looks = itertools.count(0.0, LIMIT / 2), itertools.count()
    monkeypatch.setattr(
        patience, "time", SimpleNamespace(monotonic=lambda: next(clock))
    )
    monkeypatch.setattr(patience, "work_seconds", lambda _process: 0.0)
    works = itertools.cycle(computes)
    monkeypatch.setattr(patience, "_computes", lambda *_facts: next(works))
    monkeypatch.setattr(patience, "SURE", 2)

    class Silent:
        def wait(self, tick: float) -> int:
            if next(looks) == 20:
                return 0
            raise subprocess.TimeoutExpired("silent", tick)

    process: Any = Silent()
    signs = itertools.cycle(heard)
    code, _ = patience.wait(process, LIMIT, lambda: next(signs))
    assert code == 0


def start(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-I", "-c", code])


@pytest.mark.machine
def test_a_process_that_computes_outlives_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It stays silent for longer than its limit, and ends by itself."""
    monkeypatch.setattr(patience, "SURE", 4)
    child = start("import time\nwhile time.process_time() < 0.6: pass")
    code, seconds = patience.wait(child, 0.3, lambda: False)
    assert code == 0
    assert seconds > 0.3 + 4 * TICK


@pytest.mark.machine
@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
@pytest.mark.parametrize("compiles", ["itself", "in a child"])
def test_who_gets_no_processor_is_no_hang(
    compiles: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "SURE", 10)
    crowd = "import os; os.sched_setaffinity(0, {0})\nwhile True: pass"
    work = "import time\nwhile time.process_time() < 0.05: pass"
    code = f"import os; os.sched_setaffinity(0, {{0}}); os.nice(10)\n{work}"
    if compiles == "in a child":
        code = (
            f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
        )
    others = [start(crowd), start(crowd)]
    child = start(code)
    try:
        ended, seconds = patience.wait(child, 0.2, lambda: False)
    finally:
        for other in [child, *others]:
            other.kill()
            other.wait()
    assert ended == 0
    assert seconds > 0.2 + 10 * TICK


@pytest.mark.machine
@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_a_compiler_that_ends_while_it_is_looked_at_is_no_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiler, process = start("pass"), start("import time; time.sleep(60)")
    assert compiler.wait() == 0
    family = [process.pid, compiler.pid]
    monkeypatch.setattr(patience, "_family", lambda _pid: family)
    work = patience.work_seconds(process)
    process.kill()
    process.wait()
    assert work is not None


def test_a_hang_on_a_crowded_machine_may_be_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.5, 0.5), raising=False)
    calm = child_process.hung(100)
    monkeypatch.setattr(os, "getloadavg", lambda: (1e4, 0.5, 0.5), raising=False)
    crowded = child_process.hung(100)
    assert "other programs" not in f"{calm.cause} {calm.remedy}"
    assert crowded.cause.startswith("other programs take the processors, or the driver")
    assert crowded.remedy.startswith("end other programs")
    assert any("load average" in line for line in crowded.evidence)
