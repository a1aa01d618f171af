"""One fleet for all tests of this folder: its hosts are provisioned once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fleet.fleets import open_fleet
from tests.fleet.machines import CLONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fleet.fleets import Fleet


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
    """Six hosts on which nothing is provisioned."""
    arc, plain = ("good", "driver", "second", "dead"), ("broken", "spare")
    with open_fleet(tmp_path_factory.mktemp("fleet"), tools, arc, plain) as made:
        yield made
