"""A build with nothing to do is recognised without the models, and only where it has nothing to do.

After each change below the full path has to run; its words show that it did.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

import pytest

from provision.cli import main
from provision.commands import up_to_date
from provision.core.errors import Exit
from provision.core.filesystem import remove_link
from provision.core.project import CURRENT, RECORD
from tests.small import TARGET, lock, make_project, make_wheel, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from provision.core.project import Project

pytestmark = pytest.mark.machine
NOTE = "up-to-date"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with serve(tmp_path / "index") as index:
        monkeypatch.setenv("PIP_INDEX_URL", f"{index.url}/default/")
        made = make_project(tmp_path, index)
        lock(
            made, [make_wheel(index.root / "default", "alpha", "1.0", {"alpha.py": ""})]
        )
        assert build() == Exit.OK
        assert recalled(made)
        yield made


def build(*options: str) -> int:
    return main.main(["build", TARGET, *options])


def recalled(project: Project) -> bool:
    before = up_to_date.fingerprint(project, TARGET)
    return up_to_date.recall(project, TARGET, before) is not None


def folder(project: Project) -> Path:
    return (project.environments(TARGET) / CURRENT).resolve()


def edit(path: Path, pattern: str, replacement: str) -> None:
    text = path.read_text()
    assert re.search(pattern, text)
    path.write_text(re.sub(pattern, replacement, text, count=1))


def edit_record(project: Project, change: Callable[[dict[str, object]], None]) -> None:
    path = folder(project) / RECORD
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record, indent=2) + "\n")


CHANGES: dict[str, tuple[Callable[[Project], object], int, str]] = {
    "spec, other requirement": (
        lambda p: edit(p.specs / f"{TARGET}.toml", "alpha", "alpha>=1"),
        Exit.USAGE,
        "is stale",
    ),
    "spec, fault": (
        lambda p: edit(p.specs / f"{TARGET}.toml", "summary", "sumary"),
        Exit.USAGE,
        "sumary:",
    ),
    "spec, legacy": (
        lambda p: edit(
            p.specs / f"{TARGET}.toml",
            "summary =",
            'status = "legacy"\nreason = "old"\nsummary =',
        ),
        Exit.OK,
        "is legacy: old",
    ),
    "spec, absent": (
        lambda p: (p.specs / f"{TARGET}.toml").unlink(),
        Exit.USAGE,
        "there is no target",
    ),
    "lock, edited": (
        lambda p: edit(p.lock(TARGET) / "requirements.txt", "alpha==1.0", "alpha=1.0"),
        Exit.USAGE,
        "is not a line of a lock",
    ),
    "lock, conda layer added": (
        lambda p: (p.lock(TARGET) / "conda-lock.yml").write_text("package: []\n"),
        Exit.USAGE,
        "conda-lock.yml is not the one",
    ),
    "lock, absent": (
        lambda p: (p.lock(TARGET) / "requirements.txt").unlink(),
        Exit.USAGE,
        "no lock",
    ),
    "catalog, absent": (
        lambda p: (p.catalog / "vendor.json").unlink(),
        Exit.USAGE,
        "there is no catalog of 'vendor'",
    ),
    "catalog, another file of a package": (
        lambda p: edit(
            p.catalog / "vendor.json",
            r"\[\]",
            '[{"filename": "beta-1-py3-none-any.whl"}]',
        ),
        Exit.USAGE,
        "the catalog changed",
    ),
    "record, unproven": (
        lambda p: edit_record(
            p, lambda r: r.update(proof="unproven", reason="no device")
        ),
        Exit.OK,
        "1 passed",
    ),
    "record, of another schema": (
        lambda p: edit_record(p, lambda r: r.update(schema_version=0)),
        Exit.USAGE,
        "cannot read",
    ),
    "record, of another lock": (
        lambda p: edit_record(p, lambda r: r.update(lock="0" * 64)),
        Exit.OK,
        "is ready",
    ),
    "record, absent": (lambda p: (folder(p) / RECORD).unlink(), Exit.OK, "is ready"),
    "current, absent": (
        lambda p: remove_link(p.environments(TARGET) / CURRENT),
        Exit.OK,
        "1 passed",
    ),
    "site-packages, one more": (
        lambda p: (
            next(folder(p).rglob("site-packages")).joinpath("x-1.dist-info").mkdir()
        ),
        Exit.OK,
        "is ready",
    ),
    "site-packages, one less": (
        lambda p: next(folder(p).rglob("alpha-1.0.dist-info")).rename(
            folder(p) / "gone"
        ),
        Exit.OK,
        "is ready",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_leads_to_the_full_path(
    built: Project, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    change, code, words = CHANGES[name]
    change(built)
    capfd.readouterr()
    assert not recalled(built)
    assert build() == code
    told = capfd.readouterr()
    assert words in (told.err if code or name == "spec, legacy" else told.out)


def test_the_machine_and_the_toolkit_count(
    built: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for owner, name, value in (
        (sys, "version", "3.99"),
        (sys, "platform", "freebsd"),
        (up_to_date, "__version__", "99"),
        (up_to_date, "PACKAGE", tmp_path / "index"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, value)
            assert not recalled(built), name
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    assert not recalled(built)


def test_pip_s_broken_configuration_is_said(
    built: Project,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert build() == Exit.OK
    assert recalled(built)
    (tmp_path / "config" / "pip").mkdir(parents=True)
    (tmp_path / "config" / "pip" / "pip.conf").write_text("no section\n")
    assert build() == Exit.USAGE
    assert "cannot read pip's configuration" in capfd.readouterr().err


def test_an_absent_wheelhouse_is_said(
    built: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    assert build("--wheelhouse", "nowhere") == Exit.USAGE
    assert "--wheelhouse nowhere" in capfd.readouterr().err


def test_another_spelling_of_a_target_is_no_target(built: Project) -> None:
    assert main.main(["build", f"../envs/{TARGET}"]) == Exit.USAGE


def test_an_edit_during_a_build_is_noticed(
    built: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder(built) / NOTE).unlink()
    real = up_to_date.remember

    def edit_first(*arguments: object) -> None:
        edit(built.specs / f"{TARGET}.toml", "alpha", "alpha>=1")
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(up_to_date, "remember", edit_first)
    assert build() == Exit.OK
    assert (folder(built) / NOTE).is_file()
    assert not recalled(built)


def test_only_a_proven_generation_is_noted(built: Project) -> None:
    (folder(built) / NOTE).unlink()
    edit_record(built, lambda r: r.update(proof="skipped"))
    assert build("--no-smoke") == Exit.OK
    assert not (folder(built) / NOTE).exists()


def test_a_folder_that_cannot_be_written_is_no_error(
    built: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder(built) / NOTE).unlink()
    (folder(built) / NOTE).mkdir()
    assert build() == Exit.OK


def test_both_paths_say_the_same(
    built: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    said = []
    for options in ([], ["--json"], ["--offline"], ["--no-smoke"]):
        for _ in ("recalled", "full"):
            capfd.readouterr()
            assert build(*options) == Exit.OK
            said.append(capfd.readouterr())
            (
                folder(built) / NOTE
            ).unlink()  # the second one takes the full path, and notes it
    assert "up to date" in said[0].out
    assert said[::2] == said[1::2]
