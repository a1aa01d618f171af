"""Every way in which an environment can stop being what is locked, and what it is called."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from provision.core.errors import ToolError
from provision.core.project import RECORD
from provision.environment.contents import read_contents
from provision.environment.verification import Verification
from provision.environment.verify import verify
from provision.lockfile.pip import read_lock
from provision.spec.model import ForbiddenDistribution
from tests.small import Index, lock, make_project, make_wheel

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """An environment as an installer leaves it: wheels unpacked, nothing else."""
    import zipfile

    site = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    wheels = [
        make_wheel(
            tmp_path / "default",
            name,
            "1.0",
            {f"{name}/__init__.py": "", f"{name}/a.py": name},
        )
        for name in ("alpha", "gamma")
    ]
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    lock(
        make_project(tmp_path / "project", Index(tmp_path, url="http://localhost:1")),
        wheels,
    )
    return tmp_path / "env"


def look(
    prefix: Path, *, deep: bool = True, forbid: tuple[ForbiddenDistribution, ...] = ()
) -> Verification:
    locked = read_lock(prefix.parent / "project" / "lockfiles" / "tiny")
    return verify(read_contents(prefix, "tiny"), locked, forbid, deep=deep)


def site(prefix: Path) -> Path:
    return prefix / "lib" / "python3.11" / "site-packages"


@pytest.mark.parametrize("deep", [False, True])
def test_an_untouched_environment_has_no_finding(prefix: Path, *, deep: bool) -> None:
    result = look(prefix, deep=deep)
    assert result.findings == ()
    assert (result.distributions, result.files) == (2, 10)
    assert (result.tree is not None) is deep


def _edit(site: Path) -> None:
    (site / "alpha" / "a.py").write_text("ALPHA")


def _shorten(site: Path) -> None:
    (site / "alpha" / "a.py").write_text("a")


def _remove_file(site: Path) -> None:
    (site / "alpha" / "a.py").unlink()


def _pth(site: Path) -> None:
    (site / "evil.pth").write_text("import os")


def _sitecustomize(site: Path) -> None:
    (site / "sitecustomize.py").touch()


def _shadow(site: Path) -> None:
    (site / "alpha.py").touch()


def _lost_program(site: Path) -> None:
    with (site / "alpha-1.0.dist-info" / "RECORD").open("a") as record:
        record.write("../../../bin/program,sha256=x,1\n")


def _no_entry_points(site: Path) -> None:
    (site / "alpha-1.0.dist-info" / "entry_points.txt").write_text("garbage")


def _circle(site: Path) -> None:
    (site / "circle.py").symlink_to("circle.py")


def _other_version(site: Path) -> None:
    info = site / "alpha-1.0.dist-info"
    text = (info / "METADATA").read_text().replace("1.0", "2.0")
    (info / "METADATA").write_text(text)
    (info / "INSTALLER").write_text("pip\n")


def _uninstalled(site: Path) -> None:
    for path in (site / "alpha-1.0.dist-info").iterdir():
        path.unlink()
    (site / "alpha-1.0.dist-info").rmdir()


def _no_record(site: Path) -> None:
    (site / "alpha-1.0.dist-info" / "RECORD").unlink()


@pytest.mark.parametrize(
    ("damage", "deep", "code", "named"),
    [
        (_edit, True, "changed-file", "alpha/a.py"),
        (_shorten, False, "changed-file", "alpha/a.py"),
        (_remove_file, False, "changed-file", "alpha/a.py"),
        (_pth, False, "unrecorded-file", "evil.pth"),
        (_sitecustomize, False, "unrecorded-file", "sitecustomize.py"),
        (_shadow, False, "unrecorded-file", "alpha.py"),
        (_lost_program, True, "changed-file", "bin/program"),
        (_no_entry_points, True, "unrecorded-file", "entry_points.txt"),
        (_circle, True, "unrecorded-file", "circle.py"),
        (_other_version, False, "version-drift", "alpha 1.0 was replaced by 2.0"),
        (_uninstalled, False, "missing-package", "alpha"),
        (_no_record, False, "half-installed-package", "alpha"),
    ],
)
def test_damage_is_found_and_named(
    prefix: Path, damage: object, *, deep: bool, code: str, named: str
) -> None:
    damage(site(prefix))  # type: ignore[operator]
    found = {finding.code: finding for finding in look(prefix, deep=deep).findings}
    assert code in found
    assert named in found[code].symptom + " ".join(found[code].evidence)
    assert found[code].remedy


def test_the_install_that_replaced_a_package_is_named(prefix: Path) -> None:
    _other_version(site(prefix))
    info = site(prefix) / "xformers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Name: xformers\nVersion: 1.0\n"
        "Requires-Dist: gamma ==2.0\nRequires-Dist: alpha ?\n"
        "Requires-Dist: alpha <3\nRequires-Dist: Alpha ==2.0\n"
    )
    (info / "RECORD").write_text(
        "xformers-1.0.dist-info/METADATA,,\nxformers-1.0.dist-info/RECORD,,\n"
    )
    result = look(prefix, deep=False)
    (drift,) = [f for f in result.findings if f.code == "version-drift"]
    assert drift.cause == "`pip install xformers` replaced it"
    assert drift.evidence == ("xformers 1.0 requires Alpha ==2.0",)
    assert result.drifted == ("alpha",)


def test_two_versions_of_one_package(prefix: Path) -> None:
    import shutil

    shutil.copytree(
        site(prefix) / "alpha-1.0.dist-info", site(prefix) / "alpha-3.0.dist-info"
    )
    assert "half-installed-package" in {
        f.code for f in look(prefix, deep=False).findings
    }


def test_a_stranger_and_a_forbidden_package_are_two_findings(prefix: Path) -> None:
    info = site(prefix) / "triton-3.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: Triton\nVersion: 3.0\n")
    (info / "RECORD").write_text(
        "triton-3.0.dist-info/METADATA,,\ntriton-3.0.dist-info/RECORD,,\n"
    )
    result = look(
        prefix, forbid=(ForbiddenDistribution(name="triton", reason="no use on a CPU"),)
    )
    assert [f.code for f in result.findings] == [
        "unlocked-package",
        "forbidden-package",
    ]
    assert result.findings[0].symptom == "triton 3.0 is not locked"
    assert "no use on a CPU" in result.findings[1].cause


@pytest.mark.parametrize("text", ["garbage", "[1]", "{}"])
def test_a_manifest_that_is_none_is_no_difference(prefix: Path, text: str) -> None:
    (prefix / RECORD).write_text(text)
    assert look(prefix).findings == ()


def test_of_an_older_lock_no_package_is_compared(prefix: Path) -> None:
    (prefix / RECORD).write_text('{"lock": "older"}')
    metadata = site(prefix) / "alpha-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("1.0", "2.0"))
    assert [f.code for f in look(prefix, deep=False).findings] == ["older-lock"]


def test_bytecode_that_pip_records_may_be_absent(prefix: Path) -> None:
    with (site(prefix) / "alpha-1.0.dist-info" / "RECORD").open("a") as record:
        record.write("alpha/__pycache__/a.cpython-311.pyc,,\n")
    assert look(prefix).findings == ()


def test_a_conda_package_of_nothing_or_of_links_is_whole(prefix: Path) -> None:
    of_target = {"sha256": "a" * 64, "size_in_bytes": 1}
    link = {"_path": "share", "path_type": "softlink", **of_target}
    folder = {"_path": "lib", "path_type": "directory"}
    (prefix / "share").symlink_to("lib")
    (prefix / "conda-meta").mkdir()
    for name, paths in (("empty", []), ("linked", [link, folder])):
        text = json.dumps(
            {"name": name, "version": "1.0", "paths_data": {"paths": paths}}
        )
        (prefix / "conda-meta" / f"{name}-1.0-0.json").write_text(text)
    assert {f.code for f in look(prefix).findings} == {"conda-drift"}
    (prefix / "share").unlink()
    assert "changed-file" in {f.code for f in look(prefix).findings}


def test_no_environment_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="is not a Python environment"):
        read_contents(tmp_path / "nothing", "tiny")


def _add(prefix: Path, name: str, *requires: str) -> None:
    info = site(prefix) / f"{name}-1.0.dist-info"
    info.mkdir()
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n{needs}")
    (info / "INSTALLER").write_text("uv")
    files = ("METADATA", "INSTALLER", "RECORD")
    (info / "RECORD").write_text("".join(f"{info.name}/{file},,\n" for file in files))


def test_a_foreign_install_is_one_finding_that_names_its_command(prefix: Path) -> None:
    for number in range(20):
        _add(prefix, f"aa{number}", "ipykernel; extra == 'all'")
    _add(prefix, "ipykernel", *(f"aa{number}>=1" for number in range(20)))
    (finding,) = look(prefix).findings
    assert (finding.code, finding.symptom) == (
        "unlocked-package",
        "aa0 1.0 and 20 more are not locked",
    )
    assert finding.cause.startswith("`uv pip install ipykernel` changed")
    assert "add tiny ipykernel`" in finding.remedy
    assert all(f"aa{number} 1.0" in finding.evidence[0] for number in range(20))
