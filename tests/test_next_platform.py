"""Another platform is one entry in one table: spec, lock, bundle, image and bill of materials."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from provision.artifacts.tools import LOCKS
from provision.catalog.snapshot import Wheel
from provision.core import process
from provision.core.platforms import PLATFORMS
from provision.lockfile.pip import read_lock
from provision.resolver import local_index
from provision.resolver.uv import UvResolver
from provision.spec.reader import load_target
from tests.lab import Lab
from tests.small import TARGET, make_wheel

CLONE = Path(__file__).parents[1]
# A platform that no target is for yet, and what its wheels are called.
NAME, TAG = "linux-riscv64", "manylinux_2_39_riscv64"
ENTRY = f"""
[platform.{NAME}]
words = "Linux on RISC-V"
system = "linux"
machine = "riscv64"
arch = "riscv64"
uv = "riscv64-unknown-linux"
tags = ["manylinux_2_39_riscv64"]
docker = "linux/riscv64"
"""
# Everything below runs on the copy of the toolkit with the entry, in a process of its own.
CONTEXT = """
import json, sys
from pathlib import Path
from provision.core.process import run
from provision.core.project import PACKAGE, Project
from provision.image.context import prepare_context
from provision.image.request import ImageRequest
from provision.image.docker import build_argv
from provision.installer.install import ArtifactSources
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_target
root, default = Path(sys.argv[1]), sys.argv[2]
project = Project(root)
target, lock = load_target(project.specs, "tiny"), read_lock(project.lock("tiny"))
supply = ArtifactSources((root / "out" / "artifacts",), {"default": default}, offline=True)
request = ImageRequest(project, target, lock, supply)
silent = type("Silent", (), {"step": lambda *_: None, "note": lambda *_: None})
prepare_context(request, run, silent())
print(json.dumps([str(PACKAGE), str(request.context), *build_argv(request, "docker", {})]))
"""


@pytest.fixture
def toolkit(lab: Lab, tmp_path: Path) -> Path:
    """A copy of the toolkit with one entry more, which needs one tool; the lab's index has it."""
    root = tmp_path / "toolkit"
    bare = shutil.ignore_patterns("__pycache__")
    for name in ("provision", "docker", "smoke"):
        shutil.copytree(CLONE / name, root / name, ignore=bare)
    (root / "envs" / "catalog").mkdir(parents=True)
    for name in (
        "noxfile.py",
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        "LICENSE",
    ):
        shutil.copy(CLONE / name, root)
    with (root / "provision" / "core" / "platforms.toml").open(
        "a", encoding="utf-8"
    ) as table:
        table.write(ENTRY)
    tool = make_wheel(lab.index.root / "default", "tool", "1.0", {"tool.py": ""})
    tool = tool.rename(
        tool.with_name(f"tool-1.0-py3-none-{TAG}.whl")
    )  # for this platform alone
    digest = hashlib.sha256(tool.read_bytes()).hexdigest()
    (root / "lockfiles" / "tools").mkdir(parents=True)
    for name in LOCKS:
        line = f"tool==1.0 --hash=sha256:{digest}\n"
        (root / "lockfiles" / "tools" / name).write_text(line, encoding="utf-8")
    return root


