"""Which files of a repository ``init`` refers to, and what it says of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from provision.cli.main import main
from provision.commands.init import Choice, initialize
from provision.core.errors import UsageError
from provision.core.project import Project
from tests.commands.repositories import init, pip, said, trainer, write
from tests.lab import Silent

if TYPE_CHECKING:
    from pathlib import Path


def test_a_python_that_is_no_specifier_hides_no_dependency(tmp_path: Path) -> None:
    text = '[project]\nrequires-python = "^3.10"\ndependencies = ["einops"]\n'
    write(tmp_path, "pyproject.toml", text)
    result = init(tmp_path, "arc-linux")
    assert "einops" in pip(tmp_path, "arc-linux").requirements
    assert any("^3.10" in line for line in result.to_do)


def test_one_of_several_sources_is_not_chosen(tmp_path: Path) -> None:
    write(tmp_path, "requirements-dev.txt", "ruff\n")
    write(
        tmp_path, "pyproject.toml", "[project]\nname = 'a'\ndependencies = ['einops']\n"
    )
    assert [text.split(":")[0] for text in init(tmp_path).to_do] == [
        "requirements-dev.txt"
    ]
    assert pip(tmp_path).files == ("pyproject.toml",)
    assert "ruff" not in pip(tmp_path).requirements


def test_files_are_named_in_folders_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "requirements.txt", "einops\n")
    write(tmp_path, "service/requirements.txt", "tqdm\n")
    write(tmp_path, "requirements/train.txt", "flash-attn\n")
    result = init(tmp_path, "arc-linux", files=("requirements/train.txt",))
    assert pip(tmp_path, "arc-linux").files == ("requirements/train.txt",)
    assert pip(tmp_path, "arc-linux").exclude == ("flash-attn",)
    (left,) = result.to_do
    assert "requirements.txt, service/requirements.txt: not used" in left
    # As a shell completes it; what is common stays as it is, so the new spec says it.
    monkeypatch.chdir(tmp_path / "service")
    init(tmp_path, "cpu-linux", files=("requirements.txt",))
    assert said(tmp_path, "cpu-linux")["files"] == ["service/requirements.txt"]
    assert said(tmp_path, "base/project") == {"files": ["requirements/train.txt"]}
    with pytest.raises(UsageError, match="there is no file 'requirements/trian"):
        init(tmp_path, "cpu-windows", files=("requirements/trian.txt",))
    assert not (tmp_path / "envs" / "cpu-windows.toml").exists()


def test_a_file_or_extra_named_after_an_accelerator_is_of_its_targets(
    tmp_path: Path,
) -> None:
    text = """
        [project]
        name = "app"
        dependencies = ["einops"]
        [project.optional-dependencies]
        cpu = ["tqdm"]
        xpu = ["tqdm<5"]
        web = ["flask"]
    """
    write(tmp_path, "pyproject.toml", text)
    for name in ("cpu_only", "xpu", "common"):
        write(tmp_path, f"requirements/{name}.txt", "rich\n")
    files = ("requirements/cpu_only.txt", "requirements/xpu.txt")
    choice = Choice((*files, "requirements/common.txt"), ("web", "cpu", "xpu"))
    initialize(Project(tmp_path), ["cpu-linux", "arc-linux"], Silent(), choice)
    common = ["requirements/common.txt", "pyproject.toml[web]"]
    assert said(tmp_path, "base/project")["files"] == common
    of_cpu = ["requirements/cpu_only.txt", "pyproject.toml[cpu]"]
    assert said(tmp_path, "cpu-linux")["files"] == of_cpu
    of_xpu = ["requirements/xpu.txt", "pyproject.toml[xpu]"]
    assert said(tmp_path, "arc-linux")["files"] == of_xpu
    assert "tqdm<5" not in pip(tmp_path, "cpu-linux").requirements
    # A file for none of the targets was named for the one that there is.
    choice = Choice(("requirements/xpu.txt",))
    initialize(Project(tmp_path), ["cuda-linux"], Silent(), choice)
    assert said(tmp_path, "cuda-linux")["files"] == ["requirements/xpu.txt"]


def test_the_only_file_of_a_repository_is_found_in_a_folder(tmp_path: Path) -> None:
    write(tmp_path, "service/requirements.txt", "einops\n")
    for folder in (".venv", "node_modules", "a/b/c"):
        write(tmp_path, f"{folder}/requirements.txt", "tqdm\n")
    write(tmp_path, "venv/pyvenv.cfg", "")
    write(tmp_path, "venv/requirements.txt", "tqdm\n")
    result = init(tmp_path)
    assert pip(tmp_path).files == ("service/requirements.txt",)
    assert result.to_do == ()


def test_other_kinds_of_files_in_folders_are_found_too(tmp_path: Path) -> None:
    dependencies = "[project]\nname = 'a'\ndependencies = ['einops']\n"
    write(tmp_path, "pyproject.toml", "[tool.ruff]\nline-length = 80\n")
    write(tmp_path, "service/pyproject.toml", dependencies)
    assert init(tmp_path).to_do == ()
    assert pip(tmp_path).files == ("service/pyproject.toml",)
    assert "einops" in pip(tmp_path).requirements
    two = tmp_path / "two"
    write(two, "a/pyproject.toml", dependencies)
    write(two, "b/environment-gpu.yml", "dependencies:\n- pip: [tqdm]\n")
    write(two, "c/pyproject.toml", "[tool.ruff]\nline-length = 80\n")
    found = init(two)
    assert found.empty
    assert found.to_do[:2] == (
        "a/: pyproject.toml: not used",
        "b/: environment-gpu.yml: not used",
    )


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("setup.py", "from setuptools import setup\nsetup(name='a')\n", True),
        ("setup.cfg", "[metadata]\nname = a\n", True),
        ("setup.cfg", "[pycodestyle]\nmax-line-length = 120\n", False),
    ],
)
def test_a_package_that_only_its_build_describes_is_told(
    tmp_path: Path, name: str, text: str, *, told: bool
) -> None:
    write(tmp_path, name, text)
    write(tmp_path, "pyproject.toml", "[build-system]\nrequires = ['setuptools']\n")
    result = init(tmp_path)
    lines = [line for line in result.to_do if line.startswith(f"{name}: ")]
    assert bool(lines) == told
    for line in lines:
        assert '`local = ["-e ."]` in envs/base/project.toml' in line
    write(tmp_path, "requirements.txt", "-e .\n")
    (tmp_path / "envs" / "base" / "project.toml").unlink()
    assert init(tmp_path, "arc-linux").to_do == ()  # which says it itself


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "tool = 3\n"),
        ("pyproject.toml", "[project\n"),
        ("environment.yml", "dependencies: [\n"),
    ],
)
def test_a_damaged_file_is_listed_and_not_raised(
    tmp_path: Path, name: str, text: str
) -> None:
    write(tmp_path, name, text)
    write(tmp_path, "requirements.txt", "einops\n")
    result = init(tmp_path)
    (line,) = result.to_do
    assert line.startswith(f"{name}: cannot be read: ")
    assert "einops" in pip(tmp_path).requirements


def test_a_file_with_a_fault_is_referred_to_and_the_fault_is_told(
    tmp_path: Path,
) -> None:
    write(tmp_path, "requirements.txt", "einops\n-r https://example.org/more.txt\n")
    result = init(tmp_path)
    fault = "requirements.txt, line 2: '-r https://example.org/more.txt' is on a server"
    assert any(text.startswith(fault) for text in result.to_do)
    assert said(tmp_path, "base/project") == {"files": ["requirements.txt"]}


def test_what_has_no_place_is_listed_with_file_and_line(tmp_path: Path) -> None:
    repository = trainer(tmp_path)
    write(repository, "requirements-dev.txt", "pytest\n")
    result = init(repository)
    left = result.to_do
    assert not result.empty
    assert any(
        text.startswith("requirements.txt, line 2: --extra-index-url") for text in left
    )
    assert any("requirements-dev.txt" in text for text in left)
    for text in left:
        assert "extra.txt" not in text


CHAT = """
    [project]
    name = "chat"
    dependencies = ["torch==2.7.1", "Ours>=1", "beside", "far", "gone ; sys_platform=='win32'"]
    [project.optional-dependencies]
    web = ["flask"]
    audio = ["soundfile"]
    [dependency-groups]
    dev = ["ruff"]
    [tool.uv.sources]
    ours = { git = "https://example.org/ours.git", tag = "v1" }
    beside = { path = "libs/beside", editable = true }
    far = { url = "https://example.org/far-1.0-py3-none-any.whl" }
    torch = { index = "mine" }
    [[tool.uv.index]]
    name = "mine"
    url = "https://example.org/simple"
