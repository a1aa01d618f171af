"""A lock in other installers' formats: each installs the same, and says what it does not hold."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from packaging.pylock import Pylock

from provision.catalog.snapshot import Index as Snapshot
from provision.catalog.snapshot import Wheel as CatalogWheel
from provision.catalog.snapshot import render_snapshot
from provision.commands.export import Export, export
from provision.core.errors import ToolError, UsageError
from provision.core.program import uv_program
from provision.installer.plan import ArtifactSources
from provision.lockfile.formats import SIGNATURES
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_target
from tests.lab import Silent
from tests.small import TARGET, artifact, make_wheel

if TYPE_CHECKING:
    from tests.lab import Lab

pytestmark = pytest.mark.machine
ROOT = Path(__file__).parents[2]
CLEAN = {
    key: value
    for key, value in os.environ.items()
    if not key.startswith(("PIP_", "UV_"))
}


def exported(
    lab: Lab, kind: str, file: Path | None = None, default: str = ""
) -> Export:
    """Export the target of the lab, whose vendor's wheels are put into the catalog."""
    (wheel,) = [wheel for wheel in lab.wheels if wheel.parent.name == "vendor"]
    listed = CatalogWheel(
        filename=wheel.name,
        url=f"{lab.index.url}/vendor/{wheel.name}",
        requires_dist=(),
        sha256=artifact(wheel).sha256,
    )
    head = {"$schema": "index.schema.json", "url": f"{lab.index.url}/vendor/"}
    catalog = Snapshot(**head, files=(listed,))
    (lab.project.catalog / "vendor.json").write_text(
        render_snapshot(catalog), encoding="utf-8"
    )
    indexes = {"default": default or f"{lab.index.url}/default/", "vendor": catalog.url}
    target = load_target(lab.project.specs, TARGET)
    return export(
        lab.project,
        target,
        read_lock(lab.project.lock(TARGET)),
        supply=ArtifactSources((), dict(indexes), offline=False),
        kind=kind,
        file=file,
        progress=lab.listener,
    )


