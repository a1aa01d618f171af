"""The report of a fleet: who is bad, who differs, who is silent, and what it cannot read."""

from __future__ import annotations

import datetime as dt
import json
from random import Random
from typing import TYPE_CHECKING

from provision.cli.main import main
from provision.report.fleet import Fleet, Node, report_fleet
from tests.calls import count_calls
from tests.report.fleets import change, verdict, write_fleet

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)


def report(folder: Path, *hosts: str) -> Fleet:
    return report_fleet(folder, hosts, NOW - DAY)


def node(fleet: Fleet, name: str) -> Node:
    (found,) = (each for each in fleet.nodes if each.node == name)
    return found


def test_a_good_fleet_is_one_line_and_nobody_deviates(tmp_path: Path) -> None:
    write_fleet(tmp_path, 200, NOW)
    found = report(tmp_path)
    assert found.counts == {"keep": 200}
    ((state, names, what),) = found.lines
    assert (state, names) == ("keep", "gpu00000 and 199 more")
    assert (
        what
        == "cuda-linux quick, NVIDIA H100 80GB HBM3, nvidia 580.95.05, lock 79f30a88"
    )
    assert not found.bad


def test_the_worst_come_first_and_alike_ones_share_a_line(tmp_path: Path) -> None:
    paths = write_fleet(tmp_path, 30, NOW)
    for number, path in enumerate(paths[:5]):
        change(
            path,
            verdict="remove",
            code="op-fails",
            reason=f"device.matmul: error 0x{number}",
        )
    change(
        paths[6], verdict="none", code="busy", reason="the device is used by python (9)"
    )
    change(paths[7], time=f"{NOW - 3 * DAY:%Y-%m-%dT%H:%M:%SZ}")
    change(paths[8], stack={"driver nvidia": "575.57"})
    found = report(tmp_path, "gpu00001", "gpu99999")
    assert [line[0] for line in found.lines] == [
        "remove",
        "silent",
        "stale",
        "deviates",
        "none",
        "keep",
    ]
    assert found.lines[0][1] == "gpu00000 and 4 more"
    assert found.counts == {
        "remove": 5,
        "silent": 1,
        "stale": 1,
        "deviates": 1,
        "none": 1,
        "keep": 22,
    }
    assert node(found, "gpu99999").state == "silent"
    assert found.bad


def test_another_driver_is_named_with_that_of_the_group(tmp_path: Path) -> None:
    paths = write_fleet(tmp_path, 10, NOW)
    change(paths[3], stack={"driver nvidia": "575.57.08"})
    found = report(tmp_path)
    assert node(found, "gpu00003").deviations == (
        "driver nvidia 575.57.08, 580.95.05 on 9 of 10",
    )
    assert node(found, "gpu00003").driver == "nvidia 575.57.08"
    assert [each.node for each in found.nodes if each.deviations] == ["gpu00003"]


def test_half_a_fleet_on_a_new_driver_deviates_from_nobody(tmp_path: Path) -> None:
    for path in write_fleet(tmp_path, 20, NOW)[::2]:
        change(path, stack={"driver nvidia": "590.12"})
    found = report(tmp_path)
    assert found.counts == {"keep": 20}
    assert len(found.lines) == 2  # one of each driver


def test_a_number_that_is_worse_than_the_group_s_is_named(tmp_path: Path) -> None:
    paths = write_fleet(tmp_path, 40, NOW)
    numbers = json.loads(paths[5].read_text(encoding="utf-8"))["numbers"]
    for check, name, number, said in (
        ("operators.check3", "rate", (600.0, "images/s"), "600 images/s, "),
        ("operators.check3", "float16", (2e-3, "1", 4e-3), "0.002, "),
        ("device.ready", "count", (7.0, "count"), "7 count, 8 "),
        ("device.ready", "memory", (39.5, "GiB"), "39.5 GiB, 79.1 "),
    ):
        worse = dict(zip(("value", "unit", "limit"), number, strict=False))
        changed = {check: numbers[check] | {name: worse}}
        change(paths[5], numbers=numbers | changed)
        found = report(tmp_path)
        apart = [each.node for each in found.nodes if each.state == "deviates"]
        assert apart == ["gpu00005"]
        (text,) = node(found, "gpu00005").deviations
        assert text.startswith(f"{check}: {name} {said}")
        assert text.endswith(" is usual in its group")


def test_nodes_of_another_card_or_lock_are_another_group(tmp_path: Path) -> None:
    paths = write_fleet(tmp_path, 12, NOW)
    for path in paths[:4]:
        numbers = json.loads(path.read_text(encoding="utf-8"))["numbers"]
        slow = {
            check: each | {"rate": {"value": 90.0, "unit": "images/s"}}
            for check, each in numbers.items()
            if "rate" in each
        }
        change(path, device="NVIDIA T4", numbers=slow, stack={"driver nvidia": "570.1"})
    change(paths[11], lock="0" * 64)
    assert report(tmp_path).counts == {"keep": 12}


