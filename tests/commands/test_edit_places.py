"""`add` and `remove` where requirements stand: the file that a spec refers to, and all who read it."""

from __future__ import annotations

import codecs
import json
import shutil
import stat
from typing import TYPE_CHECKING

import pytest

from provision.commands.edit_lines import Edit, appended, with_line
from provision.commands.edit_places import Words, add, remove, require_removable
from provision.core.errors import Exit, UsageError
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_spec
from provision.spec.requirement_files import RequirementFiles
from tests.commands.test_edit_spec import call, shop
from tests.small import TARGET, contents

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab import Lab

__all__ = ["shop"]  # a fixture

REQUIREMENTS = """\
# what we train with
--extra-index-url https://example.org/simple
numpy>=1.26  # the last with distutils
einops==0.7.0 \\
    --hash=sha256:aaaa \\
    --hash=sha256:bbbb  # pinned
-r more.txt

tqdm ; python_version < "3.12"
tqdm>=4.66 ; python_version >= "3.12"
"""
PYPROJECT = """\
[project]
name = "ours"
version = "1"
dependencies = [
    # of the models
    "numpy>=1.26", # a reason
    'einops ; python_version > "3"',
    "last",
]
optional-dependencies.audio = ["soundfile", "librosa>=0.10"]

[dependency-groups]
dev = ["pytest"]

[tool.ruff]
line-length = 88
"""
CONDA = """\
dependencies:
  - python=3.11
  - pip:
      - einops  # rearranges
      - "tqdm>=4"
"""
SPEC = """\
summary = "a target"
accelerator = "cpu"
platform = "linux-64"
python = "3.11"

[pip]
cutoff = 2026-11-01
requirements = ["own"]
files = FILES
"""


@pytest.mark.parametrize(
    ("suffix", "line", "new", "edited"),
    [
        (".txt", "einops==1  # why\n", "einops==2", "einops==2  # why\n"),
        (".txt", "einops\n", None, ""),
        (".txt", "einops\r\n", "einops>1", "einops>1\r\n"),
        (".yml", "  - einops  # why\n", "einops>=1", "  - einops>=1  # why\n"),
        (".yml", '  - "einops"\n', "einops ; x == 'y'", "  - \"einops ; x == 'y'\"\n"),
        (".yml", "  - einops\n", None, ""),
        (".toml", 'a = ["x", "einops"]\n', None, 'a = ["x"]\n'),
        (".toml", 'a = ["einops", "x"]\n', None, 'a = ["x"]\n'),
        (".toml", 'a = ["einops"]\n', None, "a = []\n"),
        (".toml", '  "einops", # why\n', None, ""),
        (".toml", "  'einops', # why\n", "einops<2", "  'einops<2', # why\n"),
        (".toml", '"einops>1", # not "einops"\n', None, ""),
        (".toml", '["einops", "einops<9"]\n', "einops>2", '["einops>2", "einops<9"]\n'),
        (".toml", '"einops"\n', 'einops ; a == "b"', "'einops ; a == \"b\"'\n"),
    ],
)
def test_a_line_is_edited_and_nothing_else(
    suffix: str, line: str, new: str | None, edited: str
) -> None:
    end = "\r\n" if "\r\n" in line else "\n"
    above, below = f"# before{end}", f"# einops after{end}"
    before = above + line + below
    second = Edit(suffix, 2, "einops", "einops")
    assert with_line(before, second, new) == above + edited + below
    for number in (1, 3, 4):
        other = Edit(suffix, number, "einops", "einops")
        with pytest.raises(ValueError, match=r"line|have"):
            with_line(before, other, new)


def test_a_line_is_appended_in_the_ends_of_the_file() -> None:
    assert appended("", "einops") == "einops\n"
    assert appended("tqdm", "einops") == "tqdm\neinops\n"
    assert appended("tqdm\r\n", "einops") == "tqdm\r\neinops\r\n"


@pytest.mark.parametrize(
    ("last", "requirements"),
    [
        ("tqdm \\", ["tqdm", "einops"]),
        ("tqdm \\\n", ["tqdm", "einops"]),
        ("tqdm \\ # why\n", ["tqdm", "einops"]),
        ("#a\\\n", ["einops"]),
        ("\n", ["einops"]),
    ],
)
def test_a_line_is_appended_after_one_that_goes_on(
    tmp_path: Path, last: str, requirements: list[str]
) -> None:
    text = appended(last, "einops")
    (tmp_path / "r.txt").write_text(text, encoding="utf-8")
    files = RequirementFiles(tmp_path)
    files.add("r.txt")
    assert files.requirements == requirements
    assert not files.faults