def installed(
    index: str, folder: Path, *words: str, cwd: Path | None = None
) -> dict[str, str]:
    """Install into a new environment with the given installer's words; return its inventory."""
    uv = uv_program()
    subprocess.run(
        [uv, "venv", "--quiet", "--no-config", folder], check=True, env=CLEAN
    )
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    cache = {
        "UV_CACHE_DIR": str(folder / "cache"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": index,
        "UV_DEFAULT_INDEX": index,
        "UV_NO_CONFIG": "1",
    }
    argv = [str(python) if word == "PYTHON" else word for word in words]
    done = subprocess.run(
        argv,
        check=False,
        capture_output=True,
        text=True,
        env=CLEAN | cache,
        cwd=cwd or folder,
    )
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(
        [uv, "pip", "list", "--format=json", "--python", python],
        check=True,
        capture_output=True,
        env=CLEAN,
    )
    return {entry["name"]: entry["version"] for entry in json.loads(listed.stdout)}


UV = (uv_program(), "pip", "install", "--python", "PYTHON")
UV_SYNC = (uv_program(), "pip", "sync", "--python", "PYTHON")
PIP = (sys.executable, "-m", "pip", "--python", "PYTHON", "install", "--quiet")
INSTALL = {"uv": (*UV, "-r"), "uv-sync": UV_SYNC, "pip": (*PIP, "-r")}


@pytest.mark.slow
def test_requirements_install_what_is_locked_without_what_is_excluded(
    lab: Lab, tmp_path: Path
) -> None:
    spec = lab.project.specs / f"{TARGET}.toml"
    text = spec.read_text(encoding="utf-8")
    spec.write_text(text.replace("[pip]\n", '[pip]\nexclude = ["absent"]\n'), "utf-8")
    shop, files = lab.index.root / "default", {"alpha.py": ""}
    lab.relock(make_wheel(shop, "alpha", "1.0", files, ["absent"]), lab.wheels[1])
    assert "excluded" in " ".join(exported(lab, "environment").left_out)
    file = tmp_path / "requirements.txt"
    assert "excluded" not in " ".join(exported(lab, "requirements", file).left_out)
    both = {"alpha": "1.0", "beta": "1.0"}
    index = f"{lab.index.url}/default/"
    for line in file.read_text(encoding="utf-8").splitlines()[:2]:
        tool, *words = words_of(line, file)
        assert installed(index, tmp_path / tool, *words) == both


def words_of(line: str, file: Path) -> list[str]:
    """Return the installer and the command line that the head of a file tells."""
    _, tool, *words = line.split()
    begin = {"uv": [*UV], "pip": [*PIP]}[tool]
    options = words[words.index("install") + 1 :]
    return [tool, *begin, *[str(file) if word == "FILE" else word for word in options]]


def committed(kind: str, name: str) -> Export:
    """Export a target of this repository without any network."""
    from provision.commands.request import artifact_sources
    from provision.core.project import Project

    project = Project(ROOT)
    target = load_target(project.specs, name)
    supply = dataclasses.replace(artifact_sources(project, target, ()), wheelhouses=())
    lock = read_lock(project.lock(name))
    return export(
        project, target, lock, supply=supply, kind=kind, file=None, progress=Silent()
    )


def test_environment_yml_pins_both_layers() -> None:
    from rattler import MatchSpec

    exported = committed("environment", "max-linux")
    document: dict[str, Any] = yaml.safe_load(exported.text)
    *native, pip = document["dependencies"]
    native.remove("pip")
    assert {"python", "openssl"} <= {spec.partition("=")[0] for spec in native}
    for spec in native:
        assert MatchSpec(spec).build
    assert "hashes" in " ".join(committed("environment", "cpu-linux").left_out)
    assert "conda layer" in " ".join(committed("requirements", "max-linux").left_out)
    left_out = committed("requirements", "cpu-linux").left_out
    assert "conda layer" not in " ".join(left_out)
    lock = read_lock(ROOT / "lockfiles" / "max-linux")
    assert pip["pip"][1:] == [f"{a.name}=={a.version}" for a in lock.artifacts]


def test_a_wheel_that_the_index_no_longer_lists_is_named(lab: Lab) -> None:
    (lab.index.root / "default" / "alpha-1.0-py3-none-any.whl").unlink()
    lab.wheel("alpha", "2.0")
    with pytest.raises(ToolError, match="no address is known") as failed:
        exported(lab, "pylock")
    assert failed.value.evidence == "alpha-1.0-py3-none-any.whl"


def test_a_name_that_installers_do_not_take_is_refused(
    lab: Lab, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="not a name for this format"):
        exported(lab, "pylock", tmp_path / "lock.toml")
    assert not list(tmp_path.glob("lock.toml"))


def test_the_password_of_a_mirror_is_in_no_export(lab: Lab) -> None:
    host = lab.index.url.removeprefix("http://")
    text = exported(lab, "pylock", default=f"http://me:hush@{host}/default/").text
    assert "hush" not in text
    assert Pylock.from_dict(tomllib.loads(text)).packages


def test_pylock_installs_what_is_locked_and_no_other_file(
    lab: Lab, tmp_path: Path
) -> None:
    file = tmp_path / "pylock.toml"
    exported(lab, "pylock", file)
    both = {"alpha": "1.0", "beta": "1.0"}
    index = f"{lab.index.url}/default/"
    for name, words in INSTALL.items():
        assert installed(index, tmp_path / name, *words, str(file)) == both
    lab.wheel("alpha", text="version = '6.6'\n")  # of the same size
    for name in ("uv", "pip"):  # uv reads it for both of its commands
        words = INSTALL[name]
        with pytest.raises(AssertionError, match=r"(?i)hash"):
            installed(index, tmp_path / f"other-{name}", *words, str(file))


def test_who_waits_for_an_index_reads_which(lab: Lab) -> None:
    exported(lab, "pylock")
    wheels = f"asking {lab.index.url}/default/ for the addresses of 1 wheel"
    assert wheels in lab.listener.steps
    assert lab.listener.steps[-1] == ""
    export = exported(lab, "requirements")
    (note,) = export.notes
    assert "`--retries 0 --timeout 5`" in note
    assert f"# {note}\n" in export.text, "who only has the file reads it there"


def test_a_file_is_replaced_only_if_an_earlier_export_made_it(
    lab: Lab, tmp_path: Path
) -> None:
    for kind in SIGNATURES:
        file = tmp_path / "pylock.toml"
        file.write_text("[project]\nname = 'mine'\n", encoding="utf-8")
        with pytest.raises(UsageError, match="was not made by this command"):
            exported(lab, kind, file)
        assert "mine" in file.read_text(encoding="utf-8")
        file.unlink()
        first = exported(lab, kind, file)
        assert exported(lab, kind, file) == first
        assert file.read_text(encoding="utf-8") == first.text