def test_what_changed_since_the_last_round_is_told(tmp_path: Path) -> None:
    write_fleet(tmp_path / "old", 12, NOW - 3 * DAY)
    write_fleet(tmp_path / "monday", 12, NOW - DAY / 2)
    paths = write_fleet(tmp_path / "tuesday", 12, NOW)
    for path in paths[:9]:
        change(path, stack={"driver nvidia": "590.12", "CUDA driver library": "590.12"})
    change(paths[11], verdict="remove", code="op-fails")
    busy = {"verdict": "none", "code": "busy", "stack": {}, "lock": None}
    paths[10].write_text(json.dumps(verdict("gpu00010", Random(1), NOW, **busy)))
    found = report(tmp_path)
    assert node(found, "gpu00000").changes == (
        "driver nvidia: 580.95.05 -> 590.12",
        "CUDA driver library: 580.95.05 -> 590.12",
    )
    assert node(found, "gpu00011").changes == ("keep -> remove op-fails",)
    assert node(found, "gpu00010").changes == ()
    assert (
        node(found, "gpu00010").driver == "nvidia 580.95.05"
    )  # of the last that told it
    told = {names: text for _, names, text in found.changed}
    assert "gpu00000 and 8 more" in told
    assert len(found.nodes) == 12


def test_a_verdict_of_the_future_is_stale_and_hides_no_other(tmp_path: Path) -> None:
    write_fleet(tmp_path / "now", 3, NOW)
    future = write_fleet(tmp_path / "future", 1, NOW + 400 * DAY)
    assert report(tmp_path).counts == {"keep": 3}
    (tmp_path / "now" / future[0].name).unlink()
    assert node(report(tmp_path), "gpu00000").state == "stale"


BAD_FILES = {
    "half.json": '{"schema": 1, "node": "n1", "targ',
    "empty.json": "",
    "later.json": json.dumps(verdict("n1", Random(1), NOW, schema=2)),
    "earlier.json": json.dumps({"node": "n1"}),
    "list.json": "[1, 2]",
    "deep.json": "[" * 100_000,
    "time.json": json.dumps(verdict("n1", Random(1), NOW, time="yesterday")),
    "binary.json": "\x00\x01\ufffd",
    "report.json": json.dumps({"schema": 1, "suite": "quick", "checks": []}),
}


def test_files_that_are_no_verdict_are_named_and_stop_nothing(tmp_path: Path) -> None:
    write_fleet(tmp_path, 5, NOW)
    for name, text in BAD_FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / ".n1.json.abcdefgh").write_text("{")  # being written
    (tmp_path / "latin.json").write_bytes(b'{"node": "\xff"}')
    found = report(tmp_path)
    assert found.counts == {"keep": 5}
    assert sorted(path for path, _ in found.files) == sorted(
        [*BAD_FILES, "folder.json", "latin.json"]
    )
    assert all(fault for _, fault in found.files)


def test_two_verdicts_of_one_node_and_moment_are_named(tmp_path: Path) -> None:
    paths = write_fleet(tmp_path, 5, NOW)
    (tmp_path / "copy.json").write_bytes(
        paths[0].read_bytes()
    )  # collected twice: the same
    assert report(tmp_path).files == []
    change(tmp_path / "copy.json", code="op-fails", verdict="remove")
    ((path, fault),) = report(tmp_path).files
    assert path == "gpu00000.cuda-linux.quick.json"
    assert "another verdict of gpu00000" in fault


def call(*words: object) -> int:
    return main(["fleet", "report", *map(str, words)])


def test_the_json_keeps_its_contract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_fleet(tmp_path, 3, NOW)
    assert call(tmp_path, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["verb"]) == (1, "fleet")
    assert sorted(document["result"]) == [
        "changed",
        "counts",
        "files",
        "lines",
        "nodes",
    ]
    assert sorted(document["result"]["nodes"][0]) == [
        "changes",
        "code",
        "deviations",
        "device",
        "driver",
        "lock",
        "node",
        "reason",
        "runtime",
        "state",
        "suite",
        "target",
        "time",
    ]


def test_the_table_is_a_line_per_row_and_the_page_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = write_fleet(tmp_path / "verdicts", 100, NOW)
    for number, path in enumerate(paths[:60]):
        change(
            path,
            verdict="remove",
            code=f"code-{chr(97 + number % 26)}{chr(97 + number // 26)}",
            reason=f"<script>alert({number})</script> " + "a long symptom " * 12,
        )
    hosts, page = tmp_path / "hosts.txt", tmp_path / "page.html"
    hosts.write_text(
        "# all\ngpu00001\ngpu00100  # new\n\n", "utf-16"
    )  # as PowerShell writes it
    assert call(tmp_path / "verdicts", "--hosts", hosts, "--html", page) == 1
    lines = capsys.readouterr().out.splitlines()
    assert (
        len(lines) == 1 + 40 + 1 + 1
    )  # the head, the rows, what is left out, the counts
    assert sum("a long symptom a long symptom" in line for line in lines) == 40
    assert "60 remove, 1 silent, 40 keep" in lines
    assert [line for line in lines if line.startswith("! 22 more lines")]
    text = page.read_text(encoding="utf-8")
    assert "<script>" not in text
    assert all(path.name.partition(".")[0] in text for path in paths)


def test_bad_input_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path / "absent") == 2
    assert call(tmp_path, "--hosts", tmp_path / "absent.txt") == 2
    assert "absent.txt" in capsys.readouterr().err
    (tmp_path / "hosts.bin").write_bytes(b"\xff\xfe0")
    assert call(tmp_path, "--hosts", tmp_path / "hosts.bin") == 2
    assert call(tmp_path) == 0  # an empty folder, and nobody expected


def test_the_work_grows_with_the_fleet_and_no_faster(tmp_path: Path) -> None:
    write_fleet(tmp_path / "some", 50, NOW)
    write_fleet(tmp_path / "more", 500, NOW)
    few = count_calls(lambda: report(tmp_path / "some"))
    assert count_calls(lambda: report(tmp_path / "more")) < 11 * few
