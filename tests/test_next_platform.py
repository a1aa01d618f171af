"""Another platform is one entry in one table: spec, lock, bundle and bill of materials."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.artifacts.tools import LOCKS
from provision.catalog.snapshot import Index, Wheel, render_snapshot
from provision.core import process
from provision.core.hashing import sha256_file
from provision.core.platforms import PLATFORMS
from provision.lockfile.pip import read_lock
from provision.resolver import local_index
from provision.resolver.uv import UvResolver
from provision.spec.reader import load_target
from tests.checkout import copy_files
from tests.small import CATALOG, TARGET, make_wheel

if TYPE_CHECKING:
    from tests.lab import Lab

# A platform that no target is for yet, and what its wheels are called.
NAME, TAG = "linux-riscv64", "manylinux_2_39_riscv64"
ENTRY = f"""
[platform.{NAME}]
words = "Linux on RISC-V"
system = "linux"
machine = "riscv64"
arch = "riscv64"
uv = "riscv64-unknown-linux"
tags = ["{TAG}"]
docker = "linux/riscv64"
"""
MAIN = """
import json, sys
from provision.cli.main import main
for line in json.loads(sys.argv[1]):
    if code := main(line.split()):
        sys.exit(code)
"""


@pytest.fixture
def toolkit(lab: Lab, tmp_path: Path) -> Path:
    """A copy of the toolkit with one entry more, which needs one tool of the lab's index."""
    root = tmp_path / "toolkit"
    copy_files(root, without=("tests/", "docs/", "envs/", "lockfiles/"))
    (root / "envs" / "catalog").mkdir(parents=True)
    with (root / "provision/core/platforms.toml").open("a", encoding="utf-8") as table:
        table.write(ENTRY)
    tool = make_wheel(lab.index.root / "default", "tool", "1.0", {"tool.py": ""})
    tool = tool.rename(tool.with_name(f"tool-1.0-py3-none-{TAG}.whl"))
    (root / "lockfiles" / "tools").mkdir(parents=True)
    for name in LOCKS:
        line = f"tool==1.0 --hash=sha256:{sha256_file(tool)}\n"
        (root / "lockfiles" / "tools" / name).write_text(line, encoding="utf-8")
    return root


def entry(wheel: Path, url: str, requires: tuple[str, ...]) -> Wheel:
    return Wheel(
        filename=wheel.name,
        url=f"{url}/vendor/{wheel.name}",
        sha256=sha256_file(wheel),
        size=wheel.stat().st_size,
        requires_dist=requires,
    )


def call(lab: Lab, toolkit: Path, *lines: str) -> str:
    """Run verbs of a copy of the toolkit, and return what they print."""
    # The lab's index is the only one, as of a machine behind a mirror.
    env = os.environ | {
        "PYTHONPATH": str(toolkit),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": f"{lab.index.url}/default/",
    }
    done = subprocess.run(
        [sys.executable, "-B", "-c", MAIN, json.dumps(lines)],
        cwd=lab.project.root,
        env=env,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def offer(lab: Lab) -> Index:
    """Offer what alpha requires there alone, with a wheel for each of three machines."""
    folder = lab.index.root / "vendor"
    requires = ("gamma; platform_machine == 'riscv64'",)
    alpha = make_wheel(folder, "alpha", "1.0", {"alpha.py": ""}, requires)
    wheels = [entry(alpha, lab.index.url, requires)]
    pure = make_wheel(folder, "gamma", "1.0", {"gamma.py": ""})
    for tag in (TAG, "manylinux_2_28_x86_64", "manylinux_2_39_aarch64"):
        wheel = pure.with_name(f"gamma-1.0-cp311-cp311-{tag}.whl")
        wheels.append(entry(Path(shutil.copy(pure, wheel)), lab.index.url, ()))
    return Index(url=f"{lab.index.url}/vendor/", files=tuple(wheels))


@pytest.mark.machine
def test_a_platform_is_one_entry_of_one_table(lab: Lab, toolkit: Path) -> None:
    spec = lab.project.specs / f"{TARGET}.toml"
    text = re.sub("platform = .*", f'platform = "{NAME}"', spec.read_text("utf-8"))
    text = text.replace('["beta"]', '["alpha", "gamma"]')
    spec.write_text(f"{text}\n[docker]\n", encoding="utf-8")
    path = lab.project.catalog / "vendor.json"
    path.write_text(render_snapshot(offer(lab)), encoding="utf-8")
    shutil.copy(CATALOG / "python-standalone.json", path.parent)
    lines = (f"lock {TARGET}", f"bundle {TARGET} -o out", f"sbom {TARGET}")
    printed = call(lab, toolkit, *lines)
    lock = read_lock(lab.project.lock(TARGET))
    assert lock.header["platform"] == NAME
    assert lock.artifacts[-1].filename == f"gamma-1.0-cp311-cp311-{TAG}.whl"
    out = lab.project.root / "out"
    made = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert made["platform"] == NAME
    assert made["missing"] == []
    assert (out / "build.sh").is_file()
    assert f"file_name=gamma-1.0-cp311-cp311-{TAG}.whl" in printed


@pytest.mark.machine
@pytest.mark.parametrize("stated", [True, False])
def test_a_lock_for_macos_says_which_one(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, *, stated: bool
) -> None:
    """Without that, uv locks for an older macOS, for which torch has older releases only."""
    if not stated:
        macos = PLATFORMS["osx-arm64"]._replace(resolver={})
        monkeypatch.setitem(PLATFORMS, "osx-arm64", macos)
    monkeypatch.delenv("MACOSX_DEPLOYMENT_TARGET", raising=False)
    wheels = []
    for version, since in (("2.11.0", "11_0"), ("2.12.0", "14_0")):
        wheel = Wheel(
            filename=f"torch-{version}-cp311-cp311-macosx_{since}_arm64.whl",
            url=f"{lab.index.url}/torch.whl",
            sha256="0" * 64,
            requires_dist=(),
        )
        wheels.append(wheel)
    spec = lab.project.specs / f"{TARGET}.toml"
    text = spec.read_text(encoding="utf-8").replace("alpha", "torch")
    text = re.sub('platform = ".*"', 'platform = "osx-arm64"', text)
    spec.write_text(re.sub('python = ".*"', 'python = "3.11"', text), encoding="utf-8")
    target = load_target(lab.project.specs, TARGET)
    with local_index.serve({"vendor": wheels}, "token", None) as urls:
        pins = UvResolver(urls, None, process.run).pins(target)
    assert isinstance(pins, dict)
    assert pins["torch"][0] == ("2.12.0" if stated else "2.11.0")
