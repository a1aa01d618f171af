"""Pages of indexes, and the metadata of wheels."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from provision.catalog.simple_index import embedded_metadata
from provision.core.errors import ToolError

if TYPE_CHECKING:
    from pathlib import Path


def test_the_metadata_of_a_wheel_is_not_that_of_what_it_vendors(tmp_path: Path) -> None:
    """As setuptools has it: a bundle's wheels of it could not be a wheelhouse of bisect."""
    path = tmp_path / "a-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for folder, name in (("", "a"), ("a/_vendor/", "b")):
            text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
            archive.writestr(f"{folder}{name}-1.0.dist-info/METADATA", text)
    assert embedded_metadata(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("c-1.0.dist-info/METADATA", "Name: c\n")
    with pytest.raises(ToolError, match="is not a wheel"):
        embedded_metadata(path)
