"""Installed distributions: each property reads only what it needs, and survives broken metadata."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from provision.environment.installed import (
    distributions_by_name,
    installed_distributions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METADATA = """Metadata-Version: 2.1
Name: Example_Pkg
Version: 1.0+cu128
License: first paragraph
        \n        second paragraph, after a line of blanks
Requires-Dist: numpy>=1.26
Requires-Dist: torch==2.9 ; extra == 'gpu'
Requires-Python: >=3.10

Requires-Dist: not-a-header
"""


def install(site: Path, name: str, **files: str) -> Path:
    folder = site / name
    folder.mkdir(parents=True)
    for file, text in files.items():
        (folder / file.replace("_json", ".json")).write_text(text)
    return folder


def opened(site: Path, names: list[str]) -> list[str]:
    """Return the names of the files below a folder that were opened, emptying the list."""
    found = [path.rpartition("/")[2] for path in names if path.startswith(str(site))]
    names.clear()
    return found


@pytest.fixture
def audit() -> Iterator[list[str]]:
    """Every file that is opened during a test; a hook cannot be removed, so it is switched off."""
    names: list[str] = []
    active = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if active and event == "open":
            names.append(str(arguments[0]))

    sys.addaudithook(hook)
    yield names
    active = False


def test_names_are_read_without_any_record(tmp_path: Path, audit: list[str]) -> None:
    record = (
        "example_pkg/__init__.py,,\nexample_pkg/_c.cpython-311-x86_64-linux-gnu.so,,\n"
    )
    install(
        tmp_path,
        "example_pkg-1.0.dist-info",
        METADATA=METADATA,
        RECORD=record,
        WHEEL="Tag: cp311-cp311-linux_x86_64\n",
        INSTALLER="uv\n",
        direct_url_json='{"url": "https://example.org/a.whl"}',
    )
    opened(tmp_path, audit)
    (dist,) = installed_distributions(tmp_path)
    assert (dist.name, dist.version, dist.local) == (
        "example-pkg",
        "1.0+cu128",
        "cu128",
    )
    assert opened(tmp_path, audit) == ["METADATA"]
    assert dist.requires == ("numpy>=1.26", "torch==2.9 ; extra == 'gpu'")
    assert dist.requires_python == ">=3.10"
    assert opened(tmp_path, audit) == ["METADATA"]
    assert dist.compiled_for == {"3.11"}
    assert len(dist.entries) == 2
    assert opened(tmp_path, audit) == ["RECORD"]
    assert (dist.tags, dist.origin) == (
        ("cp311-cp311-linux_x86_64",),
        "https://example.org/a.whl",
    )
    assert dist.installer == "uv"


@pytest.mark.parametrize(
    "garbage", [b"", b"\xff\xfe\0" * 99, b"\n\n\n", b"Name", b"x" * 200_000]
)
def test_garbage_has_no_name_and_does_not_raise(tmp_path: Path, garbage: bytes) -> None:
    folder = install(tmp_path, "a-1.dist-info")
    for name in ("METADATA", "RECORD", "WHEEL", "INSTALLER", "direct_url.json"):
        (folder / name).write_bytes(garbage)
    ((dist,),) = distributions_by_name([tmp_path]).values()
    assert (dist.name, dist.version, dist.requires, dist.tags, dist.origin) == (
        "a",
        "1",
        (),
        (),
        "",
    )
    assert dist.compiled_for == frozenset()
    assert dist.parsed is not None


def test_egg_info_of_debian_is_a_distribution(tmp_path: Path) -> None:
    fields = "Name: python-apt\nVersion: 2.7\nRequires-Python: >=3.9\nRequires-Dist: nothing\n"
    (tmp_path / "python_apt-2.7.egg-info").write_text(fields)
    install(tmp_path, "old-1.0.egg-info", **{"PKG-INFO": "Name: old\nVersion: 1.0\n"})
    install(tmp_path, "old", **{"_c.cpython-39-x86_64-linux-gnu.so": ""})
    found = distributions_by_name([tmp_path])
    (apt,), (old,) = found["python-apt"], found["old"]
    assert (apt.version, apt.requires_python, apt.requires) == ("2.7", ">=3.9", ())
    assert (apt.entries, old.version) == ([], "1.0")
    assert old.compiled_for == {"3.9"}
