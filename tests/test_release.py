"""What is published: one version, the same bytes from the same commit, a pipeline that is sound."""

from __future__ import annotations

import importlib.metadata
import io
import re
import tarfile
import tomllib
from pathlib import Path

import pytest

import provision
from release import DYNAMIC, WAYS, build, committed, differing, release_version
from tests.checkout import commit_copy

ROOT = Path(__file__).parents[1]
# https://keepachangelog.com/en/1.1.0/ and https://semver.org/spec/v2.0.0.html
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
# What a backend would do that writes down where and when it ran.
STAMP = """
import os, time

class Stamped(ShippedData):
    def initialize(self, version, build_data):
        with open(os.path.join(self.root, "provision", "stamp.txt"), "w") as stamp:
            stamp.write(f"{self.root} {time.time_ns()}")
        super().initialize(version, build_data)

del ShippedData # there is to be one
"""
HEADING = re.compile(
    r"\[(\d+\.\d+\.\d+(?:-[\w.]+)?)\] - (\d{4}-\d{2}-\d{2})( \[YANKED\])?"
)


def test_the_version_is_written_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["hatch"]["version"]["path"] == "provision/__init__.py"
    assert "version" not in project["project"]
    assert DYNAMIC in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert importlib.metadata.version("provision-torch") == provision.__version__
    assert project["project"]["scripts"]["provision"].startswith("provision.cli")
    tracked = (
        "CITATION.cff",
        "action.yml",
        ".pre-commit-hooks.yaml",
        "mkdocs.yml",
        "noxfile.py",
    )
    for name in tracked:
        assert provision.__version__ not in (ROOT / name).read_text("utf-8")


def test_the_changelog_follows_the_convention() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.startswith("# Changelog\n")
    assert "\n## [Unreleased]\n" in text or f"\n## [{provision.__version__}] - " in text
    releases = re.findall("^## (.+)$", text, re.MULTILINE)
    versions = [HEADING.fullmatch(line) for line in releases if line != "[Unreleased]"]
    assert all(versions)
    assert set(re.findall("^### (.+)$", text, re.MULTILINE)) <= set(KINDS)


def test_a_tag_that_is_not_the_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "provision").mkdir()
    (tmp_path / "provision" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    changes = tmp_path / "CHANGELOG.md"
    changes.write_text("# Changelog\n\n## [Unreleased]\n")
    tag = {"GITHUB_REF_TYPE": "tag", "GITHUB_REF_NAME": "v1.2.3"}
    assert release_version(tmp_path, {"GITHUB_REF_NAME": "main"}) == "1.2.3"
    with pytest.raises(SystemExit, match=r"the tag is v1\.2\.4"):
        release_version(tmp_path, tag | {"GITHUB_REF_NAME": "v1.2.4"})
    with pytest.raises(SystemExit, match="no heading"):
        release_version(tmp_path, tag)
    changes.write_text("# Changelog\n\n## [1.2.3] - 2026-11-22\n")
    assert release_version(tmp_path, tag) == "1.2.3"


def stamping(source: bytes) -> bytes:
    """Return an archive of the repository whose backend writes down where and when it ran."""
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(source)) as old,
        tarfile.open(fileobj=out, mode="w") as new,
    ):
        for member in old:
            held = old.extractfile(member)
            data = held.read() if held else b""
            if member.name == "hatch_build.py":
                data += STAMP.encode()
            member.size = len(data)
            new.addfile(member, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.machine
@pytest.mark.slow
def test_two_builds_of_one_commit_are_the_same_bytes(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    commit_copy(repository)
    (repository / "provision" / "stray.py").touch()  # which no commit has
    epoch, source = committed(repository)
    first_way, second_way = WAYS
    first = build(source, tmp_path / "a", epoch, *first_way)
    second = build(source, tmp_path / "b", epoch, *second_way)
    assert differing(first, second) == []
    everything = sorted(path.name for path in first.iterdir())
    variants, _, wheel, sdist = everything
    assert wheel[-4:] == ".whl"
    assert sdist[-7:] == ".tar.gz"
    version = provision.__version__
    assert variants == f"provision_intel_variants-{version}-py3-none-any.whl"
    with tarfile.open(first / sdist) as archive:
        for name in archive.getnames():
            assert not name.endswith("stray.py")
    # Neither another time of the commit nor such a backend passes.
    next_day = str(int(epoch) + 86400)
    late = build(source, tmp_path / "late", next_day, *first_way)
    assert differing(first, late) == everything
    stamped = stamping(source)
    third = build(stamped, tmp_path / "c", epoch, *first_way)
    fourth = build(stamped, tmp_path / "d", epoch, *second_way)
    assert differing(third, fourth) == [wheel]
