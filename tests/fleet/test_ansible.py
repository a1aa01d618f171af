"""The collection on real hosts: provisioned once, proven in each round, changed in waves."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.commands.detect.conftest import write
from tests.fleet.fleets import NEW_DRIVER
from tests.fleet.machines import CLONE
from tests.recipes import yaml_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fleet.fleets import Fleet, Played

pytestmark = pytest.mark.fleet
HOSTS = ("good", "driver", "second", "late", "broken")
# A driver that some cards do not bear.
CHANGE = """
- name: Install the driver
  ansible.builtin.copy:
    dest: /.singularity.d/libs/libze_intel_gpu.so.1.6.{build}
    content: ""
    mode: "0644"
- name: Show what it does to some cards
  ansible.builtin.file:
    path: "{{{{ bad_card }}}}/sick"
    state: touch
    mode: "0644"
  when: bad_card is defined
"""


def test_the_inventory_of_the_page_gives_each_host_its_target(
    tools: Path, tmp_path: Path
) -> None:
    text, _ = yaml_blocks("docs/how-to/fleet.md")
    write(tmp_path / "hosts.yml", text)
    argv = [tools / "ansible-inventory", "-i", tmp_path / "hosts.yml", "--list"]
    hosts = json.loads(subprocess.check_output(argv))["_meta"]["hostvars"]
    assert len(hosts) == 130
    chosen = [
        hosts["node128"]["provision_target"],
        *hosts["ws2"]["provision_candidates"],
    ]
    assert hosts["ws1"]["provision_target"] == "auto"
    assert [
        name for name in chosen if not (CLONE / f"envs/{name}.toml").is_file()
    ] == []


@pytest.mark.case
def test_every_host_that_answers_gets_its_target_and_a_verdict(
    fleet: Fleet, first: Played
) -> None:
    found = fleet.verdicts()
    assert {name: (v["target"], v["verdict"]) for name, v in found.items()} == {
        "good": ("poolxpu", "keep"),
        "driver": ("poolxpu", "keep"),
        "second": ("poolxpu", "keep"),
        "late": ("poolxpu", "keep"),
        "broken": ("poolcpu", "keep"),
    }, first.document["stats"]
    assert (found["good"]["devices"], found["good"]["stack"]["compute-runtime"]) == (
        2,
        "25.18.33578",
    )
    assert found["driver"]["stack"]["compute-runtime"] == "25.13.33276"


def test_a_dead_host_is_a_finding_and_stops_no_other(
    fleet: Fleet, first: Played
) -> None:
    assert first.code != 0
    assert first.unfit() == "dead"
    report = next((fleet.lab.folder / "reports").iterdir()) / "report.html"
    assert "silent" in report.read_text(encoding="utf-8")


def test_a_second_round_builds_only_what_drifted_and_finds_what_broke(
    fleet: Fleet, first: Played
) -> None:
    broken, second = fleet.lab.hosts["broken"], fleet.lab.hosts["second"]
    (site,) = (broken.root / "opt/provision/toolkit/.envs/poolcpu").glob(
        "current/lib/*/site-packages"
    )
    (site / "broken.py").touch()
    (second.card(1) / "sick").touch()
    again = fleet.play("site", fleet_patience=3)
    (second.card(1) / "sick").unlink()
    assert not (site / "broken.py").exists()
    assert {name: again.stats(name)["changed"] for name in HOSTS} == {
        "good": 0,
        "driver": 0,
        "second": 0,
        "late": 0,
        "broken": 1,
    }
    assert again.unfit() == "dead, second"
    found = fleet.verdicts()
    assert {n: (v["verdict"], v["code"]) for n, v in found.items()} == {
        "good": ("keep", ""),
        "driver": ("keep", ""),
        "late": ("keep", ""),
        "broken": ("keep", ""),
        "second": ("remove", "wrong-numbers"),
    }, again.failed()
    assert [each["check"] for each in found["second"]["failed"]] == ["device.matmul@1"]


def test_check_mode_says_what_would_change_and_changes_nothing(
    fleet: Fleet, first: Played
) -> None:
    late = fleet.lab.hosts["late"]
    wheels = late.root / "opt/provision/artifacts"
    shutil.move(wheels, late.root / "opt/moved")
    late.run("rm", "-r", "/opt/provision/toolkit/.envs/poolxpu")
    private = fleet.lab.folder / "runner"
    write(private / "env/cmdline", "--check --limit localhost,good,late")
    write(
        private / "inventory/hosts.json",
        (fleet.lab.folder / "inventory.json").read_text(),
    )
    # As AWX does it: ansible-runner runs the playbook, and its events are read.
    fleet.ansible(
        "ansible-runner",
        "run",
        private,
        "--playbook",
        "provision.fleet.site",
        "--ident",
        "one",
        check=False,
    )
    events = [
        json.loads(p.read_text())
        for p in (private / "artifacts/one/job_events").glob("*.json")
    ]
    (stats,) = (e["event_data"] for e in events if e["event"] == "playbook_on_stats")
    assert (stats["changed"].get("good", 0), stats["changed"]["late"]) == (0, 2)
    assert not wheels.exists()
    shutil.move(late.root / "opt/moved", wheels)
    assert fleet.play("site", "late").stats("late")["changed"] == 1  # the build


def test_a_wave_stops_where_a_new_driver_breaks_too_many(
    fleet: Fleet, first: Played
) -> None:
    write(fleet.lab.folder / "change.yml", CHANGE.format(build=NEW_DRIVER))
    hosts = fleet.lab.hosts
    for name in ("driver", "second"):
        card = hosts[name].card(1)
        path = fleet.lab.folder / f"host_vars/{name}.json"
        write(path, json.dumps({"bad_card": f"/{card.relative_to(hosts[name].root)}"}))
    change = str(fleet.lab.folder / "change.yml")
    played = fleet.play(
        "rollout",
        fleet="arc",
        rollout_waves=[1],
        rollout_stop_at=2,
        rollout_change=change,
    )
    for name in ("driver", "second"):
        (hosts[name].card(1) / "sick").unlink()
    assert played.unfit() == "driver, second"
    found = fleet.verdicts()
    assert {name: v["verdict"] for name, v in found.items()} == {
        "good": "keep",
        "driver": "remove",
        "second": "remove",
    }
    assert found["good"]["stack"]["compute-runtime"] == "25.22.33944"
    libraries = hosts["late"].root / ".singularity.d/libs"
    assert not (libraries / f"libze_intel_gpu.so.1.6.{NEW_DRIVER}").exists()


def test_the_collection_passes_the_strictest_profile_of_ansible_lint(
    fleet: Fleet, tools: Path, tmp_path: Path
) -> None:
    place = tmp_path / "ansible_collections/provision/fleet"
    shutil.copytree(CLONE / "fleet/ansible", place)
    environ = fleet.environ | {
        **dict.fromkeys(
            ("ANSIBLE_HOME", "HOME", "ANSIBLE_COLLECTIONS_PATH"), str(tmp_path)
        ),
        "ANSIBLE_CONFIG": "",
        "NO_COLOR": "1",
    }
    argv = [
        tools / "ansible-lint",
        "--offline",
        "--format",
        "pep8",
        "--profile",
        "production",
    ]
    done = subprocess.run(
        argv, cwd=place, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