def test_a_comment_at_the_begin_of_a_line_never_goes_on() -> None:
    edit = Edit(".txt", 2, "einops", "einops")
    assert with_line("#why \\\neinops\n", edit, "einops<2") == "#why \\\neinops<2\n"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    (tmp_path / "requirements.txt").write_text(REQUIREMENTS)
    (tmp_path / "more.txt").write_text("-c limits.txt\nscipy\n")
    (tmp_path / "limits.txt").write_text("protobuf==5.0\nscipy<2 # slow\n")
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "environment.yml").write_text(CONDA)
    path = tmp_path / "envs" / "thing.toml"
    path.parent.mkdir()
    return refer(path, "requirements.txt")


def refer(path: Path, *files: str) -> Path:
    text = SPEC.replace("FILES", json.dumps(files))
    path.write_text(text)
    return path


def beside(spec: Path, name: str) -> Path:
    """Return a file in the root of the spec's project."""
    return spec.parents[1] / name


def shared(spec: Path, text: str) -> Path:
    """Write the table that all targets of the project extend."""
    base = spec.parent / "base" / "project.toml"
    base.parent.mkdir()
    base.write_text(text)
    return base


def edited(path: Path, *requirements: str, **words: bool) -> tuple[str, str]:
    """Add requirements; return the file that changed, and its text."""
    root = path.parents[1]
    before = contents(root)
    add(path, Words(requirements, **words))
    changed = []
    for file, content in before.items():
        if file.read_bytes() != content:
            changed.append(file)
    (only,) = changed
    return only.relative_to(root).as_posix(), only.read_text()


def test_the_line_of_a_requirement_file_is_replaced(spec: Path) -> None:
    start, end = REQUIREMENTS.index("einops"), REQUIREMENTS.index("-r ")
    pinned = REQUIREMENTS[start:end]
    file, text = edited(spec, "Einops>=0.8")
    assert file == "requirements.txt"
    assert text == REQUIREMENTS.replace(pinned, "Einops>=0.8  # pinned\n")


def test_a_link_stays_one_and_its_file_is_edited(spec: Path) -> None:
    named = beside(spec, "requirements.txt")
    real = named.rename(named.with_name("real.txt"))
    real.chmod(0o664)
    named.symlink_to("real.txt")
    add(spec, Words(["timm"]))
    assert named.is_symlink()
    assert real.read_text() == REQUIREMENTS + "timm\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o664


def test_no_comment_of_a_pyproject_is_taken_for_a_requirement(spec: Path) -> None:
    refer(spec, "pyproject.toml")
    path = beside(spec, "pyproject.toml")
    hidden = PYPROJECT.replace('    "last",', '    # "last>=1",\n    "last>=1",')
    path.write_text(hidden)
    _, text = edited(spec, "last==2")
    assert text == hidden.replace('    "last>=1"', '    "last==2"')
    remove(spec, Words(["last"]))
    assert path.read_text() == PYPROJECT.replace('    "last",', '    # "last>=1",')


def test_what_one_target_did_without_is_added_again(spec: Path) -> None:
    text = spec.read_text()
    remove(spec, Words(["einops"], only_here=True))
    assert 'exclude = ["einops"]' in spec.read_text()
    add(spec, Words(["einops>=0.8"]))
    assert "exclude" not in spec.read_text()
    requirements = beside(spec, "requirements.txt").read_text()
    assert requirements.count("einops") == 1
    assert "\neinops>=0.8  # pinned\n" in requirements
    assert spec.read_text() == text


def test_what_another_spec_excludes_is_not_added(spec: Path) -> None:
    shared(spec, '[pip]\nexclude = ["einops"]\n')
    spec.write_text('extends = ["base/project", "cpu-linux"]\n')
    with pytest.raises(UsageError, match="extends excludes einops"):
        add(spec, Words(["einops"]))


def test_what_no_file_has_follows_in_the_first(spec: Path) -> None:
    end = ("requirements.txt", REQUIREMENTS + "timm\n")
    assert edited(spec, "timm") == end
    refer(spec, "environment.yml", "requirements.txt")
    remove(spec, Words(["timm"]))
    assert edited(spec, "timm") == end


def test_an_included_file_and_a_limit_are_edited_where_they_stand(spec: Path) -> None:
    add(spec, Words(["scipy==2.1"]))
    included = beside(spec, "more.txt")
    assert included.read_text() == "-c limits.txt\nscipy==2.1\n"
    limits = beside(spec, "limits.txt")
    assert limits.read_text() == "protobuf==5.0\nscipy==2.1 # slow\n"
    add(spec, Words(["protobuf<5"]))  # limited, and asked for by nobody yet
    assert limits.read_text().startswith("protobuf<5\n")
    requirements = beside(spec, "requirements.txt")
    assert requirements.read_text() == REQUIREMENTS + "protobuf<5\n"
    add(spec, Words(["protobuf"]))  # any version that the limit of the same text allows
    assert limits.read_text().startswith("protobuf<5\n")
    assert requirements.read_text() == REQUIREMENTS + "protobuf\n"


