"""A silent process that computes is given time; one that waits is not."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from smoke.engine import patience
from smoke.engine.patience import BUSY, LONGEST

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 120.0


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Return whether a process counts as hung after some seconds with some CPU time."""

    def judge(seconds: float, used: float | None) -> bool:
        clock: dict[str, float | None] = {"now": 1000.0, "used": 5.0}
        later = {"now": 1000.0 + seconds, "used": None if used is None else 5.0 + used}
        monkeypatch.setattr(patience, "cpu_seconds", lambda _process: clock["used"])
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


def start(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-I", "-c", code])


@pytest.mark.machine
def test_a_process_that_computes_outlives_its_limit() -> None:
    """It stays silent for longer than its limit, and ends by itself."""
    child = start("import time\nwhile time.process_time() < 1.5: pass")
    code, seconds = patience.wait(child, 1.0, lambda: False)
    assert code == 0
    assert seconds > 1.0
