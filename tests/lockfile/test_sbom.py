"""The list of what is in a target: complete, true to the lock, the same bytes each time."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from provision.lockfile.pip import Lock, read_lock
from provision.lockfile.sbom import sbom
from provision.spec.reader import load_target

if TYPE_CHECKING:
    from provision.spec.model import Target

ROOT = Path(__file__).parents[2]
TARGETS = [path.stem for path in sorted((ROOT / "envs").glob("*.toml"))]


def read(name: str) -> tuple[Target, Lock]:
    return load_target(ROOT / "envs", name), read_lock(ROOT / "lockfiles" / name)


def listed(name: str) -> dict[str, Any]:
    return dict(json.loads(sbom(*read(name))))


@pytest.mark.parametrize("name", TARGETS)
def test_it_names_every_file_of_the_lock_and_nothing_else(name: str) -> None:
    _, lock = read(name)
    document = listed(name)
    hashes = {part["hashes"][0]["content"] for part in document["components"]}
    assert {artifact.sha256 for artifact in lock.artifacts} <= hashes
    assert len(hashes) == len(lock.artifacts) + (lock.conda or "").count("\n- name:")
    assert document["metadata"]["component"]["properties"][0]["value"] == lock.digest


@pytest.mark.parametrize("name", ["cpu-linux", "max-linux"])
def test_it_is_what_the_standard_s_schema_allows(name: str) -> None:
    assert (
        JsonStrictValidator(SchemaVersion.V1_6).validate_str(sbom(*read(name))) is None
    )


def test_a_wheel_is_named_by_its_address_hash_and_index() -> None:
    (torch,) = [
        part for part in listed("cpu-linux")["components"] if part["name"] == "torch"
    ]
    (artifact,) = [a for a in read("cpu-linux")[1].artifacts if a.name == "torch"]
    assert torch["purl"].startswith(
        "pkg:pypi/torch@2.13.0%2Bcpu?file_name=torch-2.13.0"
    )
    assert torch["hashes"] == [{"alg": "SHA-256", "content": artifact.sha256}]
    assert torch["properties"] == [{"name": "provision:index", "value": "pytorch-cpu"}]


def test_a_conda_package_is_named_by_build_channel_and_platform() -> None:
    parts = listed("max-linux")["components"]
    (python,) = [part for part in parts if part["purl"].startswith("pkg:conda/python@")]
    assert "channel=conda-forge" in python["purl"]
    assert "subdir=linux-64" in python["purl"]
    assert "type=conda" in python["purl"]
    assert "build=" in python["purl"]


def test_it_shows_what_requires_what() -> None:
    document = listed("cpu-linux")
    asks = {
        entry["ref"]: entry.get("dependsOn", []) for entry in document["dependencies"]
    }
    assert "torch" in asks["cpu-linux"]
    assert {"sympy", "jinja2", "networkx"} <= set(asks["torch"])


def test_the_same_lock_gives_the_same_bytes_and_another_lock_another_number() -> None:
    target, lock = read("cpu-linux")
    assert sbom(target, lock) == sbom(target, lock)
    other = Lock(lock.folder, lock.header, lock.artifacts[1:], lock.conda)
    numbers = {json.loads(sbom(target, each))["serialNumber"] for each in (lock, other)}
    assert len(numbers) == 2


def test_its_time_is_the_cut_off() -> None:
    moment = dt.datetime.fromisoformat(listed("cpu-linux")["metadata"]["timestamp"])
    assert moment == dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
