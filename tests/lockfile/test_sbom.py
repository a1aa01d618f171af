"""The list of what is in a target: complete, true to the lock, the same bytes each time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from provision.lockfile.pip import Lock, read_lock
from provision.lockfile.sbom import sbom
from provision.spec.reader import load_target
from tests.checkout import LOCKABLE, PROJECT

if TYPE_CHECKING:
    from provision.spec.model import Target


def read(name: str) -> tuple[Target, Lock]:
    return load_target(PROJECT.specs, name), read_lock(PROJECT.lock(name))


# Of each platform, two without a conda layer and two with one.
OF_EACH_KIND = ("cpu-linux", "arc-windows", "mps-macos", "max-linux")
OTHERS = [name for name in LOCKABLE if name not in OF_EACH_KIND]


@pytest.mark.parametrize(
    "name",
    [
        *OF_EACH_KIND,
        *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS),
    ],
)
def test_it_names_every_file_of_the_lock_and_nothing_else(name: str) -> None:
    target, lock = read(name)
    document = json.loads(sbom(target, lock))
    hashes = {part["hashes"][0]["content"] for part in document["components"]}
    assert {artifact.sha256 for artifact in lock.artifacts} <= hashes
    assert len(hashes) == len(lock.artifacts) + (lock.conda or "").count("\n- name:")
    assert document["metadata"]["component"]["properties"][0]["value"] == lock.digest


@pytest.mark.parametrize("name", ["cpu-linux", "max-linux"])
def test_it_is_what_the_standard_s_schema_allows(name: str) -> None:
    assert (
        JsonStrictValidator(SchemaVersion.V1_6).validate_str(sbom(*read(name))) is None
    )


def test_the_same_lock_gives_the_same_bytes_and_another_lock_another_number() -> None:
    target, lock = read("cpu-linux")
    assert sbom(target, lock) == sbom(target, lock)
    other = Lock(lock.folder, lock.header, lock.artifacts[1:], lock.conda)
    numbers = {json.loads(sbom(target, each))["serialNumber"] for each in (lock, other)}
    assert len(numbers) == 2
