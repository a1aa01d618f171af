"""What is said where uv cannot make an environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.core.errors import ToolError
from provision.core.process import Completed
from provision.installer import uv


def test_a_python_that_is_nowhere_is_to_be_installed_and_no_mirror_of_packages_set(
    tmp_path: Path,
) -> None:
    said = "error: Request failed after 3 retries\n  Caused by: tcp connect error"

    def unreached(argv: list[str]) -> Completed:
        return Completed(tuple(argv), 2, "", said, 0.0)

    with pytest.raises(ToolError) as caught:
        uv.make_venv(tmp_path, "3.12", "mine", unreached)
    assert "install a Python 3.12 that is on PATH" in caught.value.remedy
    assert "mirror" not in caught.value.remedy
