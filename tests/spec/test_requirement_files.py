from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

import pytest

from provision.commands.find_files import named_files
from provision.core.errors import SpecError, UsageError
from provision.core.project import shipped
from provision.spec.local import input_digests, local_digest
from provision.spec.own import require_own_packages
from provision.spec.pyproject import own_package
from provision.spec.reader import load_spec
from provision.spec.text import resolved_text

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
    (tmp_path / "needs" / "more.txt").write_text("pandas; python_version > '3.8'\n")
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


def test_no_line_gives_way_and_exclude_leaves_out_whoever_asks(root: Path) -> None:
    spec = root / "envs" / "thing.toml"
    text = SPEC.replace('"einops"', '"torch==2.1", "einops", "zed"')
    spec.write_text(text + 'exclude = ["zed", "Protobuf", "foo", "nobody"]\n')
    target = load_spec(spec)
    assert {"torch==2.1", "torch>=2", "numpy==1.2"} <= {*target.pip.requirements}
    names = {text.partition(" ")[0] for text in target.pip.requirements}
    assert not names & {"zed", "zed[fast]", "foo"}
    assert target.pip.constraints == ()
    assert target.inputs.left_out == {
        "zed": ["the spec", "needs/all.txt, line 10"],
        "protobuf": ["limits.txt, line 1"],
        "foo": ["needs/all.txt, line 11"],
        "nobody": [],
    }
    assert target.digest() != target.with_pip(exclude=()).digest()


def test_a_file_that_limits_can_also_be_asked_for(root: Path) -> None:
    (root / "needs" / "all.txt").write_text("-c more.txt\n")
    spec = root / "envs" / "thing.toml"
    spec.write_text(SPEC.replace('"needs/all.txt"', '"needs/all.txt", "limits.txt"'))
    more = root / "needs" / "more.txt"
    more.write_text("-r ../limits.txt\n--pre\npandas<3\n")
    pip = load_spec(spec).pip
    assert pip.requirements == ("einops", "protobuf<5")
    assert pip.constraints == ("protobuf<5", "pandas<3")
    more.write_text("-e own\n")
    with pytest.raises(SpecError) as caught:
        load_spec(spec)
    assert "line 1: '-e own' constrains no version" in caught.value.evidence


def test_a_text_that_stands_alone_says_what_the_files_say(root: Path) -> None:
    spec = root / "envs" / "thing.toml"
    spec.write_text(SPEC + 'exclude = ["zed"]\n')
    (root / "alone" / "envs").mkdir(parents=True)
    alone = root / "alone" / "envs" / "thing.toml"
    alone.write_text(resolved_text(spec))
    assert load_spec(alone).digest() == load_spec(spec).digest()
    assert load_spec(alone).pip.files == ()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "https://example.org/a/foo-1.0-py3-none-any.whl; sys_platform == 'linux'",
            "foo @ https://example.org/a/foo-1.0-py3-none-any.whl ; sys_platform == 'linux'",
        ),
        (
            "git+https://example.org/acme/Clip.git ;python_version < '3'",
            "Clip @ git+https://example.org/acme/Clip.git ; python_version < '3'",
        ),
        (
            "bar @ https://example.org/b.zip; extra == 'x'",
            "bar @ https://example.org/b.zip ; extra == 'x'",
        ),
        (
            "./lib/foo-1.0-py3-none-any.whl ; sys_platform == 'linux'",
            "foo @ file:lib/foo-1.0-py3-none-any.whl ; sys_platform == 'linux'",
        ),
        ("lib/foo-1.0.tar.gz", "foo @ file:lib/foo-1.0.tar.gz"),
        ("git+https://h/acme/Clip@v1", "Clip @ git+https://h/acme/Clip@v1"),
        ("git+https://h/acme/Clip/", "Clip @ git+https://h/acme/Clip/"),
        ("-e own; sys_platform == 'linux'", "-e own"),
        ("./own ; sys_platform == 'win32'", None),
    ],
)
def test_a_url_or_a_path_has_its_name_and_a_marker_as_for_pip(
    root: Path, line: str, text: str | None
) -> None:
    (root / "needs" / "all.txt").write_text(f"{line}\n")
    pip = load_spec(root / "envs" / "thing.toml").pip
    assert [*pip.requirements, *pip.local] == ["einops", *([text] if text else [])]


def test_an_own_package_beside_the_file_that_names_it(root: Path) -> None:
    (root / "needs" / "lib").mkdir()
    (root / "needs" / "lib" / "setup.py").touch()
    (root / "needs" / "own").mkdir()
    (root / "needs" / "own" / "setup.py").touch()
    (root / "needs" / "all.txt").write_text("-e ./lib[fast]\n-e ./own\n")
    pip = load_spec(root / "envs" / "thing.toml").pip
    assert pip.local == ("-e needs/lib[fast]", "-e ./own")


