"""Series of training rates as hosts produce them, each from a fixed seed.

A run is a list of rounds: images per second, and the CPU seconds per second that it was given.
``recorded.json`` holds what two shared cores gave, one process per run, unchanged throughout,
while other programs used them by turns: between 2 and 86 images/s.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

ROUNDS = 15
SPEED, CORES = 1000.0, 2.0


class Run(NamedTuple):
    """The rounds of one run; no shares where they were not recorded."""

    rates: list[float]
    shares: list[float]

    def slower(self, factor: float) -> Run:
        """Return the same run of a device with this part of the speed."""
        return self._replace(rates=[rate * factor for rate in self.rates])


def normal(chance: Random, within: float, between: float) -> Iterator[Run]:
    """Yield runs of a quiet host: normal noise of the rounds, and of the level of each run."""
    while True:
        level = SPEED * math.exp(chance.gauss(0, between))
        rates = [max(level * (1 + chance.gauss(0, within)), 1.0) for _ in range(ROUNDS)]
        yield Run(rates, [CORES] * ROUNDS)


def shared(
    chance: Random, *, busy: float = 0.1, burst: float = 0.15, hidden: float = 0.0
) -> Iterator[Run]:
    """Yield runs of a shared host: rounds in bursts of load, and whole runs under load.

    A burst lasts 1 to 5 rounds and slows them by a factor with a Pareto tail (alpha 1.5: its
    variance is infinite). Under load the rate falls with a power of the CPU share: 1.6 to 3.3 was
    recorded.

    Args:
        chance: Where the randomness comes from.
        busy: Probability that a whole run is under load.
        burst: Probability per round that a burst begins.
        hidden: Probability that the load of a run does not show in the share, as load of the
            memory or of the other thread of a core.
    """
    while True:
        level = SPEED * math.exp(chance.gauss(0, 0.05))
        slow = chance.uniform(1.1, 10.0) if chance.random() < busy else 1.0
        visible = chance.random() >= hidden
        rates, shares, left, tail = [], [], 0, 1.0
        for _ in range(ROUNDS):
            if not left and chance.random() < burst:
                left, tail = chance.randint(1, 5), chance.paretovariate(1.5)
            factor = slow * (tail if left else 1.0)
            left = max(0, left - 1)
            rates.append(level / factor * math.exp(chance.gauss(0, 0.08)))
            shares.append(
                CORES * factor ** (-1 / chance.uniform(1.6, 3.3)) if visible else CORES
            )
        yield Run(rates, shares)


def drifting(chance: Random) -> Iterator[Run]:
    """Yield runs of a host whose speed swings by 6 % around its mean, as with room heat."""
    for step, run in enumerate(normal(chance, 0.05, 0.02)):
        yield run.slower(math.exp(0.06 * math.sin(step / 9)))


def bimodal(chance: Random) -> Iterator[Run]:
    """Yield runs of a device with two clocks, 12 % apart."""
    for run in normal(chance, 0.03, 0.01):
        yield run.slower(1.0 if chance.random() < 0.6 else 0.88)


def recorded() -> list[Run]:
    """Return the recorded runs, in order."""
    document = json.loads(
        Path(__file__).with_name("recorded.json").read_text(encoding="utf-8")
    )
    return [Run(run["throughput"], run["CPU share"]) for run in document]