@pytest.mark.machine
def test_a_platform_is_one_entry_of_one_table(lab: Lab, toolkit: Path) -> None:
    spec, catalog = (
        lab.project.specs / f"{TARGET}.toml",
        lab.project.catalog / "vendor.json",
    )
    wanted = {
        "platform =": f'platform = "{NAME}"',
        "vendor =": 'vendor = ["alpha", "gamma"]',
        "requirements =": 'requirements = ["alpha"]',
    }
    lines = [
        next((new for old, new in wanted.items() if line.startswith(old)), line)
        for line in spec.read_text(encoding="utf-8").splitlines()
    ]
    spec.write_text("\n".join([*lines, "[docker]", ""]), encoding="utf-8")
    # What alpha requires there alone has a wheel for each of three machines.
    marker = "platform_machine == 'riscv64'"
    folder = lab.index.root / "vendor"
    make_wheel(folder, "alpha", "1.0", {"alpha.py": ""}, [f"gamma; {marker}"])
    pure = make_wheel(folder, "gamma", "1.0", {"gamma.py": ""})
    for tag in (TAG, "manylinux_2_28_x86_64", "manylinux_2_39_aarch64"):
        shutil.copy(pure, pure.with_name(f"gamma-1.0-cp311-cp311-{tag}.whl"))
    pure.unlink()
    vendor = json.loads(catalog.read_text(encoding="utf-8"))
    vendor["files"] = [
        {
            "filename": wheel.name,
            "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
            "size": wheel.stat().st_size,
            "url": f"{lab.index.url}/vendor/{wheel.name}",
            "requires_python": None,
            "sources": ["the lab"],
            "requires_dist": [f"gamma; {marker}"]
            if wheel.name.startswith("alpha")
            else [],
        }
        for wheel in sorted(folder.glob("[ag]*.whl"))
    ]
    catalog.write_text(json.dumps(vendor), encoding="utf-8")

    def provision(*words: str | Path) -> str:
        return call(
            "-c",
            "from provision.cli.main import main; raise SystemExit(main())",
            *words,
        )

    def call(*words: str | Path) -> str:
        # The lab's index is the only one, as of a machine behind a mirror.
        env = os.environ | {
            "PYTHONPATH": str(toolkit),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"{lab.index.url}/default/",
        }
        done = subprocess.run(
            [sys.executable, "-B", *words],
            cwd=lab.project.root,
            env=env,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    provision("lock", TARGET)
    lock = read_lock(lab.project.lock(TARGET))
    assert lock.header["platform"] == NAME
    assert [a.filename for a in lock.artifacts][
        -1
    ] == f"gamma-1.0-cp311-cp311-{TAG}.whl"
    provision("lock", TARGET, "--check")
    provision("bundle", TARGET, "-o", "out")
    made = json.loads(
        (lab.project.root / "out" / "manifest.json").read_text(encoding="utf-8")
    )
    assert (made["platform"], made["missing"]) == (NAME, [])
    assert (lab.project.root / "out" / "build.sh").is_file()
    package, context, *command = json.loads(
        call("-c", CONTEXT, lab.project.root, f"{lab.index.url}/default/")
    )
    assert package == str(
        toolkit / "provision"
    )  # not the clone that these tests are of
    assert command[command.index("--platform") + 1] == "linux/riscv64"
    house = Path(context, "wheelhouse")
    assert {path.name for path in house.iterdir()} == {
        a.filename for a in lock.artifacts
    }
    listed = json.loads(provision("sbom", TARGET))["components"]
    assert any(
        f"file_name=gamma-1.0-cp311-cp311-{TAG}.whl" in one["purl"] for one in listed
    )
    assert "riscv64" in provision("export", TARGET, "--format", "pylock")


@pytest.mark.machine
@pytest.mark.parametrize("told", [True, False])
def test_a_lock_for_macos_says_which_one(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, *, told: bool
) -> None:
    """Without that, uv locks for an older macOS, for which torch has older releases only."""
    macos = PLATFORMS["osx-arm64"]
    if not told:
        monkeypatch.setitem(PLATFORMS, "osx-arm64", macos._replace(resolver={}))
    monkeypatch.delenv("MACOSX_DEPLOYMENT_TARGET", raising=False)
    wheels = [
        {
            "filename": f"torch-{version}-cp311-cp311-macosx_{since}_arm64.whl",
            "sha256": "0" * 64,
            "size": 1,
            "url": f"{lab.index.url}/torch.whl",
            "requires_python": None,
            "requires_dist": [],
            "sources": ["the names on the default index"],
        }
        for version, since in (("2.11.0", "11_0"), ("2.12.0", "14_0"))
    ]
    text = (lab.project.specs / f"{TARGET}.toml").read_text(encoding="utf-8")
    text = re.sub('platform = ".*"', 'platform = "osx-arm64"', text).replace(
        "alpha", "torch"
    )
    text = re.sub('python = ".*"', 'python = "3.11"', text).replace("beta", "torch")
    spec = lab.project.specs / f"{TARGET}.toml"
    spec.write_text(text, encoding="utf-8")
    target = load_target(lab.project.specs, TARGET)
    served = {
        "vendor": [Wheel.model_validate_json(json.dumps(wheel)) for wheel in wheels]
    }
    with local_index.serve(served, "token", None) as urls:
        engine = UvResolver({"vendor": urls["vendor"]}, None, process.run)
        pins = engine.pins(target)
    assert isinstance(pins, dict)
    assert pins["torch"][0] == ("2.12.0" if told else "2.11.0")
