from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

import pytest

from provision.core.errors import SpecError
from provision.spec.local import input_digests, local_digest
from provision.spec.reader import load_spec

if TYPE_CHECKING:
    from pathlib import Path

SPEC = """
summary = "a target"
accelerator = "cpu"
platform = "linux-64"
python = "3.11"
[pip]
cutoff = 2026-11-01
requirements = ["einops"]
files = ["needs/all.txt"]
"""
ALL = r"""
# a comment
torch>=2  # and another
--extra-index-url https://example.org/simple
--hash-mode
-r more.txt
-r more.txt
--constraint=../limits.txt
git+https://example.org/acme/Clip.git
git+https://example.org/acme/x@v1#egg=zed[fast]&subdirectory=python
https://example.org/foo-1.0-py3-none-any.whl#sha256=aa
-e .[dev]
--editable own
own/
pandas
numpy==1.2 \
   --hash=sha256:aa \
   --hash=sha256:bb
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("envs", "needs", "own", "pandas"):
        (tmp_path / folder).mkdir()
    (tmp_path / "envs" / "thing.toml").write_text(SPEC)
    (tmp_path / "needs" / "all.txt").write_text(ALL)
    (tmp_path / "needs" / "more.txt").write_text(
        "pandas; python_version > '3.8'\n-r all.txt\n"
    )
    (tmp_path / "limits.txt").write_text("protobuf<5\n")
    (tmp_path / "own" / "pyproject.toml").write_text("[project]\nname = 'own'\n")
    return tmp_path


MARKED = [
    ("utf-8-sig", b""),
    ("utf-16-le", codecs.BOM_UTF16_LE),
    ("utf-16-be", codecs.BOM_UTF16_BE),
]


@pytest.mark.parametrize(("encoding", "mark"), MARKED)
def test_all_that_pip_reads_becomes_part_of_the_spec(
    root: Path, encoding: str, mark: bytes
) -> None:
    (root / "needs" / "all.txt").write_bytes(mark + ALL.encode(encoding))
    (root / "envs" / "thing.toml").write_bytes(mark + SPEC.encode(encoding))
    pip = load_spec(root / "envs" / "thing.toml").pip
    assert pip.requirements == (
        "einops",
        "torch>=2",
        "pandas; python_version > '3.8'",
        "Clip @ git+https://example.org/acme/Clip.git",
        "zed[fast] @ git+https://example.org/acme/x@v1#egg=zed[fast]&subdirectory=python",
        "foo @ https://example.org/foo-1.0-py3-none-any.whl#sha256=aa",
        "pandas",  # a folder of this name is none, as for pip
        "numpy==1.2",
    )
    assert pip.constraints == ("protobuf<5",)
    assert pip.local == ("-e .[dev]", "-e own", "own/")


def test_a_changed_file_makes_the_lock_stale(root: Path) -> None:
    before = load_spec(root / "envs" / "thing.toml")
    assert [*input_digests(before, root)] == [
        "needs/all.txt",
        "needs/more.txt",
        "limits.txt",
        "own/pyproject.toml",
    ]
    (root / "limits.txt").write_text("protobuf<4\n")
    assert load_spec(root / "envs" / "thing.toml").digest() != before.digest()


def test_of_an_own_package_its_requirements_count_and_no_linter(root: Path) -> None:
    target = load_spec(root / "envs" / "thing.toml")
    before, path = local_digest(target, root), root / "own" / "pyproject.toml"
    path.write_text("[project]\nname = 'own'\n[tool.ruff]\nline-length = 100\n")
    assert local_digest(target, root) == before
    path.write_text("[project]\nname = 'own'\ndependencies = ['tqdm']\n")
    assert local_digest(target, root) != before


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("!!", "line 1: '!!' is not a requirement"),
        ("torch==${VERSION}", "depends on a variable of the caller"),
        ("-r https://example.org/r.txt", "is on a server"),
        ("-r absent.txt", "absent.txt: "),
        ("-c ../../outside.txt", "is outside the project"),
        ("foo @ ftp://example.org/foo.zip", "has to begin with git+https://"),
        ("foo @ https://user:word@example.org/foo.zip", "has a login"),
        ("foo @ git+https://token@example.org/foo", "has a login"),
    ],
)
def test_faults_name_file_and_line_all_at_once(
    root: Path, line: str, said: str
) -> None:
    (root / "needs" / "all.txt").write_text(f"{line}\n%\n")
    with pytest.raises(SpecError, match="2 faults") as error:
        load_spec(root / "envs" / "thing.toml")
    assert said in error.value.evidence
    assert str(root / "needs" / "all.txt") in error.value.evidence
