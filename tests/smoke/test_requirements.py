"""Every package that a spec names is imported, by itself, and a failure has its cause."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from provision.commands.suite import with_causes
from provision.core.process import clean_environment, run
from tests.smoke.conftest import SUITE, linked_environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.machine
# What the real ones raise: torchvision of the default index beside torch+cpu (pytorch/vision#8907),
# and pytorch_lightning beside a setuptools without pkg_resources.
VISION = "raise RuntimeError('operator torchvision::nms does not exist')\n"
LIGHTNING = "import no_pkg_resources\n"


@pytest.fixture(scope="module")
def site(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site-packages of a real environment with three packages more."""
    made = linked_environment(python, tmp_path_factory.mktemp("named") / "env")
    (found,) = made.parent.parent.glob("lib/python3.*/site-packages")
    install(
        found,
        "torchvision",
        {"torchvision/__init__.py": VISION, "tests/__init__.py": VISION},
    )
    install(found, "pytorch-lightning", {"pytorch_lightning/__init__.py": LIGHTNING})
    install(found, "only-data", {"../../../share/only-data.txt": "data"})
    return found


def install(site: Path, name: str, files: dict[str, str]) -> None:
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    )
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in files))
    for path, text in files.items():
        (site / path).parent.mkdir(exist_ok=True)
        (site / path).write_text(text)


def test_all_that_cannot_be_imported_is_named_with_its_cause(
    site: Path, sound: Path, tmp_path: Path
) -> None:
    names = ["torch", "torchvision", "numpy", "only-data", "pytorch-lightning"]
    data = json.loads(sound.read_text(encoding="utf-8"))
    expect, report = tmp_path / "expect.json", tmp_path / "report.json"
    expect.write_text(json.dumps(data | {"requirements": names}), encoding="utf-8")
    python = site.parents[2] / "bin" / "python"
    words = [python, "-I", SUITE, expect, report, "--only", "identity.requirements"]
    done = run(words, env=clean_environment(), timeout=400)
    assert done.returncode == 1
    *_, check = with_causes(json.loads(report.read_text(encoding="utf-8"))["checks"])
    finding = check["finding"]
    assert finding["code"] == "torch-companion-mismatch"
    assert "torchvision can't be imported" in finding["symptom"]
    others = [line for line in finding["evidence"] if "pytorch-lightning: " in line]
    assert "no_pkg_resources" in others[0]
    # What has no module is named, and no failure.
    assert check["numbers"]["only-data has no module"]["value"] == 0
    assert check["numbers"]["imported"]["value"] == 4
