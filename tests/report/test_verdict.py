"""What a verdict takes over from the one before it."""

from __future__ import annotations

import datetime as dt
import json
from random import Random
from typing import Any

from provision.report.verdict import Verdict, verdict_of
from tests.report.fleets import verdict


def gate(hour: int, **parts: Any) -> Verdict:  # noqa: ANN401
    at = dt.datetime(2026, 11, 1, hour, tzinfo=dt.UTC)
    made = verdict("gpu1", Random(19), at, suite="gate", **parts)
    return verdict_of(json.dumps(made).encode())


def test_no_verdict_counts_from_the_first_in_a_row() -> None:
    first = gate(2, verdict="none").after(gate(1))
    second = gate(3, verdict="none").after(first)
    third = gate(4, verdict="none").after(second)
    assert [first.since, second.since, third.since] == [first.time] * 3


def test_a_verdict_of_an_earlier_version_tells_how_many_devices_there_were() -> None:
    before = gate(1, devices=8)
    lost = gate(2, most_devices=7).after(before)
    assert (lost.verdict, lost.code) == ("remove", "fewer-devices")
    assert lost.most_devices == 8
    assert gate(2, most_devices=8).after(before).verdict == "keep"
