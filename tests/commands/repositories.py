"""Repositories in miniature for the tests of ``init``, and what became of them."""

from __future__ import annotations

import textwrap
import tomllib
from typing import TYPE_CHECKING, Any

from provision.commands.init import Choice, Initialized, initialize
from provision.core.project import Project
from provision.spec.reader import load_target
from tests.lab import Silent

if TYPE_CHECKING:
    from pathlib import Path

    from provision.spec.model import Pip

TRAINER = """\
# what the trainer needs
--extra-index-url https://download.pytorch.org/whl/cu121
torch==2.8.0  # pinned
torchvision>=0.16
torchaudio
xformers==0.0.27 ; platform_system != "Windows"
transformers==5.1.0
accelerate
einops>=0.7 \\
    --hash=sha256:0000000000000000000000000000000000000000000000000000000000000000
-c limits.txt
-r more/extra.txt
nvidia-cublas-cu12==12.1.3.1
triton==3.1.0 ; sys_platform == "linux"
"""


def trainer(root: Path) -> Path:
    """Write the files of a trainer."""
    (root / "more").mkdir()
    (root / "requirements.txt").write_text(
        TRAINER, encoding="utf-16"
    )  # as PowerShell does
    (root / "limits.txt").write_text("torch<2.9\nnumpy<3\n", encoding="utf-8")
    (root / "more" / "extra.txt").write_text("\nsafetensors\ntqdm\n", encoding="utf-8")
    return root


def init(root: Path, *names: str, files: tuple[str, ...] = ()) -> Initialized:
    """Make a project of a folder."""
    choice = Choice(files=files)
    return initialize(Project(root), names or ("cpu-linux",), Silent(), choice)


def pip(root: Path, name: str = "cpu-linux") -> Pip:
    """Return what a target asks for, with what it inherits and refers to."""
    return load_target(root / "envs", name).pip


def said(root: Path, name: str) -> dict[str, Any]:
    """What a file of ``envs/`` says itself in ``[pip]``."""
    text = (root / "envs" / f"{name}.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text).get("pip", {})
    assert isinstance(document, dict)
    return document


def write(root: Path, name: str, text: str) -> None:
    """Write a file, with its folders."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