def test_a_path_of_windows_is_read_on_any_system(root: Path) -> None:
    write = (root / "needs" / "all.txt").write_text
    write("-e .\\own[dev] ; python_version > '3'\n.\\pandas\n-r ..\\more\\b.txt\n")
    (root / "more").mkdir()
    (root / "more" / "b.txt").write_text("scipy\n")
    (root / "pandas" / "setup.py").touch()
    (root / "own" / "pyproject.toml").write_text(
        "[project]\nname = 'own'\noptional-dependencies.dev = ['tqdm']\n"
    )
    spec = root / "envs" / "thing.toml"
    entries = ["needs\\all.txt", "own\\pyproject.toml[dev]"]
    spec.write_text(SPEC.replace('["needs/all.txt"]', str(entries)))
    pip = load_spec(spec).pip
    assert pip.local == ("-e ./own[dev]", "./pandas")
    assert pip.requirements == ("einops", "scipy", "tqdm")
    spec.write_text(SPEC.replace("files =", "local = ['-e .\\own[dev]']\nfiles ="))
    assert load_spec(spec).pip.local[0] == "-e ./own[dev]"


@pytest.mark.parametrize("made", [True, False])
def test_what_is_in_a_submodule_without_files_says_how_to_get_it(
    root: Path, *, made: bool
) -> None:
    project = root / "app"  # below the repository's folder
    (root / ".git").mkdir()
    (project / "envs").mkdir(parents=True)
    if made:
        (project / "third" / "part").mkdir(parents=True)
    (root / ".gitmodules").write_text('[submodule "x"]\n\tpath = app/third/part\n')
    command = "`git submodule update --init third/part`"
    (project / "pyproject.toml").write_text(
        "[project]\nname = 'app'\ndependencies = ['x']\n"
        "[tool.uv.sources]\nx = { path = 'third/part/python' }\n"
    )
    spec = project / "envs" / "thing.toml"
    for entry in ("third/part/needs.txt", "pyproject.toml"):
        spec.write_text(SPEC.replace("needs/all.txt", entry))
        with pytest.raises(SpecError) as caught:
            load_spec(spec)
        assert command in caught.value.evidence
    spec.write_text(SPEC.replace("files =", "local = ['-e third/part/python']\n#"))
    with pytest.raises(SpecError) as caught:
        require_own_packages(load_spec(spec), project)
    assert command in caught.value.evidence
    with pytest.raises(UsageError, match="git submodule update --init third/part"):
        named_files(project, ["third/part/needs.txt"])
    (project / "third" / "part").mkdir(parents=True, exist_ok=True)
    (project / "third" / "part" / "README").touch()  # it was fetched
    with pytest.raises(SpecError) as caught:
        require_own_packages(load_spec(spec), project)
    assert command not in caught.value.evidence


def test_the_name_of_a_file_is_no_name_of_a_package(root: Path) -> None:
    wheel = "mylib-1.0-py3-none-any.whl"
    (root / "needs" / wheel).write_bytes(b"")
    (root / "needs" / "all.txt").write_text(f"{wheel}\nscipy \\\n")
    pip = load_spec(root / "envs" / "thing.toml").pip
    assert f"mylib @ file:needs/{wheel}" in pip.requirements
    assert "scipy" in pip.requirements  # though its line goes on to no other
    assert wheel not in pip.requirements


@pytest.mark.parametrize("fragment", ["", "#sha256=aa"])
def test_an_archive_of_the_project_counts_where_it_is(
    root: Path, fragment: str
) -> None:
    place = "needs/mylib-1.0-py3-none-any.whl"
    text = f"mylib @ file:{place}{fragment}\nzed @ https://h/zed.zip\n"
    (root / "needs" / "all.txt").write_text(text)
    target = load_spec(root / "envs" / "thing.toml")
    digests = set()
    for content in (b"one", b"two"):
        (root / place).write_bytes(content)
        files = input_digests(target, root)
        assert files.keys() == {"needs/all.txt", place}
        digests.add(files[place])
    assert len(digests) == 2
    (root / place).unlink()  # as in an image or a bundle
    assert input_digests(target, root).keys() == {"needs/all.txt"}


def test_an_own_package_is_in_no_image_and_no_bundle(root: Path) -> None:
    assert own_package("-e own[x]", root) == root / "own"
    assert own_package("-e .", root) is None  # which has envs/ and no package
    assert own_package("-e .", shipped().root) is None  # as the folder of a bundle is