def test_of_several_lines_that_of_the_marker_is_replaced(spec: Path) -> None:
    asked = 'tqdm==4.60 ; python_version < "3.12"'
    old = 'tqdm ; python_version < "3.12"'
    replaced = REQUIREMENTS.replace(old, asked)
    _, text = edited(spec, asked)
    assert text == replaced
    _, text = edited(spec, "tqdm<5")
    assert text == replaced + "tqdm<5\n"  # all of them hold
    remove(spec, Words(["tqdm"]))
    before, _, _ = REQUIREMENTS.partition("tqdm")
    assert beside(spec, "requirements.txt").read_text() == before


def test_pyproject_keeps_its_layout_and_a_marker(spec: Path) -> None:
    refer(spec, "pyproject.toml[audio]")
    marked = "'einops>=0.8 ; python_version > \"3\"'"
    text = PYPROJECT.replace("'einops ; python_version > \"3\"'", marked)
    assert edited(spec, "einops>=0.8") == ("pyproject.toml", text)
    text = text.replace("librosa>=0.10", "librosa>=0.11")
    assert edited(spec, "librosa>=0.11") == ("pyproject.toml", text)
    text = text.replace('    "last",\n', '    "last",\n    "timm",\n')
    assert edited(spec, "timm") == ("pyproject.toml", text)
    remove(spec, Words(["timm", "numpy", "librosa"]))
    text = beside(spec, "pyproject.toml").read_text()
    gone = PYPROJECT.replace('    "numpy>=1.26", # a reason\n', "")
    gone = gone.replace(', "librosa>=0.10"', "")
    assert text == gone.replace("'einops ; python_version > \"3\"'", marked)


def test_what_only_a_group_requires_gets_no_dependencies(spec: Path) -> None:
    refer(spec, "pyproject.toml:dev")
    path = beside(spec, "pyproject.toml")
    lines = ["tqdm ; python_version < '3.12'", "tqdm>=4.66 ; python_version >= '3.12'"]
    path.write_text(f"[dependency-groups]\ndev = {lines}\n")
    file, _ = edited(spec, "tqdm<5")  # neither of the two, and there is no package
    assert file == "envs/thing.toml"


def test_environment_yml_is_edited_where_it_has_the_line(spec: Path) -> None:
    refer(spec, "environment.yml")
    text = CONDA.replace('"tqdm>=4"', "tqdm>=4.66")
    assert edited(spec, "tqdm>=4.66") == ("environment.yml", text)
    # Nobody writes a new line into it, and there is no other file.
    file, _ = edited(spec, "timm")
    assert file == "envs/thing.toml"


@pytest.mark.parametrize(
    ("requirement", "only_here"), [("own>=2", False), ("timm", True)]
)
def test_the_spec_has_its_own_and_what_is_for_it_alone(
    spec: Path, requirement: str, only_here: bool
) -> None:
    file, _ = edited(spec, requirement, only_here=only_here)
    assert file == "envs/thing.toml"
    pip = load_spec(spec).pip
    assert requirement in pip.requirements


def test_a_target_can_do_without_what_a_file_asks_for(spec: Path) -> None:
    words = Words(["numpy"], only_here=True)
    remove(spec, words)
    assert load_spec(spec).pip.exclude == ("numpy",)
    assert beside(spec, "requirements.txt").read_text() == REQUIREMENTS
    add(spec, words)
    assert load_spec(spec).pip.exclude == ()


def test_what_the_projects_shared_file_has_is_edited_there(spec: Path) -> None:
    shared(spec, '[pip]\nrequirements = ["kornia"] # all\nfiles = ["more.txt"]\n')
    spec.write_text('extends = ["base/project", "cpu-linux"]\n')
    file, text = edited(spec, "kornia>=1")
    assert file == "envs/base/project.toml"
    assert '["kornia>=1"] # all' in text
    # What a shipped spec asks for is replaced by the target's own.
    file, _ = edited(spec, "transformers")
    assert file == "envs/thing.toml"
    file, _ = edited(spec, "timm")
    assert file == "more.txt"


