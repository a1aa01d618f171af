"""The report of a fleet: who is bad, who differs, who is silent, and what it cannot read."""

from __future__ import annotations

import copy
import datetime as dt
import itertools
import json
import math
import os
import re
import shutil
import string
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from provision.cli.main import main
from provision.host.model import NOT_KNOWN
from provision.report.fleet import Fleet, Node, report_fleet
from provision.ui.html_report import render_fleet
from tests.calls import count_calls
from tests.report.fleets import change, verdict, write_fleet

ROLE = Path(__file__).parents[2] / "fleet" / "ansible" / "roles" / "smoke"
NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)


def report(folder: Path, *hosts: str) -> Fleet:
    return report_fleet(folder, hosts, NOW - DAY)


def node(fleet: Fleet, name: str) -> Node:
    nodes = {node.node: node for node in fleet.nodes}
    assert len(nodes) == len(fleet.nodes)
    return nodes[name]


def unreadable(fleet: Fleet) -> list[str]:
    return [path for path, _ in fleet.files]


def shown(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def test_a_good_fleet_is_one_line_and_nobody_deviates(tmp_path: Path) -> None:
    write_fleet(tmp_path, 200, NOW)
    fleet = report(tmp_path)
    assert fleet.counts == {"keep": 200}
    group = "cuda-linux quick, NVIDIA H100 80GB HBM3, nvidia 580.95.05, lock 79f30a88"
    assert fleet.lines == [("keep", "gpu00000 and 199 more", group)]
    assert not fleet.bad


def test_the_worst_come_first_and_alike_ones_share_a_line(tmp_path: Path) -> None:
    paths = write_fleet(tmp_path, 30, NOW)
    for number, path in enumerate(paths[:5]):
        fault = f"device.matmul: error 0x{number}"
        change(path, verdict="remove", code="op-fails", reason=fault)
    busy, old, other_driver = paths[6:9]
    change(busy, verdict="none", code="busy", reason="used by python (9)")
    change(old, time=shown(NOW - 3 * DAY))
    change(other_driver, stack={"driver nvidia": "575.57.08"})
    fleet = report(tmp_path, "gpu00001", "gpu99999")
    states = [state for state, _, _ in fleet.lines]
    assert states == list(fleet.counts)
    _, nodes, _ = fleet.lines[0]
    assert nodes == "gpu00000 and 4 more"
    assert fleet.counts == {
        "remove": 5,
        "silent": 1,
        "stale": 1,
        "deviates": 1,
        "none": 1,
        "keep": 22,
    }
    assert node(fleet, "gpu99999").state == "silent"
    deviating = node(fleet, "gpu00008")
    (deviation,) = deviating.deviations
    assert deviation == "driver nvidia 575.57.08, 580.95.05 on 27 of 28"
    assert deviating.driver == "nvidia 575.57.08"
    assert fleet.bad


def test_half_a_fleet_on_a_new_driver_deviates_from_nobody(tmp_path: Path) -> None:
    paths = write_fleet(tmp_path, 20, NOW)
    for path in paths[::2]:
        change(path, stack={"driver nvidia": "590.12"})
    fleet = report(tmp_path)
    assert fleet.counts == {"keep": 20}
    assert len(fleet.lines) == 2  # one of each driver


def test_a_version_that_is_hidden_deviates_from_nobody(tmp_path: Path) -> None:
    first, second, *_ = write_fleet(tmp_path, 20, NOW)
    change(first, stack={"CUDA driver library": NOT_KNOWN})
    change(second, stack={"CUDA driver library": ""})  # of an earlier version
    fleet = report(tmp_path)
    assert fleet.counts == {"keep": 20}
    runtimes = sorted(node.runtime for node in fleet.nodes)
    assert runtimes == ["", "", *["580.95.05"] * 18]


def numbers_of(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    text = path.read_text(encoding="utf-8")
    numbers: dict[str, Any] = json.loads(text)["numbers"]
    return numbers


def test_a_number_that_is_worse_than_the_group_s_is_named(tmp_path: Path) -> None:
    path = write_fleet(tmp_path, 40, NOW)[5]
    good = numbers_of(path)
    for check, name, value, beginning in (
        ("operators.check3", "rate", 600.0, "600 images/s, "),
        ("operators.check3", "float16", 2e-3, "0.002, "),
        ("device.ready", "count", 7.0, "7 count, 8 "),
        ("device.ready", "memory", 39.5, "39.5 GiB, 79.1 "),
    ):
        worse = copy.deepcopy(good)
        worse[check][name]["value"] = value
        change(path, numbers=worse)
        fleet = report(tmp_path)
        assert fleet.counts == {"deviates": 1, "keep": 39}
        (text,) = node(fleet, "gpu00005").deviations
        assert text.startswith(f"{check}: {name} {beginning}")
        assert text.endswith(" is usual in its group")


def test_a_node_that_measured_more_than_the_others_is_compared_where_they_did(
    tmp_path: Path,
) -> None:
    path = write_fleet(tmp_path, 9, NOW)[3]
    numbers = numbers_of(path)
    numbers["operators.check3"]["rate"] = {"value": 600.0, "unit": "images/s"}
    own = {"once": {"rate": {"value": 1.0, "unit": "images/s"}}}
    change(path, numbers=own | numbers)
    fleet = report(tmp_path)
    assert fleet.counts == {"deviates": 1, "keep": 8}
    (text,) = node(fleet, "gpu00003").deviations
    assert text.startswith("operators.check3: rate 600 images/s")


def test_nodes_of_another_card_or_lock_are_another_group(tmp_path: Path) -> None:
    paths = write_fleet(tmp_path, 12, NOW)
    for path in paths[:4]:
        slow = numbers_of(path)
        slow["operators.check3"]["rate"]["value"] = 90.0
        change(path, device="NVIDIA T4", numbers=slow, stack={"driver nvidia": "570.1"})
    change(paths[11], lock="0" * 64)
    fleet = report(tmp_path)
    assert fleet.counts == {"keep": 12}


def test_the_newest_verdict_counts(tmp_path: Path) -> None:
    write_fleet(tmp_path / "tuesday", 3, NOW)
    monday = write_fleet(tmp_path / "monday", 3, NOW - DAY / 2)
    old = write_fleet(tmp_path / "old", 3, NOW - DAY)
    for first, *_ in (monday, old):
        change(first, verdict="remove", code="op-fails")
    fleet = report(tmp_path)
    assert fleet.counts == {"keep": 3}


def test_a_node_of_two_targets_is_counted_once_as_the_worse_and_its_remedy_is_told(
    tmp_path: Path,
) -> None:
    write_fleet(tmp_path / "gate", 3, NOW)
    first, *_ = write_fleet(tmp_path / "verify", 3, NOW)
    other = first.with_name("gpu00000.cuda-linux.verify.json")
    first.rename(other)
    remedy = "build it again"
    change(other, suite="verify", verdict="remove", code="changed-file", remedy=remedy)
    fleet = report(tmp_path)
    assert fleet.counts == {"remove": 1, "keep": 2}
    removed, kept = fleet.lines
    assert removed[1] == "gpu00000"
    assert removed[2].endswith(remedy)
    assert kept[1] == "gpu00001 and 1 more"
    assert remedy in render_fleet(fleet)


def test_a_verdict_of_the_future_is_stale_and_hides_no_other(tmp_path: Path) -> None:
    write_fleet(tmp_path / "now", 3, NOW)
    (future,) = write_fleet(tmp_path / "future", 1, NOW + 400 * DAY)
    fleet = report(tmp_path)
    assert fleet.counts == {"keep": 3}
    of_now = tmp_path / "now" / future.name
    of_now.unlink()
    fleet = report(tmp_path)
    assert node(fleet, "gpu00000").state == "stale"


def test_no_verdict_for_longer_than_the_oldest_that_counts_is_stale(
    tmp_path: Path,
) -> None:
    recent, long_ago, _ = write_fleet(tmp_path, 3, NOW)
    hours_ago = shown(NOW - 0.1 * DAY)
    days_ago = shown(NOW - 3 * DAY)
    change(recent, verdict="none", code="time-limit", since=hours_ago)
    change(long_ago, verdict="none", code="time-limit", since=days_ago)
    fleet = report(tmp_path)
    assert fleet.counts == {"none": 1, "stale": 1, "keep": 1}
    assert fleet.bad
    stale = node(fleet, "gpu00001")
    day, _, _ = days_ago.partition("T")
    assert f"no verdict since {day}" in stale.what


LATER = verdict("n1", Random(1), NOW, schema=3)
NO_TIME = verdict("n1", Random(1), NOW, time="yesterday")
BAD_FILES = {
    "half.json": '{"schema": 1, "node": "n1", "targ',
    "empty.json": "",
    "later.json": json.dumps(LATER),
    "earlier.json": '{"node": "n1"}',
    "list.json": "[1, 2]",
    "deep.json": "[" * 100_000,
    "time.json": json.dumps(NO_TIME),
    "binary.json": "\x00\x01\ufffd",
    "report.json": '{"schema": 1, "suite": "quick", "checks": []}',
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
    bad = [*BAD_FILES, "folder.json", "latin.json"]
    assert sorted(unreadable(found)) == sorted(bad)
    for path, fault in found.files:
        assert fault, path


def test_two_verdicts_of_one_node_and_moment_are_named(tmp_path: Path) -> None:
    first, *_ = write_fleet(tmp_path, 5, NOW)
    second = tmp_path / "again" / first.name
    second.parent.mkdir()
    shutil.copy(first, second)  # collected twice: the same
    fleet = report(tmp_path)
    assert fleet.files == []
    change(second, code="op-fails", verdict="remove")
    fleet = report(tmp_path)
    ((path, fault),) = fleet.files
    assert path == "gpu00000.cuda-linux.quick.json"
    assert "another verdict of gpu00000" in fault


LAYERS = {f"l{number}": "1" for number in range(9999)}
HOSTILE: dict[str, dict[str, Any]] = {
    "before year 1 in UTC": {"time": "0001-01-01T00:00:00+23:59"},
    "after year 9999 in UTC": {"time": "9999-12-31T23:59:59-23:59"},
    "a time of two lines": {"time": "2026-01-01\n00:00:00Z"},
    "a name of two lines": {"node": "gpu00004\nkeep  gpu00005"},
    "a name with a path": {"node": "../gpu00003"},
    "more layers than a host has": {"stack": LAYERS},
}


@pytest.mark.parametrize("parts", HOSTILE.values(), ids=HOSTILE)
def test_attack_a_hostile_verdict_ends_the_report_of_no_other(
    tmp_path: Path, parts: dict[str, Any]
) -> None:
    hostile = write_fleet(tmp_path, 5, NOW)[4]
    change(hostile, **parts)
    found = report(tmp_path, "gpu00004")
    assert found.counts == {"silent": 1, "keep": 4}
    assert unreadable(found) == [hostile.name]


def test_attack_not_a_number_hides_no_deviation(tmp_path: Path) -> None:
    paths = write_fleet(tmp_path, 9, NOW)
    # At these places they are the median of what Python has sorted.
    for place, value in ((0, 600.0), (1, math.nan), (4, math.nan)):
        odd = numbers_of(paths[place])
        odd["operators.check3"]["rate"]["value"] = value
        change(paths[place], numbers=odd)
    found = report(tmp_path)
    assert found.counts == {"deviates": 1, "keep": 8}
    assert node(found, "gpu00000").state == "deviates"


def test_attack_a_line_end_in_a_device_forges_no_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in write_fleet(tmp_path, 2, NOW):
        change(path, device="H100\nkeep  gpu99999", code="x\nkeep  gpu99998")
    call(tmp_path)
    for line in capsys.readouterr().out.splitlines():
        assert not line.startswith("keep  gpu9999")


@pytest.mark.parametrize(
    "name", ["gpu00000.cuda-linux.full.json", "gpu00001.cuda-linux.quick.json"]
)
def test_attack_a_node_speaks_for_no_other(tmp_path: Path, name: str) -> None:
    """By the name of its file, and by the folder that --hosts knows."""
    good, bad = write_fleet(tmp_path / "gpu00001", 2, NOW)
    other = tmp_path / "gpu00000"
    other.mkdir()
    change(bad, verdict="remove", code="op-fails")
    good.rename(other / good.name)
    forged = shutil.copy(bad, other / name)
    later = shown(NOW + DAY / 1000)
    change(forged, verdict="keep", code="", time=later)
    found = report(tmp_path, "gpu00000", "gpu00001")
    assert node(found, "gpu00001").state == "remove"
    assert unreadable(found) == [f"gpu00000/{name}"]


def test_attack_a_node_does_not_hide_its_removal(tmp_path: Path) -> None:
    """By a second verdict of the same moment, or by a later one that learnt nothing."""
    (path,) = write_fleet(tmp_path / "b", 1, NOW)
    change(path, verdict="remove", code="op-fails")
    same_moment = {"time": f"{NOW:%Y-%m-%dT%H:%M:%S+00:00}"}
    later = shown(NOW + DAY / 1000)
    learnt_nothing = {"time": later, "verdict": "none"}
    folders = {"a": same_moment, "c": same_moment, "d": learnt_nothing}
    for folder, parts in folders.items():
        (other,) = write_fleet(tmp_path / folder, 1, NOW)
        change(other, **parts)
        fleet = report(tmp_path)
        assert fleet.counts == {"remove": 1}, folder
        other.unlink()


def test_attack_a_folder_of_damaged_verdicts_is_not_good(tmp_path: Path) -> None:
    for path in write_fleet(tmp_path, 3, NOW):
        content = path.read_bytes()
        path.write_bytes(content[:100])
    assert call(tmp_path) == 1


def rsync_options() -> list[str]:
    """Return the options that the collection gives rsync."""
    file = ROLE / "tasks" / "fetch_linux.yml"
    first, *_ = yaml.safe_load(file.read_text())
    options = first["ansible.posix.synchronize"]
    words = []
    if options.get("archive", True):
        words.append("--archive")
    for name in ("recursive", "links"):
        if options.get(name):
            words.append(f"--{name}")
    names = {"inventory_hostname": "n1", "smoke_target": "t", "smoke_suite": "quick"}

    def value(expression: re.Match[str]) -> str:
        return names[expression[1]]

    for option in options["rsync_opts"]:
        word = re.sub(r"{{ (\w+) }}", value, option)
        words.append(word)
    return words


@pytest.mark.machine
def test_attack_the_collection_fetches_no_link(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    controller = tmp_path / "controller"
    controller.mkdir()
    argv = ["rsync", *rsync_options(), f"{host}/", f"{controller}/"]
    secret = tmp_path / "key.pem"
    secret.write_text("SECRET")
    own = host / "n1.t.quick.json"
    own.symlink_to(secret)
    subprocess.run(argv, check=True, capture_output=True)
    assert list(controller.iterdir()) == []
    own.unlink()
    own.write_text("{}")
    of_another = host / "n2.t.quick.json"
    of_another.write_text("{}")
    subprocess.run(argv, check=True, capture_output=True)
    (fetched,) = controller.iterdir()
    assert fetched.name == own.name


def test_attack_a_link_is_not_followed_and_no_content_is_quoted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "verdicts"
    write_fleet(folder, 3, NOW)
    secret = tmp_path / "key.pem"
    secret.write_text("-----BEGIN PRIVATE KEY-----\nSECRET\n")
    texts = {
        "text.json": '"SECRET"',
        "fields.json": '{"time": "SECRET", "SECRET": 1}',
        "word.json": "SECRET",
        "half.json": "{SECRET",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "link.json").symlink_to(secret)
    whole = write_fleet(tmp_path / "elsewhere", 9, NOW)[8]
    (folder / whole.name).symlink_to(whole)
    (folder / "linked").symlink_to(whole.parent, target_is_directory=True)
    os.mkfifo(folder / "pipe.json")
    for words in ((folder,), (folder, "--json")):
        assert call(*words) == 1
        out, err = capsys.readouterr()
        told = out + err
        assert "SECRET" not in told
        assert "link.json" in told
    fleet = report(folder)
    assert fleet.counts == {"keep": 3}


def call(*words: object) -> int:
    return main(["fleet", "report", *map(str, words)])


def test_the_json_keeps_its_contract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_fleet(tmp_path, 3, NOW)
    assert call(tmp_path, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 2
    assert document["verb"] == "fleet"
    result = document["result"]
    assert list(result) == ["counts", "lines", "nodes", "files"]
    assert list(result["nodes"][0]) == [
        "node",
        "state",
        "target",
        "suite",
        "code",
        "reason",
        "remedy",
        "time",
        "device",
        "lock",
        "driver",
        "runtime",
        "deviations",
    ]


def test_the_table_is_a_line_per_row_and_the_page_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "verdicts"
    paths = write_fleet(folder, 100, NOW)
    codes = itertools.product(string.ascii_lowercase, repeat=2)
    reason = "<script>alert(1)</script> " + "a long symptom " * 12
    for path, letters in zip(paths[:60], codes, strict=False):
        code = "code-" + "".join(letters)
        change(path, verdict="remove", code=code, reason=reason)
    hosts = tmp_path / "hosts.txt"
    # As PowerShell writes it.
    hosts.write_text("# all\ngpu00001\ngpu00100  # new\n\n", "utf-16")
    page = tmp_path / "page.html"
    assert call(folder, "--hosts", hosts, "--html", page) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("state")
    for row in lines[1:41]:
        assert "a long symptom a long symptom" in row
    note, counts = lines[41:]
    assert note == "! 22 more lines: --json and --html have all"
    assert counts == "60 remove, 1 silent, 40 keep"
    text = page.read_text(encoding="utf-8")
    assert "<script>" not in text
    for number in range(100):
        assert f"gpu{number:05}" in text


def test_bad_input_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path / "absent") == 2
    absent = tmp_path / "absent.txt"
    assert call(tmp_path, "--hosts", absent) == 2
    assert "absent.txt" in capsys.readouterr().err
    binary = tmp_path / "hosts.bin"
    binary.write_bytes(b"\xff\xfe0")
    assert call(tmp_path, "--hosts", binary) == 2
    assert call(tmp_path) == 0  # an empty folder, and nobody expected


def test_the_work_grows_with_the_fleet_and_no_faster(tmp_path: Path) -> None:
    some = tmp_path / "some"
    more = tmp_path / "more"
    write_fleet(some, 20, NOW)
    write_fleet(more, 200, NOW)
    few = count_calls(lambda: report(some))
    many = count_calls(lambda: report(more))
    assert many < 11 * few