def test_the_requirements_that_a_build_reads_count(root: Path) -> None:
    own = root / "own"
    names = "'requirements.txt', 'README.txt', '../requirements.txt'"
    (own / "setup.py").write_bytes(f"# caf\xe9\nread({names})".encode("latin-1"))
    for name in ("requirements.txt", "README.txt", "../requirements.txt"):
        (own / name).write_text("einops\n")
    target = load_spec(root / "envs" / "thing.toml")
    before, files = local_digest(target, root), input_digests(target, root)
    assert "own/requirements.txt" in files
    assert not {"own/README.txt", "requirements.txt"} & files.keys()
    (own / "requirements.txt").write_bytes(b"# caf\xe9\neinops\n")
    assert local_digest(target, root) == before
    (own / "requirements.txt").write_text("einops<1\n")
    assert local_digest(target, root) != before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "pyproject.toml",
            "[tool.setuptools.dynamic]\ndependencies = {file = 'needs/a'}",
        ),
        (
            "pyproject.toml",
            "[tool.setuptools.dynamic.optional-dependencies]\nx = {file = ['b', 'needs/a']}",
        ),
        ("setup.cfg", "[options]\ninstall_requires = file: b, needs/a\n"),
        ("setup.cfg", "[options.extras_require]\nx = file: needs/a\n"),
    ],
)
def test_the_files_that_setuptools_reads_count_whatever_their_names(
    root: Path, name: str, text: str
) -> None:
    own = root / "own"
    (own / "needs").mkdir()
    (own / "needs" / "a").write_text("einops\n")
    (own / name).write_text(text)
    target = load_spec(root / "envs" / "thing.toml")
    before = local_digest(target, root)
    assert "own/needs/a" in input_digests(target, root)
    (own / "needs" / "a").write_text("einops<1\n")
    assert local_digest(target, root) != before
    for broken in ("[", "[tool]\nsetuptools = 3\n", "[options]\ninstall_requires\n"):
        (own / name).write_text(broken)
        local_digest(target, root)  # the build says what is wrong


def test_of_an_own_package_its_requirements_count_and_no_linter(root: Path) -> None:
    target = load_spec(root / "envs" / "thing.toml")
    before, path = local_digest(target, root), root / "own" / "pyproject.toml"
    project = "[project]\nname = 'own'\n"
    path.write_text(f"{project}[tool.ruff]\nline-length = 100\n")
    assert local_digest(target, root) == before
    for more in (
        "dependencies = ['tqdm']\n",
        "[build-system]\nrequires = ['hatchling']\n",
        "[tool.hatch]\nday = 2026-11-01\n",
    ):
        path.write_text(project + more)
        assert local_digest(target, root) != before, more
    path.write_text(f"{project}version = '1'\n")
    before = local_digest(target, root)
    path.write_text("[project]\nversion = '1'\nname = 'own'\n")
    assert local_digest(target, root) == before
    (root / "own" / "setup.cfg").write_text("[options]\nzip_safe = false\n")
    before = local_digest(target, root)
    (root / "own" / "setup.cfg").write_text("[options]\nzip_safe = true\n")
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
        ("-e", "-e names no folder"),
        ("foo @ file://tmp/foo-1.0-py3-none-any.whl", "foo-1.0"),
    ],
)
def test_faults_name_file_and_line_all_at_once(
    root: Path, line: str, said: str
) -> None:
    (root / "needs" / "all.txt").write_text(f"{line}\n%\n")
    with pytest.raises(SpecError, match="2 errors") as error:
        load_spec(root / "envs" / "thing.toml")
    assert said in error.value.evidence
    assert str(root / "needs" / "all.txt") in error.value.evidence


def test_a_file_that_says_what_another_one_says_has_its_own_digest(root: Path) -> None:
    spec = root / "envs" / "thing.toml"
    files = {"needs/all.txt": "-r more.txt\nnumpy\n", "needs/more.txt": "pandas\n"}
    files["other.txt"] = "pandas\n"
    for name, text in files.items():
        (root / name).write_text(text)
    both = '["needs/all.txt", "other.txt"]'
    spec.write_text(SPEC.replace('["needs/all.txt"]', both))

    def digests() -> dict[str, str]:
        return input_digests(load_spec(spec), root)

    before = digests()
    for name in ("needs/more.txt", "other.txt"):
        (root / name).write_text("pandas>=2\n")
        changed = [each for each, digest in digests().items() if digest != before[each]]
        assert changed == [name]
        (root / name).write_text(files[name])
    (root / "needs" / "all.txt").write_text("-c more.txt\nnumpy\n")
    assert digests()["needs/all.txt"] != before["needs/all.txt"]


@pytest.mark.parametrize("name", ["loop.txt", "all.txt"])
def test_a_link_to_itself_is_an_error_of_the_spec(tmp_path: Path, name: str) -> None:
    (tmp_path / "needs").mkdir()
    (tmp_path / "needs" / "all.txt").write_text("-r loop.txt\n", encoding="utf-8")
    (tmp_path / "needs" / "loop.txt").symlink_to("loop.txt")
    spec = tmp_path / "envs" / "thing.toml"
    spec.parent.mkdir()
    spec.write_text(SPEC.replace("all.txt", name), encoding="utf-8")
    with pytest.raises(SpecError, match="the requirement files have 1 error") as caught:
        load_spec(spec)
    assert "loop.txt" in caught.value.evidence
    assert "symbolic links" in caught.value.evidence
