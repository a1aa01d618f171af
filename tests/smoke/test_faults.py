"""Every check fails under its fault, with its own finding, and no other check fails with it."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from provision.commands.smoke import with_causes
from tests.smoke.faults import FAULTS, Fault, check_ids

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WORLDS = ("cpu", "pretend")
Results = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def results(
    harness: Callable[..., None],
    sound: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Results:
    """What every check said under every fault of the two worlds."""
    folder = tmp_path_factory.mktemp("faults")

    def run(world: str) -> Results:
        out = folder / f"{world}.json"
        harness(world, sound, out)
        found: Results = json.loads(out.read_text(encoding="utf-8"))
        found[f"sound {world}"] = found.pop("none")
        return found

    with ThreadPoolExecutor() as pool:
        return {name: found for part in pool.map(run, WORLDS) for name, found in part.items()}


def failures(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the codes that a user's report has, which the toolkit completes."""
    return [(each["id"], each["finding"]["code"]) for each in with_causes(found) if each["finding"]]


def test_no_check_is_exempt() -> None:
    assert check_ids() - {fault.check for fault in FAULTS} == set()
    assert {fault.check for fault in FAULTS if fault.code} <= check_ids()


@pytest.mark.machine
@pytest.mark.parametrize("world", WORLDS)
def test_nothing_fails_where_nothing_is_wrong(results: Results, world: str) -> None:
    found = results[f"sound {world}"]
    assert len(found) > 10
    assert failures(found) == []


@pytest.mark.machine
@pytest.mark.parametrize(
    "fault", [f for f in FAULTS if f.world != "process"], ids=lambda fault: fault.name
)
def test_exactly_one_check_finds_the_fault(results: Results, fault: Fault) -> None:
    wanted = [(fault.check, fault.code)] if fault.code else []
    assert failures(results[fault.name]) == wanted


@pytest.mark.machine
@pytest.mark.parametrize(
    "fault", [f for f in FAULTS if f.world == "process"], ids=lambda fault: fault.name
)
def test_a_process_that_dies_or_hangs_is_a_finding(
    fault: Fault, harness: Callable[..., None], sound: Path, tmp_path: Path
) -> None:
    data = json.loads(sound.read_text(encoding="utf-8"))
    packages = data["packages"] | fault.expect.get("packages", {})
    expect, report = tmp_path / "expect.json", tmp_path / "report.json"
    expect.write_text(json.dumps(data | fault.expect | {"packages": packages}), encoding="utf-8")
    harness("--supervise", fault.name, expect, report, *fault.arguments, ends_with=1)
    found = json.loads(report.read_text(encoding="utf-8"))["checks"]
    assert failures(found) == [(fault.check, fault.code)]
    assert all(each["finding"]["evidence"] for each in found if each["finding"])


@pytest.mark.machine
def test_the_table_of_checks_and_faults(
    results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    """Print it: it is the proof that the suite can fail."""
    lines = [f"\n\n{'check':20} {'fault':52} {'finding':30} world"]
    rows = sorted((f.check, f.name.replace("_", " "), f.code, f.world) for f in FAULTS if f.code)
    beside = {fault.name: len(results.get(fault.name, ())) for fault in FAULTS}
    for check, name, code, world in rows:
        passed = beside[name.replace(" ", "_")] - 1
        others = f"{passed} other checks pass" if passed > 0 else "on its own"
        lines.append(f"{check:20} {name:52} {code:30} {world}, {others}")
    with capsys.disabled():
        sys.stdout.write("\n".join(lines) + "\n")
    assert {check for check, *_ in rows} == check_ids()
