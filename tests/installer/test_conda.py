"""A conda layer below the pip layer: laid out, compared file by file, refused where it differs."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.core.errors import SpecError, ToolError
from provision.core.project import CURRENT
from provision.environment.contents import read_contents
from provision.environment.verify import verify
from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import CONDA_LAYER, Lock, read_lock
from tests.condapkg import MINOR, VERSION, File, lock_text, make_package, make_python
from tests.small import TARGET, make_wheel

if TYPE_CHECKING:
    from tests.lab import Lab

LOCKS = Path(__file__).parents[2] / "lockfiles"
SITE = f"lib/python{MINOR}/site-packages"
INFO = "site-packages/greet-1.0.dist-info"


@pytest.fixture(scope="session")
def python_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_python(tmp_path_factory.mktemp("channel"))


@dataclasses.dataclass
class CondaLab:
    """A lab whose lock has a conda layer of two packages, served as a channel on loopback."""

    lab: Lab
    archives: list[Path]

    def house(self, folder: Path) -> Path:
        """Copy everything that both layers need into a folder."""
        folder.mkdir()
        for path in (*self.archives, *self.lab.wheels):
            shutil.copy(path, folder)
        return folder

    def look(self) -> list[tuple[str, str]]:
        lock = read_lock(self.lab.project.lock(TARGET))
        contents = read_contents((self.lab.home / CURRENT).resolve(), TARGET)
        found = verify(contents, lock, (), deep=True)
        return [(f.code, evidence) for f in found.findings for evidence in f.evidence]


@pytest.fixture
def conda(lab: Lab, python_package: Path) -> CondaLab:
    channel = lab.index.root / "channel"
    (channel / "linux-64").mkdir(parents=True)
    python = Path(shutil.copy(python_package, channel / "linux-64"))
    greet = make_package(
        channel,
        "greet",
        "1.0",
        {
            "site-packages/greet.py": File(b"def hello():\n    print('hello')\n"),
            f"{INFO}/METADATA": File(
                b"Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n"
            ),
            f"{INFO}/RECORD": File(b"never/shipped.py,sha256=AAAA,1\n"),
        },
        subdir="noarch",
        noarch="python",
        depends=("python",),
    )
    text = lock_text(f"{lab.index.url}/channel", [python, greet])
    (lab.project.lock(TARGET) / CONDA_LAYER).write_text(text, encoding="utf-8")
    lab.relock(*lab.wheels)
    return CondaLab(lab, [python, greet])


@pytest.mark.machine
def test_both_layers_are_built_without_a_network_and_alike_elsewhere(
    conda: CondaLab, tmp_path: Path
) -> None:
    lab, house = conda.lab, conda.house(tmp_path / "house")
    built = lab.build(wheelhouses=(house,), offline=True)
    assert built.generation is not None
    assert built.plan is not None
    assert built.plan.packages == 4
    assert built.plan.local == 4
    where = lab.says("import alpha, beta, greet, ssl, sys; print(sys.base_prefix)")
    assert where == str(lab.home / CURRENT)
    record = built.generation.record
    assert record.python == VERSION
    assert record.proof == "proven"
    assert record.files > 500
    assert lab.index.asked == []
    assert conda.look() == []
    # The tree is the same wherever it lies, and a changed archive is left aside.
    greet = house / conda.archives[1].name
    greet.write_bytes(greet.read_bytes()[:-1] + b"x")
    elsewhere = tmp_path / "another" / "and a longer" / "place"
    ignore = shutil.ignore_patterns(".envs", ".cache")
    shutil.copytree(lab.project.root, elsewhere, ignore=ignore)
    project = lab.project._replace(root=elsewhere)
    second = CondaLab(dataclasses.replace(lab, project=project), conda.archives)
    again = second.lab.build(wheelhouses=(house,)).generation
    assert again is not None
    assert again.record.tree == record.tree
    assert any(str(greet) in note for note in lab.listener.notes)
    assert second.look() == []


@pytest.mark.machine
@pytest.mark.parametrize("offline", [False, True])
def test_another_archive_than_the_locked_one_is_refused(
    conda: CondaLab, tmp_path: Path, offline: bool
) -> None:
    house = conda.house(tmp_path / "house")
    evil = {"site-packages/greet.py": File(b"evil = True\n")}
    served = make_package(
        conda.archives[1].parents[1],
        "greet",
        "1.0",
        evil,
        subdir="noarch",
        noarch="python",
    )
    shutil.copy(served, house)
    with pytest.raises(ToolError, match="1 package of the conda layer") as caught:
        conda.lab.build(wheelhouses=(house,), offline=offline)
    assert "greet-1.0-0.conda  sha256" in caught.value.evidence
    reason = "greet-1.0-0.conda has sha256" if offline else "another file"
    assert reason in caught.value.evidence
    assert conda.lab.left() == []


@pytest.mark.machine
def test_an_archive_that_cannot_be_unpacked_leaves_nothing(conda: CondaLab) -> None:
    broken = conda.archives[1]
    broken.write_bytes(b"the lock was made of this")
    text = lock_text(f"{conda.lab.index.url}/channel", conda.archives)
    (conda.lab.project.lock(TARGET) / CONDA_LAYER).write_text(text, encoding="utf-8")
    conda.lab.relock(*conda.lab.wheels)
    with pytest.raises(ToolError, match="could not install the conda layer") as caught:
        conda.lab.build()
    assert "greet" in caught.value.evidence
    assert "Traceback" not in caught.value.evidence
    assert conda.lab.left() == []


def _edit(prefix: Path) -> None:
    (prefix / SITE / "greet.py").write_text("def hello():\n    print('HELLO')\n")


def _edit_library(prefix: Path) -> None:
    library = next((prefix / "lib").glob("libpython*.so.1.0"))
    library.write_bytes(library.read_bytes().replace(b"Python", b"Pythom", 1))


def _edit_patched(prefix: Path) -> None:
    path = next((prefix / f"lib/python{MINOR}").glob("_sysconfigdata*.py"))
    path.write_text(path.read_text() + "#")


def _shadow(prefix: Path) -> None:
    (prefix / f"lib/python{MINOR}/sitecustomize.py").touch()


def _unlink(prefix: Path) -> None:
    (prefix / "bin/python3").unlink()


def _add(prefix: Path) -> None:
    told = {
        "name": "extra",
        "version": "1",
        "sha256": "00" * 32,
        "paths_data": {"paths": []},
    }
    (prefix / "conda-meta/extra-1-0.json").write_text(json.dumps(told))


def _replace(prefix: Path) -> None:
    path = prefix / "conda-meta/greet-1.0-0.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sha256": "00" * 32}))


def _remove(prefix: Path) -> None:
    (prefix / "conda-meta/greet-1.0-0.json").unlink()


@pytest.mark.machine
def test_every_way_to_drift_is_found_and_named(conda: CondaLab) -> None:
    built = conda.lab.build(smoke=False).generation
    assert built is not None
    drifts = (
        (_edit, "changed-file", "greet.py"),
        (_edit_library, "changed-file", "../../libpython"),
        (_edit_patched, "changed-file", "../_sysconfigdata"),
        (_shadow, "unrecorded-file", "../sitecustomize.py"),
        (_unlink, "changed-file", "../../../bin/python3"),
        (_add, "conda-drift", "installed: 1, sha256 0000"),
        (_replace, "conda-drift", "installed: 1.0, sha256 0000"),
    )
    for change, _, _ in drifts:
        change(built.folder)
    found = conda.look()
    for _, code, beginning in drifts:
        of_code = [evidence for found_code, evidence in found if found_code == code]
        assert any(text.startswith(beginning) for text in of_code), beginning
    _remove(built.folder)
    evidence = [text for _, text in conda.look()]
    assert any(text.startswith("installed: not installed") for text in evidence)


def test_the_committed_layers_are_read_whole() -> None:
    for path in LOCKS.glob(f"*/{CONDA_LAYER}"):
        lock = read_lock(path.parent)
        packages = {package.name: package for package in conda_packages(lock)}
        assert lock.conda is not None
        assert len(packages) == lock.conda.count("manager: conda") > 5
        assert all(package.size for package in packages.values())
        assert packages["python"].version.startswith(lock.header["python"])
        assert packages["python"].build.endswith("cpython")
        # Comments do not count.
        bare = re.sub(r" *#.*", "", lock.conda).lstrip()
        assert dataclasses.replace(lock, conda=bare).digest == lock.digest


def test_faults_of_the_lock_are_told_all_at_once(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "noarch", "pack-1", "0", {})
    good = json.loads(
        lock_text("https://c", [wheel.rename(wheel.with_name("pack-1-0.conda"))])
    )
    good["package"][0]["hash"] = {"md5": "00"}
    good["package"][0]["url"] = "https://c/pack.conda"
    lock = Lock(tmp_path, {"platform": "linux-64"}, (), json.dumps(good))
    with pytest.raises(SpecError, match="conda layer") as caught:
        conda_packages(lock)
    assert "package[0].hash.sha256: is missing" in caught.value.evidence
    assert "package[0].url" in caught.value.evidence
