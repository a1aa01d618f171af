"""``init``: what becomes of real-looking repositories, and that nothing of theirs is lost."""

from __future__ import annotations

import json
import sys
import textwrap
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from provision.cli.main import main
from provision.commands.init import Choice, Initialized, initialize
from provision.core.errors import UsageError
from provision.core.program import program_name
from provision.core.project import Project, shipped
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_target

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from provision.spec.model import Pip

TRAINER = """\
# what the trainer needs
--extra-index-url https://download.pytorch.org/whl/cu121
torch==2.8.0  # pinned
torchvision>=0.16
torchaudio
xformers==0.0.27 ; platform_system != "Windows"
transformers==5.1.0
accelerate
einops>=0.7 \\
    --hash=sha256:0000000000000000000000000000000000000000000000000000000000000000
-c limits.txt
-r more/extra.txt
nvidia-cublas-cu12==12.1.3.1
triton==3.1.0 ; sys_platform == "linux"
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "more").mkdir()
    (tmp_path / "requirements.txt").write_text(
        TRAINER, encoding="utf-16"
    )  # as PowerShell does
    (tmp_path / "limits.txt").write_text("torch<2.9\nnumpy<3\n", encoding="utf-8")
    (tmp_path / "more" / "extra.txt").write_text(
        "\nsafetensors\ntqdm\n", encoding="utf-8"
    )
    return tmp_path


def init(root: Path, *names: str, files: tuple[str, ...] = ()) -> Initialized:
    choice = Choice(files=files)
    return initialize(Project(root), names or ("cpu-linux",), choice)


def pip(root: Path, name: str = "cpu-linux") -> Pip:
    return load_target(root / "envs", name).pip


def said(root: Path, name: str) -> dict[str, Any]:
    """What a file of ``envs/`` says itself in ``[pip]``."""
    text = (root / "envs" / f"{name}.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text).get("pip", {})
    assert isinstance(document, dict)
    return document


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")


def test_torch_and_its_companions_are_chosen_per_accelerator(repository: Path) -> None:
    result = init(repository, "cpu-linux", "arc-windows", "cuda-linux")
    xpu = said(repository, "arc-windows")
    assert {"torch==2.8.0+xpu", "torchvision==0.23.0+xpu"} <= {*xpu["requirements"]}
    assert pip(repository, "arc-windows").index_of("torchaudio") == "pytorch-xpu"
    cpu = said(repository, "cpu-linux")
    assert cpu["requirements"] == ["torch==2.8.0+cpu"]
    assert pip(repository).index_of("torchvision") == "pytorch-cpu"
    left = {"torchaudio", "xformers", "triton", "nvidia-cublas-cu12"}
    assert left <= {*cpu["exclude"]}
    # The default index has any release, so the repository's line holds.
    cuda = said(repository, "cuda-linux")
    theirs = {"torch", "torchvision", "torchaudio==2.8.0"}
    assert {*cuda["requirements"]} == theirs
    assert "exclude" not in cuda  # torch is theirs, and so is what goes with it
    found = pip(repository, "cuda-linux").requirements
    assert {"torch==2.8.0", "torchvision>=0.16", "xformers==0.0.27"} <= names_of(found)
    done = {target.name: target.done for target in result.targets}
    replaced = "requirements.txt, line 3: torch==2.8.0 replaces the target's torch=="
    assert any(text.startswith(replaced) for text in done["cuda-linux"])
    left_out = {target.name: target.left for target in result.targets}
    place = "requirements.txt, line 6: xformers: of use on cuda only"
    assert place in left_out["cpu-linux"]
    assert place not in left_out["arc-windows"]  # its marker


def names_of(texts: Iterable[str]) -> set[str]:
    return {text.partition(" ;")[0] for text in texts}


def test_each_requirement_stays_in_the_file_and_all_targets_refer_to_it(
    repository: Path,
) -> None:
    targets = ("cpu-linux", "arc-windows", "cuda-linux")
    init(repository, *targets)
    assert said(repository, "base/project") == {"files": ["requirements.txt"]}
    for name in targets:
        text = (repository / "envs" / f"{name}.toml").read_text(encoding="utf-8")
        assert tomllib.loads(text)["extends"] == ["base/project", name]
        for theirs in ("einops", "tqdm", "transformers", "safetensors"):
            assert theirs not in text
        # 5.* of the target admits 5.1.0, so both hold.
        found = pip(repository, name)
        both = {"transformers==5.1.0", "transformers==5.*", "accelerate"}
        assert both | {"tqdm", "einops>=0.7"} <= {*found.requirements}
        assert found.constraints == ("torch<2.9", "numpy<3")
    extra = repository / "more" / "extra.txt"
    extra.write_text("tqdm<5\n", encoding="utf-8")
    assert "tqdm<5" in pip(repository).requirements


def test_a_pin_that_the_target_meets_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "torch>=2\nnumpy\neinops\n")
    result = init(tmp_path)
    text = (tmp_path / "envs" / "cpu-linux.toml").read_text(encoding="utf-8")
    why = "from torch's index, also if only others require them"  # in case that einops does
    index = f'[pip.index] # {why}\npytorch-cpu = ["torchvision"]\n'
    assert text == f'extends = ["base/project", "cpu-linux"]\n\n{index}'
    assert (result.targets[0].done, result.targets[0].left, result.left) == ((), (), ())
    assert {"torch==2.13.0+cpu", "torch>=2"} <= {*pip(tmp_path).requirements}


def test_what_disagrees_with_every_target_is_dropped_once(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "transformers==4.54.1\n")
    result = init(tmp_path, "cpu-linux", "arc-linux")
    assert said(tmp_path, "base/project")["drop"] == ["transformers"]
    assert "drop" not in said(tmp_path, "arc-linux")
    for name in ("cpu-linux", "arc-linux"):
        asked = [r for r in pip(tmp_path, name).requirements if "transformers" in r]
        assert asked == ["transformers==4.54.1"]
    line = "requirements.txt, line 1: transformers==4.54.1 replaces the target's"
    assert all(line in target.done[0] for target in result.targets)
    (later,) = init(tmp_path, "cuda-linux").targets
    assert "drop" not in said(tmp_path, "cuda-linux")
    assert (later.left, later.done[0].startswith(line)) == ((), True)


def test_a_torch_without_a_build_is_overridden_with_its_reason(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "einops\ntorch==2.4.1\ntorchvision==0.19.1\n")
    init(tmp_path, "arc-linux")
    torch, vision = pip(tmp_path, "arc-linux").overrides
    assert torch.requirement == "torch==2.12.1+xpu"
    place = "requirements.txt, line 2 asks for torch==2.4.1"
    assert torch.reason == f"{place}, of which pytorch-xpu has no build"
    assert vision.requirement == "torchvision==0.27.1+xpu"
    assert "no build for torch 2.12.1+xpu" in vision.reason


def test_a_build_of_another_accelerator_is_overridden(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "torch==2.8.0+cu128\n")
    init(tmp_path, "arc-linux", "cuda-linux")
    (xpu,) = pip(tmp_path, "arc-linux").overrides
    assert xpu.requirement == "torch==2.8.0+xpu"
    assert xpu.reason.endswith("torch==2.8.0+cu128, which is another build")
    (cuda,) = pip(tmp_path, "cuda-linux").overrides
    assert cuda.requirement == "torch==2.8.0"


def test_what_torch_decides_on_gets_the_release_that_it_requires(
    tmp_path: Path,
) -> None:
    text = "torch\ntriton==3.1.0\nnvidia-cublas-cu12==12.1.3.1\n"
    write(tmp_path, "requirements.txt", text)
    init(tmp_path, "arc-linux", "cuda-linux")
    locked = read_lock(shipped().lock("cuda-linux")).versions["triton"]
    cuda = pip(tmp_path, "cuda-linux")
    (triton,) = cuda.overrides
    assert triton.requirement == f"triton=={locked}"
    assert triton.reason.startswith("requirements.txt, line 2 asks for triton==3.1.0")
    assert "nvidia-cublas-cu12" in cuda.exclude  # this torch has CUDA 13
    assert {"triton", "nvidia-cublas-cu12"} <= {*pip(tmp_path, "arc-linux").exclude}


def test_a_wheel_for_cuda_is_left_out_elsewhere_by_its_name(tmp_path: Path) -> None:
    url = "https://example.org/binaries-0.1+cu124-py3-none-linux_x86_64.whl"
    write(tmp_path, "requirements.txt", f'{url} ; sys_platform == "linux"\n')
    result = init(tmp_path, "arc-linux", "cuda-linux", "arc-windows")
    arc, cuda, windows = (target.left for target in result.targets)
    assert arc == ("requirements.txt, line 1: binaries: a build for cuda",)
    assert (cuda, windows) == ((), ())


def test_what_conda_has_of_torch_is_followed_where_a_target_has_it(
    tmp_path: Path,
) -> None:
    text = """\
        channels: [pytorch]
        dependencies:
          - python=3.11.4
          - pytorch::pytorch=2.8.0
          - torchvision==0.23.0=py311_cu121
          - pytorch-cuda=12.1
          - ffmpeg
          - pip
          - pip:
              - einops
    """
    write(tmp_path, "environment.yml", text)
    result = init(tmp_path, "arc-linux", "cuda-linux")
    assert said(tmp_path, "base/project") == {"files": ["environment.yml"]}
    arc = said(tmp_path, "arc-linux")
    assert arc["requirements"] == ["torch==2.8.0+xpu", "torchvision==0.23.0+xpu"]
    cuda = said(tmp_path, "cuda-linux")
    assert cuda["requirements"] == ["torch==2.8.0.*", "torchvision==0.23.0"]
    assert load_target(tmp_path / "envs", "arc-linux").python == "3.11"
    (left,) = result.left
    assert left.startswith("environment.yml: 1 package of conda not used: ffmpeg")


def test_a_torch_of_conda_that_a_target_lacks_is_said_with_its_line(
    tmp_path: Path,
) -> None:
    write(tmp_path, "environment.yml", "dependencies:\n- pytorch=2.4.1\n")
    (target,) = init(tmp_path, "arc-linux").targets
    line = "environment.yml, line 2: torch==2.4.1.*, of which pytorch-xpu has no build"
    assert target.done == (f"{line}: torch==2.12.1+xpu instead",)


@pytest.mark.parametrize(
    ("name", "text", "python"),
    [
        ("pyproject.toml", '[project]\nrequires-python = ">=3.11.4,<3.12"\n', "3.11"),
        ("pyproject.toml", '[project]\nrequires-python = ">=3.10"\n', "3.12"),
        ("environment.yml", "dependencies:\n- python=3.13\n", "3.13"),
        ("requirements.txt", "torch==2.8.0\n", "3.11"),  # no other has a wheel
    ],
)
def test_the_python_is_one_that_the_repository_takes_and_its_torch_has(
    tmp_path: Path, name: str, text: str, python: str
) -> None:
    write(tmp_path, name, text)
    result = init(tmp_path, "arc-linux")
    assert load_target(tmp_path / "envs", "arc-linux").python == python
    said = [line for line in result.targets[0].done if f"Python {python}" in line]
    assert bool(said) == (python != "3.12")


def test_a_python_that_no_target_has_is_told(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", '[project]\nrequires-python = "<3.10"\n')
    result = init(tmp_path, "arc-linux")
    assert load_target(tmp_path / "envs", "arc-linux").python == "3.12"
    assert (
        "requires-python <3.10: no target has such a Python" in result.targets[0].left
    )


def test_a_python_that_is_no_specifier_hides_no_dependency(tmp_path: Path) -> None:
    text = '[project]\nrequires-python = "^3.10"\ndependencies = ["einops"]\n'
    write(tmp_path, "pyproject.toml", text)
    result = init(tmp_path, "arc-linux")
    assert "einops" in pip(tmp_path, "arc-linux").requirements
    assert any("^3.10" in line for line in result.left)


def test_one_of_several_sources_is_not_chosen(tmp_path: Path) -> None:
    write(tmp_path, "requirements-dev.txt", "ruff\n")
    write(
        tmp_path, "pyproject.toml", "[project]\nname = 'a'\ndependencies = ['einops']\n"
    )
    assert [text.split(":")[0] for text in init(tmp_path).left] == [
        "requirements-dev.txt"
    ]
    assert pip(tmp_path).files == ("pyproject.toml",)
    assert "ruff" not in pip(tmp_path).requirements


@pytest.mark.parametrize(
    ("files", "line"),
    [
        (
            {"requirements-a.txt": "einops\n", "requirements-b.txt": "tqdm\n"},
            "requirements-a.txt, requirements-b.txt: not used",
        ),
        (
            {"requirements/full.txt": "einops\n", "requirements/dev.txt": "tqdm\n"},
            "requirements/: dev.txt, full.txt: not used",
        ),
        (
            {"pyproject.toml": "[tool.poetry.dependencies]\ntqdm = '^4'\n"},
            "pyproject.toml [tool.poetry]: not read; `poetry export` writes requirements",
        ),
    ],
)
def test_nothing_carried_over_does_not_look_like_success(
    tmp_path: Path, files: dict[str, str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        write(tmp_path, name, text)
    words = ["init", "--project", str(tmp_path), "--target", "cpu-linux"]
    assert main(words) == 1
    shown = capsys.readouterr().out
    assert "none of the repository's requirements is in a spec" in shown
    assert "Next" not in shown
    assert f"not carried over: {line}" in shown
    # So the command that names one finds nothing in its way.
    assert not (tmp_path / "envs").exists()
    if (name := next(iter(files))).endswith(".txt"):
        assert "`provision init requirements" in shown
        assert main([*words, name]) == 0
        assert said(tmp_path, "base/project") == {"files": [name]}


def test_files_are_named_in_folders_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "requirements.txt", "einops\n")
    write(tmp_path, "service/requirements.txt", "tqdm\n")
    write(tmp_path, "requirements/train.txt", "flash-attn\n")
    result = init(tmp_path, "arc-linux", files=("requirements/train.txt",))
    assert pip(tmp_path, "arc-linux").files == ("requirements/train.txt",)
    assert pip(tmp_path, "arc-linux").exclude == ("flash-attn",)
    (left,) = result.left
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
    initialize(Project(tmp_path), ["cpu-linux", "arc-linux"], choice)
    common = ["requirements/common.txt", "pyproject.toml[web]"]
    assert said(tmp_path, "base/project")["files"] == common
    of_cpu = ["requirements/cpu_only.txt", "pyproject.toml[cpu]"]
    assert said(tmp_path, "cpu-linux")["files"] == of_cpu
    of_xpu = ["requirements/xpu.txt", "pyproject.toml[xpu]"]
    assert said(tmp_path, "arc-linux")["files"] == of_xpu
    assert "tqdm<5" not in pip(tmp_path, "cpu-linux").requirements
    # A file for none of the targets was named for the one that there is.
    choice = Choice(("requirements/xpu.txt",))
    initialize(Project(tmp_path), ["cuda-linux"], choice)
    assert said(tmp_path, "cuda-linux")["files"] == ["requirements/xpu.txt"]


def test_the_only_file_of_a_repository_is_found_in_a_folder(tmp_path: Path) -> None:
    write(tmp_path, "service/requirements.txt", "einops\n")
    for folder in (".venv", "node_modules", "a/b/c"):
        write(tmp_path, f"{folder}/requirements.txt", "tqdm\n")
    write(tmp_path, "venv/pyvenv.cfg", "")
    write(tmp_path, "venv/requirements.txt", "tqdm\n")
    result = init(tmp_path)
    assert pip(tmp_path).files == ("service/requirements.txt",)
    assert result.left == ()


def test_other_kinds_of_files_in_folders_are_found_too(tmp_path: Path) -> None:
    dependencies = "[project]\nname = 'a'\ndependencies = ['einops']\n"
    write(tmp_path, "pyproject.toml", "[tool.ruff]\nline-length = 80\n")
    write(tmp_path, "service/pyproject.toml", dependencies)
    assert init(tmp_path).left == ()
    assert pip(tmp_path).files == ("service/pyproject.toml",)
    assert "einops" in pip(tmp_path).requirements
    two = tmp_path / "two"
    write(two, "a/pyproject.toml", dependencies)
    write(two, "b/environment-gpu.yml", "dependencies:\n- pip: [tqdm]\n")
    write(two, "c/pyproject.toml", "[tool.ruff]\nline-length = 80\n")
    found = init(two)
    assert found.empty
    assert found.left[:2] == (
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
    lines = [line for line in init(tmp_path).left if line.startswith(f"{name}: ")]
    assert bool(lines) == told
    assert all('`local = ["-e ."]` in envs/base/project.toml' in line for line in lines)
    write(tmp_path, "requirements.txt", "-e .\n")
    (tmp_path / "envs" / "base" / "project.toml").unlink()
    assert init(tmp_path, "arc-linux").left == ()  # which says it itself


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
    (line,) = result.left
    assert line.startswith(f"{name}: cannot be read: ")
    assert "einops" in pip(tmp_path).requirements


def test_a_file_with_a_fault_is_referred_to_and_the_fault_is_told(
    tmp_path: Path,
) -> None:
    write(tmp_path, "requirements.txt", "einops\n-r https://example.org/more.txt\n")
    result = init(tmp_path)
    fault = "requirements.txt, line 2: '-r https://example.org/more.txt' is on a server"
    assert any(text.startswith(fault) for text in result.left)
    assert said(tmp_path, "base/project") == {"files": ["requirements.txt"]}


def test_what_to_do_next_works_on_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = "cpu-windows" if sys.platform == "win32" else "cpu-linux"
    words = ["init", "--project", str(tmp_path), "--target", here]
    assert main([*words, "--target", "mps-macos"]) == 0
    program, said = program_name(), capsys.readouterr().out
    assert said.partition("Next")[2].splitlines() == [
        ":",
        f"  {program} build {here}",
        "Next, on a machine of osx-arm64:",
        f"  {program} build mps-macos",
        "or here, for such a machine that has no network:",
        f"  {program} bundle mps-macos -o DIR",
    ]
    other = tmp_path / "other"
    write(other, "requirements.txt", "einops\n")
    words = ["init", "--project", str(other), "--target", here]
    assert main([*words, "--target", "mps-macos"]) == 0
    said = capsys.readouterr().out
    assert said.partition("Next:")[2] == f"\n  {program} lock {here} mps-macos\n"


def test_what_has_no_place_is_listed_with_file_and_line(repository: Path) -> None:
    write(repository, "requirements-dev.txt", "pytest\n")
    result = init(repository)
    left = result.left
    assert not result.empty
    assert any(
        text.startswith("requirements.txt, line 2: --extra-index-url") for text in left
    )
    assert any("requirements-dev.txt" in text for text in left)
    assert not any("extra.txt" in text for text in left)


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
    left = "\n".join(init(chat).left)
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
    (left,) = init(tmp_path, "cpu-linux", "arc-linux").left
    assert left.startswith("pyproject.toml, line 4: core: its source")
    assert '`[pip.index] CATALOG = ["core"]`' in left


def test_the_target_decides_on_the_index_of_torch_s_family(tmp_path: Path) -> None:
    text = """
        [project]
        name = "app"
        dependencies = ["torch==2.8.0", "torchaudio==2.8.0"]
        [tool.uv.sources]
        torch = { index = "cu128" }
        torchaudio = [{ index = "cu128", marker = "sys_platform != 'darwin'" }]
    """
    write(tmp_path, "pyproject.toml", text)
    result = init(tmp_path, "cuda-linux", "arc-linux")
    assert [target.left for target in result.targets] == [(), ()]
    cuda = said(tmp_path, "cuda-linux")["requirements"]
    assert cuda == ["torch", "torchaudio", "torchvision"]  # from the default index
    assert pip(tmp_path, "arc-linux").index_of("torchaudio") == "pytorch-xpu"


@pytest.mark.parametrize(
    ("torch", "added"), [("2.8.0", {"torchaudio==2.8.0"}), ("2.13.0", set())]
)
def test_torchaudio_goes_with_torch_while_it_has_a_build_of_its_own(
    tmp_path: Path, torch: str, added: set[str]
) -> None:
    write(tmp_path, "requirements.txt", f"torch=={torch}\ntorchaudio\n")
    init(tmp_path, "cuda-linux")
    asked = pip(tmp_path, "cuda-linux").requirements
    assert {text for text in asked if "audio" in text} == {"torchaudio", *added}
    assert f"torch=={torch}" in asked


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
    told = [line for line in result.left if '`local = ["-e ."]`' in line]
    assert bool(told) == ("cmake" in more)


def test_nothing_of_the_user_s_is_overwritten(tmp_path: Path) -> None:
    write(tmp_path, ".gitignore", "*.pyc\n/.envs")
    write(tmp_path, "noxfile.py", "import nox\n")
    result = init(tmp_path)
    assert (tmp_path / "noxfile.py").read_text(encoding="utf-8") == "import nox\n"
    assert any("add_sessions" in text for text in result.left)
    ignored = (tmp_path / ".gitignore").read_text(encoding="utf-8")
    assert ignored == "*.pyc\n/.envs\n/.tools/\n/.cache/\n"
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = init(tmp_path)
    assert (again.written, again.targets[0].spec) == ((), None)
    assert before == {
        path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    }


def test_a_wrong_target_and_the_toolkit_s_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no target 'cpu-linx'"):
        init(tmp_path, "cpu-linx")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="toolkit's own folder"):
        initialize(shipped(), ["cpu-linux"])


def test_the_command_works_below_another_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "envs" / "catalog").mkdir(parents=True)
    inner = tmp_path / "inner"
    inner.mkdir()
    words = ["init", "--json", "--project", str(inner), "--target", "cpu-windows"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["result"]["root"] == str(inner)
    assert (inner / "envs" / "cpu-windows.toml").is_file()


def test_vllm_is_of_use_where_the_target_is_vllm_s(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("vllm>=0.30\neinops\n", encoding="utf-8")
    told = {
        one.name: one for one in init(tmp_path, "arc-linux", "vllm-xpu-linux").targets
    }
    assert told["arc-linux"].left[0] == (
        "requirements.txt, line 1: vllm: of use on cuda only"
    )
    assert told["vllm-xpu-linux"].left == ()
    assert "vllm" not in pip(tmp_path, "vllm-xpu-linux").exclude


def test_a_target_without_a_lock_is_begun_without_one(tmp_path: Path) -> None:
    (begun,) = init(tmp_path, "vllm-xpu-linux").targets
    assert begun.spec == "envs/vllm-xpu-linux.toml"
    assert not begun.locked
