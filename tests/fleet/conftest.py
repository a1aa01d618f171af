"""One fleet for all tests of this folder: its hosts are provisioned once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fleet.fleets import OLD_DRIVER, open_fleet
from tests.fleet.machines import CLONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fleet.fleets import Fleet, Played


@pytest.fixture(scope="session")
def tools() -> Path:
    """The programs of Ansible and of kubernetes-validate, which `nox -s fleet` installs."""
    folder = Path(os.environ.get("PROVISION_FLEET_TOOLS", CLONE / ".cache/fleet/bin"))
    if not (folder / "ansible-playbook").is_file():
        reason = "`nox -s fleet` installs Ansible"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return folder


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory, tools: Path) -> Iterator[Fleet]:
    """Six hosts on which nothing is provisioned; one has another driver, one is dead."""
    arc, plain = ("good", "driver", "second", "late"), ("broken", "dead")
    with open_fleet(tmp_path_factory.mktemp("fleet"), tools, arc, plain) as made:
        made.lab.hosts["driver"].drive(OLD_DRIVER)
        made.lab.hosts["dead"].stop()
        yield made


@pytest.fixture(scope="session")
def first(fleet: Fleet) -> Played:
    """The first round: `site` on all of them."""
    return fleet.play("site", fleet_patience=3)