"""


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    write(tmp_path, "pyproject.toml", CHAT)
    package = "[build-system]\nrequires = ['hatchling']\n[project]\nname = 'beside'\n"
    write(tmp_path, "libs/beside/pyproject.toml", package)
    return tmp_path


def test_a_pyproject_is_referred_to_with_its_sources(chat: Path) -> None:
    left = "\n".join(init(chat).to_do)
    assert said(chat, "base/project") == {"files": ["pyproject.toml"]}
    assert said(chat, "cpu-linux")["requirements"] == ["torch==2.7.1+cpu"]
    found = pip(chat)
    ours = "Ours@ git+https://example.org/ours.git@v1"
    assert ours in [text.replace(" @", "@", 1) for text in found.requirements]
    assert any(text.endswith("far-1.0-py3-none-any.whl") for text in found.requirements)
    assert found.local == ("-e libs/beside",)
    for text in found.requirements:
        assert not text.startswith(("Ours>", "beside"))  # of a stranger
    for what in (
        "extras not used: web, audio",
        "groups not used: dev",
        "[[tool.uv.index]] mine: ignored",
    ):
        assert what in left
    assert "cannot be followed" not in left


def test_extras_and_groups_are_taken_where_they_are_named(
    chat: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["init", "--project", str(chat), "--target", "cpu-linux"]
    assert main([*words, "--extra", "gui"]) == 2
    assert "has no extra 'gui'; it has web, audio" in capsys.readouterr().err
    assert main([*words, "--group", "test"]) == 2
    assert "has no dependency group 'test'" in capsys.readouterr().err
    assert not (chat / "envs").exists()
    assert main([*words, "--extra", "audio", "--group", "dev"]) == 0
    assert "extras not used: web;" in capsys.readouterr().out
    files = ["pyproject.toml[audio]", "pyproject.toml:dev"]
    assert said(chat, "base/project")["files"] == files
    assert {"soundfile", "ruff"} <= {*pip(chat).requirements}


def test_a_source_that_cannot_be_followed_is_no_plain_name(tmp_path: Path) -> None:
    text = """
        [project]
        name = "app"
        dependencies = ["core"]
        [tool.uv.sources]
        core = { index = "mine" }
    """
    write(tmp_path, "pyproject.toml", text)
    (left,) = init(tmp_path, "cpu-linux", "arc-linux").to_do
    assert left.startswith("pyproject.toml, line 4: core: its source")
    assert '`[pip.index] CATALOG = ["core"]`' in left


@pytest.mark.parametrize(
    ("more", "local"),
    [
        ("[build-system]\nrequires = ['hatchling']", ["-e ."]),
        ("", None),
        ("[build-system]\nrequires = ['hatchling']\n[tool.uv]\npackage = false", None),
        ("[build-system]\nrequires = ['cmake', 'torch==2.5.1']", None),
    ],
)
def test_what_is_a_package_and_can_be_built_is_installed(
    tmp_path: Path, more: str, local: list[str] | None
) -> None:
    text = (
        f"[project]\nname = 'app'\nversion = '1'\ndependencies = ['einops']\n{more}\n"
    )
    write(tmp_path, "pyproject.toml", text)
    result = init(tmp_path)
    assert said(tmp_path, "base/project").get("local") == local
    told = [line for line in result.to_do if '`local = ["-e ."]`' in line]
    assert bool(told) == ("cmake" in more)
    base = tmp_path / "envs" / "base" / "project.toml"
    base.write_text('[pip]\nfiles = ["pyproject.toml"]\n', encoding="utf-8")
    init(tmp_path, "arc-linux")
    assert pip(tmp_path, "arc-linux").local == ()  # as the common file says