def test_what_the_projects_shared_file_has_is_removed_there(spec: Path) -> None:
    """As it is added there; what only one target is to do without is dropped by its spec."""
    both = '[pip]\nrequirements = [\n    "kornia",  # all\n    "timm",\n]\n'
    base = shared(spec, both)
    own = (
        'extends = ["base/project", "cpu-linux"]\n[pip]\nrequirements = ["kornia>=1"]\n'
    )
    spec.write_text(own)
    remove(spec, Words(["timm"], only_here=True))
    assert load_spec(spec).pip.drop == ("timm",)
    assert base.read_text() == both
    spec.write_text(own)
    remove(spec, Words(["kornia", "timm"]))  # the spec's own line hides the shared one
    assert base.read_text() == "[pip]\nrequirements = [\n]\n"
    assert "drop" not in spec.read_text()
    remove(spec, Words(["transformers"]))  # of the shipped one
    assert load_spec(spec).pip.drop == ("transformers",)


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-8", codecs.BOM_UTF8),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
    ],
)
def test_a_file_keeps_its_encoding(spec: Path, encoding: str, mark: bytes) -> None:
    """As PowerShell writes it, and pip reads it."""
    path = beside(spec, "requirements.txt")
    text = "numpy\r\ntqdm # ünder\r\n"
    path.write_bytes(mark + text.encode(encoding))
    add(spec, Words(["numpy>=2", "einops"]))
    text = "numpy>=2\r\ntqdm # ünder\r\neinops\r\n"
    assert path.read_bytes() == mark + text.encode(encoding)
    remove(spec, Words(["numpy", "einops"]))
    text = "tqdm # ünder\r\n"
    assert path.read_bytes() == mark + text.encode(encoding)


def test_own_packages_and_files_stand_where_the_others_do(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = spec.parents[1]
    monkeypatch.chdir(root)
    base = shared(spec, '[pip]\nfiles = ["more.txt"]\n')
    spec.write_text('extends = ["base/project", "cpu-linux"]\n')
    package = root / "libs" / "ours"
    package.mkdir(parents=True)
    shutil.copy(root / "pyproject.toml", package)
    file = root / "requirements.txt"
    both = Words(folders=[package], files=[file], editable=True)
    add(spec, both)
    again = Words(folders=[package], editable=True)
    add(spec, again)
    pip = load_spec(spec).pip
    assert pip.local == ("-e libs/ours",)
    assert pip.files == ("more.txt", "requirements.txt")
    assert "local" in base.read_text()
    removed = Words(folders=[package], files=[file])
    require_removable([spec], removed)
    with pytest.raises(UsageError, match="does not require absent"):
        require_removable([spec], Words(["absent"]))
    remove(spec, removed)
    assert base.read_text() == '[pip]\nfiles = ["more.txt"]\n'
    add(spec, Words(folders=[package]))
    assert load_spec(spec).pip.local == ("libs/ours",)
    remove(spec, Words(folders=[package]))
    no_package = Words(folders=[root / "envs"])
    with pytest.raises(UsageError, match="is no package"):
        add(spec, no_package)
    outside = Words(files=[root.parent / "x.txt"])
    with pytest.raises(UsageError, match="is outside the project"):
        add(spec, outside)
    absent = Words(folders=[package])
    with pytest.raises(UsageError, match="has no `local`"):
        require_removable([spec], absent)


@pytest.mark.machine
def test_all_who_read_the_file_are_locked_and_built_or_none(
    shop: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two targets read it; the second one cannot have what the first one can."""
    project = shop.project
    file = project.root / "requirements.txt"
    file.write_text("alpha  # the first\n")
    first = project.specs / f"{TARGET}.toml"
    second = project.specs / "other.toml"
    reference = '["beta"]\nfiles = ["requirements.txt"]'
    text = first.read_text().replace('["alpha"]', reference)
    first.write_text(text)
    second.write_text(text)
    for name in (TARGET, "other"):
        assert call(shop, "lock", target=name) == Exit.OK
    assert call(shop, "build") == Exit.OK
    capsys.readouterr()
    assert call(shop, "add", "gamma") == Exit.OK
    assert "· edited requirements.txt\n" in capsys.readouterr().err
    assert file.read_text() == "alpha  # the first\ngamma\n"
    for name in (TARGET, "other"):
        lock = read_lock(project.lock(name))
        assert "gamma" in lock.versions
    assert shop.says("import gamma; print(gamma.version)") == "1.0"
    assert not project.environments("other").exists()  # it was not built before
    assert call(shop, "lock", "--check") == Exit.OK
    limited = text.replace("[pip]\n", '[pip]\nconstraints = ["gamma==1"]\n')
    second.write_text(limited)
    assert call(shop, "lock", target="other") == Exit.OK
    before = {}
    for path in project.root.rglob("*.t*t"):
        if path.is_file():
            before[path] = path.read_bytes()
    assert before
    assert call(shop, "add", "gamma==9") == Exit.USAGE
    for path, content in before.items():
        assert path.read_bytes() == content
    assert "put back as before" in capsys.readouterr().err
    assert call(shop, "remove", "gamma") == Exit.OK
    assert file.read_text() == "alpha  # the first\n"
    for name in (TARGET, "other"):
        lock = read_lock(project.lock(name))
        assert "gamma" not in lock.versions
