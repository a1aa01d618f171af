"""The development container of docs/how-to/docker.md, started by the program of its format."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.core.process import run

if TYPE_CHECKING:
    from provision.core.process import Completed
    from provision.image.docker import BuiltImage
    from provision.image.request import ImageRequest

pytestmark = pytest.mark.docker

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "docker.md"
CLI = "@devcontainers/cli@0.89.0"


def test_an_editor_starts_the_environment_with_the_file_of_the_page(
    tiny: tuple[ImageRequest, BuiltImage], engine: str, tmp_path: Path
) -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## In an editor")[2]
    (block,) = re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    configuration = json.loads(block)
    assert configuration["image"] == "provision/cpu-linux"
    configuration["image"] = tiny[0].tag
    (tmp_path / ".devcontainer").mkdir()
    file = tmp_path / ".devcontainer" / "devcontainer.json"
    file.write_text(json.dumps(configuration), encoding="utf-8")
    folder = ("--workspace-folder", str(tmp_path), "--docker-path", engine)

    def devcontainer(*words: str) -> Completed:
        argv = ["npm", "exec", "--yes", "--package", CLI, "--", "devcontainer", *words]
        return run(argv, env=dict(os.environ))

    started = devcontainer("up", *folder)
    container = json.loads(started.require("it starts").stdout)["containerId"]
    try:
        code = "import alpha, sys; print(sys.prefix, sorted(alpha.x))"
        found = devcontainer("exec", *folder, "python", "-c", code)
        assert found.stdout == "/opt/env ['a', 'b']\n", found.stderr
    finally:
        run([engine, "rm", "--force", container])
