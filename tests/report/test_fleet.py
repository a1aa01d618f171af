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
from tests.calls import count_calls
from tests.report.fleets import change, verdict, write_fleet

ROLE = Path(__file__).parents[2] / "fleet" / "ansible" / "roles" / "smoke"
NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)


def report(folder: Path, *hosts: str) -> Fleet:
    return report_fleet(folder, hosts, NOW - DAY)


def node(fleet: Fleet, name: str) -> Node:
    (found,) = (node for node in fleet.nodes if node.node == name)
    return found


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
    change(paths[6], verdict="none", code="busy", reason="used by python (9)")
    change(paths[7], time=shown(NOW - 3 * DAY))
    change(paths[8], stack={"driver nvidia": "575.57.08"})
    fleet = report(tmp_path, "gpu00001", "gpu99999")
    assert [state for state, *_ in fleet.lines] == list(fleet.counts)
    assert fleet.lines[0][1] == "gpu00000 and 4 more"
    assert fleet.counts == {
        "remove": 5,
        "silent": 1,
        "stale": 1,
        "deviates": 1,
        "none": 1,
        "keep": 22,
    }
    assert node(fleet, "gpu99999").state == "silent"
    driver = "driver nvidia 575.57.08, 580.95.05 on 27 of 28"
    assert node(fleet, "gpu00008").deviations == (driver,)
    assert node(fleet, "gpu00008").driver == "nvidia 575.57.08"
    assert fleet.bad


def test_half_a_fleet_on_a_new_driver_deviates_from_nobody(tmp_path: Path) -> None:
    for path in write_fleet(tmp_path, 20, NOW)[::2]:
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
    numbers: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["numbers"]
    return numbers


def test_a_number_that_is_worse_than_the_group_s_is_named(tmp_path: Path) -> None:
    paths = write_fleet(tmp_path, 40, NOW)
    good = numbers_of(paths[5])
    for check, name, value, beginning in (
        ("operators.check3", "rate", 600.0, "600 images/s, "),
        ("operators.check3", "float16", 2e-3, "0.002, "),
        ("device.ready", "count", 7.0, "7 count, 8 "),
        ("device.ready", "memory", 39.5, "39.5 GiB, 79.1 "),
    ):
        worse = copy.deepcopy(good)
        worse[check][name]["value"] = value
        change(paths[5], numbers=worse)
        fleet = report(tmp_path)
        assert fleet.counts == {"deviates": 1, "keep": 39}
        (text,) = node(fleet, "gpu00005").deviations
        assert text.startswith(f"{check}: {name} {beginning}")
        assert text.endswith(" is usual in its group")


def test_a_node_that_measured_more_than_the_others_is_compared_where_they_did(
    tmp_path: Path,
) -> None:
    paths = write_fleet(tmp_path, 9, NOW)
    numbers = numbers_of(paths[3])
    own = {"once": {"rate": {"value": 1.0, "unit": "images/s"}}}
    rate = {"value": 600.0, "unit": "images/s"}
    numbers["operators.check3"]["rate"] = rate
    change(paths[3], numbers=own | numbers)
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
    assert report(tmp_path).counts == {"keep": 12}


def test_the_newest_verdict_counts(tmp_path: Path) -> None:
    write_fleet(tmp_path / "tuesday", 3, NOW)
    for folder, earlier in (("monday", NOW - DAY / 2), ("old", NOW - DAY)):
        paths = write_fleet(tmp_path / folder, 3, earlier)
        change(paths[0], verdict="remove", code="op-fails")
    assert report(tmp_path).counts == {"keep": 3}


def test_a_verdict_of_the_future_is_stale_and_hides_no_other(tmp_path: Path) -> None:
    write_fleet(tmp_path / "now", 3, NOW)
    future = write_fleet(tmp_path / "future", 1, NOW + 400 * DAY)
    assert report(tmp_path).counts == {"keep": 3}
    (tmp_path / "now" / future[0].name).unlink()
    assert node(report(tmp_path), "gpu00000").state == "stale"


