"""The worked example of the documents, on the application's real requirements and the real index."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from provision.lockfile.pip import read_lock
from tests.projects.record import PROJECTS, open_project
from tests.test_commands import ROOT, Block, blocks, shown

PAGE = "docs/how-to/comfyui.md"
# The part of torch's version that tells its build, by the row of the page.
BUILDS = {"cpu-linux": "+cpu", "cuda-linux": "", "arc-windows": "+xpu"}
COMPANIONS = ("torchvision", "torchaudio")


def typed_blocks() -> list[Block]:
    """Return the blocks that need no build; tests/test_commands.py runs the others in miniature."""
    building = re.compile(r"^provision (build|add|run) ", re.MULTILINE)
    return [block for block in shown(PAGE) if not building.search(block.text)]


def type_block(block: Block, root: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.prefix, 'bin')}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", block.text],
        cwd=root,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.network
@pytest.mark.slow
def test_the_example_locks_real_requirements_for_three_accelerators(
    tmp_path: Path,
) -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert PROJECTS["comfyui"]["commit"] in text
    root = open_project("comfyui", tmp_path)
    lines = (root / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert f"requires {len(lines)} packages" in text
    for block in typed_blocks():
        done = type_block(block, root)
        stale = "--check" in block.text
        assert done.returncode == stale, f"{block.text}{done.stdout}{done.stderr}"
        if stale:
            assert "requirements.txt" in done.stdout
    for block in blocks(PAGE):
        if block.kind == "toml":  # as init wrote it, but for its comments
            name, _, rest = block.text.removeprefix("# ").partition("\n")
            assert rest in (root / name).read_text(encoding="utf-8")
    for target, build in BUILDS.items():
        assert f"| `{target}` |" in text
        versions = read_lock(root / "lockfiles" / target).versions
        assert {Requirement(line).name.lower() for line in lines} <= versions.keys()
        assert re.fullmatch(rf"[\d.]+{re.escape(build)}", versions["torch"])
        assert all(versions[name] for name in COMPANIONS)
    assert (root / "pylock.cpu.toml").is_file()
