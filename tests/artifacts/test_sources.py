"""Building from source: what went wrong is said of the package, or of the machine."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from provision.artifacts.sources import SourceBuilder
from provision.core.errors import ToolError
from provision.core.process import Completed
from provision.core.project import Project
from tests.lab import Silent

# The last lines of uv 0.13 where it gets no Python, and where a build fails.
NO_ROUTE = (
    "error: Failed to build `plain-1.0.tar.gz`\n  cause: Failed to download `https://github.com/"
    "astral-sh/python-build-standalone/releases/download/20261110/cpython-3.12.16.tar.gz`"
)
NO_DOWNLOADS = "error: No interpreter found for Python 3.12 in managed installations"
BROKEN = "error: Failed to inspect Python interpreter from first executable in the search path"
NO_COMPILER = "error: Failed to build `plain-1.0.tar.gz`\n  error: command 'gcc' failed"


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        (NO_ROUTE, "install Python 3.12"),
        (NO_DOWNLOADS, "install Python 3.12"),
        (BROKEN, "install Python 3.12"),
        (NO_COMPILER, "install the compiler"),
    ],
)
def test_a_build_without_a_python_is_told_to_get_one(
    tmp_path: Path, said: str, remedy: str
) -> None:
    (tmp_path / "plain-1.0.tar.gz").write_bytes(b"source")
    digest = hashlib.sha256(b"source").hexdigest()

    def run(argv: list[Any], **_: object) -> Completed:
        return Completed(tuple(map(str, argv)), 2, "", said, 0.1)

    builder = SourceBuilder(
        Project(tmp_path / "project"), "3.12", {}, (tmp_path,), run, Silent()
    )
    with pytest.raises(ToolError, match="could not build plain") as error:
        builder.wheel("plain", f"plain-1.0.tar.gz sha256:{digest}", ())
    assert error.value.remedy.startswith(remedy)