def test_no_verdict_for_longer_than_the_oldest_that_counts_is_stale(
    tmp_path: Path,
) -> None:
    recent, long_ago, _ = write_fleet(tmp_path, 3, NOW)
    for path, days in ((recent, 0.1), (long_ago, 3)):
        since = shown(NOW - days * DAY)
        change(path, verdict="none", code="time-limit", since=since)
    fleet = report(tmp_path)
    assert fleet.counts == {"none": 1, "stale": 1, "keep": 1}
    assert fleet.bad
    assert f"no verdict since {NOW - 3 * DAY:%Y-%m-%d}" in node(fleet, "gpu00001").what


BAD_FILES = {
    "half.json": '{"schema": 1, "node": "n1", "targ',
    "empty.json": "",
    "later.json": json.dumps(verdict("n1", Random(1), NOW, schema=3)),
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
    bad = [*BAD_FILES, "folder.json", "latin.json"]
    assert sorted(unreadable(found)) == sorted(bad)
    assert all(fault for _, fault in found.files)


def test_two_verdicts_of_one_node_and_moment_are_named(tmp_path: Path) -> None:
    paths = write_fleet(tmp_path, 5, NOW)
    second = tmp_path / "again" / paths[0].name
    second.parent.mkdir()
    shutil.copy(paths[0], second)  # collected twice: the same
    assert report(tmp_path).files == []
    change(second, code="op-fails", verdict="remove")
    ((path, fault),) = report(tmp_path).files
    assert path == "gpu00000.cuda-linux.quick.json"
    assert "another verdict of gpu00000" in fault


HOSTILE: dict[str, dict[str, Any]] = {
    "before year 1 in UTC": {"time": "0001-01-01T00:00:00+23:59"},
    "after year 9999 in UTC": {"time": "9999-12-31T23:59:59-23:59"},
    "a time of two lines": {"time": "2026-01-01\n00:00:00Z"},
    "a name of two lines": {"node": "gpu00004\nkeep  gpu00005"},
    "a name with a path": {"node": "../gpu00003"},
    "more layers than a host has": {"stack": {f"l{n}": "1" for n in range(9999)}},
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
    (tmp_path / "gpu00000").mkdir()
    change(bad, verdict="remove", code="op-fails")
    good.rename(tmp_path / "gpu00000" / good.name)
    forged = shutil.copy(bad, tmp_path / "gpu00000" / name)
    change(forged, verdict="keep", code="", time=shown(NOW + DAY / 1000))
    found = report(tmp_path, "gpu00000", "gpu00001")
    assert node(found, "gpu00001").state == "remove"
    assert unreadable(found) == [f"gpu00000/{name}"]


def test_attack_a_node_does_not_hide_its_removal(tmp_path: Path) -> None:
    """By a second verdict of the same moment, or by a later one that learnt nothing."""
    (path,) = write_fleet(tmp_path / "b", 1, NOW)
    change(path, verdict="remove", code="op-fails")
    same_moment = {"time": f"{NOW:%Y-%m-%dT%H:%M:%S+00:00}"}
    learnt_nothing = {"time": shown(NOW + DAY / 1000), "verdict": "none"}
    for folder, parts in (
        ("a", same_moment),
        ("c", same_moment),
        ("d", learnt_nothing),
    ):
        (other,) = write_fleet(tmp_path / folder, 1, NOW)
        change(other, **parts)
        assert report(tmp_path).counts == {"remove": 1}, folder
        other.unlink()


def test_attack_a_folder_of_damaged_verdicts_is_not_good(tmp_path: Path) -> None:
    for path in write_fleet(tmp_path, 3, NOW):
        path.write_bytes(path.read_bytes()[:100])
    assert call(tmp_path) == 1


def rsync_options() -> list[str]:
    """Return the options that the collection gives rsync."""
    tasks = yaml.safe_load((ROLE / "tasks" / "fetch_linux.yml").read_text())
    options = tasks[0]["ansible.posix.synchronize"]
    words = []
    if options.get("archive", True):
        words.append("--archive")
    for name in ("recursive", "links"):
        if options.get(name):
            words.append(f"--{name}")
    names = {"inventory_hostname": "n1", "smoke_target": "t", "smoke_suite": "quick"}
    for option in options["rsync_opts"]:
        words.append(re.sub(r"{{ (\w+) }}", lambda found: names[found[1]], option))
    return words


@pytest.mark.machine
def test_attack_the_collection_fetches_no_link(tmp_path: Path) -> None:
    host, controller = tmp_path / "host", tmp_path / "controller"
    host.mkdir()
    controller.mkdir()
    argv = ["rsync", *rsync_options(), f"{host}/", f"{controller}/"]
    (tmp_path / "key.pem").write_text("SECRET")
    own = host / "n1.t.quick.json"
    own.symlink_to(tmp_path / "key.pem")
    subprocess.run(argv, check=True, capture_output=True)
    assert list(controller.iterdir()) == []
    own.unlink()
    own.write_text("{}")
    (host / "n2.t.quick.json").write_text("{}")
    subprocess.run(argv, check=True, capture_output=True)
    assert [path.name for path in controller.iterdir()] == [own.name]


def test_attack_a_link_is_not_followed_and_no_content_is_quoted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, secret = tmp_path / "verdicts", tmp_path / "key.pem"
    write_fleet(folder, 3, NOW)
    secret.write_text("-----BEGIN PRIVATE KEY-----\nSECRET\n")
    (folder / "text.json").write_text('"SECRET"')
    (folder / "fields.json").write_text('{"time": "SECRET", "SECRET": 1}')
    (folder / "word.json").write_text("SECRET")
    (folder / "half.json").write_text("{SECRET")
    (folder / "link.json").symlink_to(secret)
    whole = write_fleet(tmp_path / "elsewhere", 9, NOW)[8]
    (folder / whole.name).symlink_to(whole)
    (folder / "linked").symlink_to(whole.parent, target_is_directory=True)
    os.mkfifo(folder / "pipe.json")
    for words in ((folder,), (folder, "--json")):
        assert call(*words) == 1
        captured = capsys.readouterr()
        text = captured.out + captured.err
        assert "SECRET" not in text
        assert "link.json" in text
    assert report(folder).counts == {"keep": 3}


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
    paths = write_fleet(tmp_path / "verdicts", 100, NOW)
    codes = itertools.product(string.ascii_lowercase, repeat=2)
    for path, letters in zip(paths[:60], codes, strict=False):
        code = "code-" + "".join(letters)
        reason = "<script>alert(1)</script> " + "a long symptom " * 12
        change(path, verdict="remove", code=code, reason=reason)
    hosts, page = tmp_path / "hosts.txt", tmp_path / "page.html"
    # As PowerShell writes it.
    hosts.write_text("# all\ngpu00001\ngpu00100  # new\n\n", "utf-16")
    assert call(tmp_path / "verdicts", "--hosts", hosts, "--html", page) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("state")
    for row in lines[1:41]:
        assert "a long symptom a long symptom" in row
    assert lines[41:] == [
        "! 22 more lines: --json and --html have all",
        "60 remove, 1 silent, 40 keep",
    ]
    text = page.read_text(encoding="utf-8")
    assert "<script>" not in text
    for number in range(100):
        assert f"gpu{number:05}" in text


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
    write_fleet(tmp_path / "some", 20, NOW)
    write_fleet(tmp_path / "more", 200, NOW)
    few = count_calls(lambda: report(tmp_path / "some"))
    assert count_calls(lambda: report(tmp_path / "more")) < 11 * few
