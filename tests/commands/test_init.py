"""``init``: what becomes of real-looking repositories, and that nothing of theirs is lost."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

from provision.cli.main import main
from provision.commands.init import Initialized, initialize
from provision.core.errors import UsageError
from provision.core.project import Project, shipped
from provision.resolver.resolver import offered
from provision.spec.reader import load_target

if TYPE_CHECKING:
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


def init(root: Path, *names: str) -> Initialized:
    return initialize(Project(root), names or ("cpu-linux",))


def pip(root: Path, name: str = "cpu-linux") -> Pip:
    return load_target(root / "envs", name).pip


def write(root: Path, name: str, text: str) -> None:
    (root / name).write_text(textwrap.dedent(text), encoding="utf-8")


def test_torch_and_its_companions_are_chosen_per_accelerator(repository: Path) -> None:
    result = init(repository, "cpu-linux", "arc-windows", "cuda-linux")
    xpu = pip(repository, "arc-windows")
    assert {"torch==2.8.0+xpu", "torchvision==0.23.0+xpu", "torchaudio==2.8.0+xpu"} <= {
        *xpu.requirements
    }
    assert xpu.index_of("torchaudio") == "pytorch-xpu"
    cpu = pip(repository)
    assert {"torch==2.8.0+cpu", "torchvision==0.23.0+cpu"} <= {*cpu.requirements}
    assert cpu.index_of("torchvision") == "pytorch-cpu"
    assert {"torchaudio", "xformers", "triton"} <= {*cpu.drop}
    assert not [text for text in cpu.requirements if text.startswith("torchaudio")]
    cuda = pip(repository, "cuda-linux")
    # The default index has any release, so both hold what the repository says.
    theirs = {
        "torch==2.8.0",
        "torchvision>=0.16",
        "torchaudio==2.8.0",
        "xformers==0.0.27",
    }
    assert theirs <= {*cuda.requirements}
    own = [
        r
        for r in pip(shipped().root, "cuda-linux").requirements
        if r.startswith("torch")
    ]
    assert len(own) == 2
    assert not {*own} & {*cuda.requirements}
    for found in (xpu, cpu, cuda):
        names = [
            text for text in found.requirements if text.startswith(("nvidia", "triton"))
        ]
        linux_only = 'triton==3.1.0 ; sys_platform == "linux"'
        assert names == (
            [linux_only] if found is xpu else []
        )  # which it is not on Windows
        # 5.* of the target admits 5.1.0, so both hold, and the file can be edited later.
        both = {
            "transformers==5.1.0",
            "transformers==5.*",
            "accelerate>=1.6",
            "accelerate",
        }
        assert both | {"tqdm", "einops>=0.7"} <= {*found.requirements}
        assert found.constraints == (
            "numpy<3",
        )  # that of torch gives way with its line
    said = {target.name: target for target in result.targets}
    replaced = f"line 3: torch==2.8.0 replaces {own[0]}"
    assert any(replaced in text for text in said["cuda-linux"].done)
    assert any("line 6: xformers==0.0.27" in text for text in said["cpu-linux"].left)
    assert not any(
        "xformers" in text for text in said["arc-windows"].left
    )  # its marker


def test_a_version_that_the_target_does_not_allow_replaces_its_own(
    tmp_path: Path,
) -> None:
    write(
        tmp_path,
        "requirements.txt",
        "transformers==4.44.2\nnumpy<2\naccelerate~=0.30\nsafetensors>=0.3\n",
    )
    done = init(tmp_path).targets[0].done
    found = [text for text in pip(tmp_path).requirements if "torch" not in text]
    assert {"transformers==4.44.2", "accelerate~=0.30", "numpy", "numpy<2"} <= {*found}
    assert not {"transformers==5.*", "accelerate>=1.6"} & {*found}
    assert len(done) == 2


def test_a_pin_that_the_target_meets_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "torch>=2\nnumpy\neinops\n")
    result = init(tmp_path)
    text = (tmp_path / "envs" / "cpu-linux.toml").read_text(encoding="utf-8")
    why = "from torch's index, also if only others require them"  # in case that einops does
    index = f'[pip.index] # {why}\npytorch-cpu = ["torchvision"]\n'
    assert (
        text
        == f'extends = "cpu-linux"\n\n[pip]\nfiles = ["requirements.txt"]\n\n{index}'
    )
    assert (result.targets[0].done, result.targets[0].left, result.left) == ((), (), ())
    assert "torch==2.13.0+cpu" in pip(tmp_path).requirements
    assert "torch>=2" not in pip(tmp_path).requirements


def test_another_accelerator_s_build_stands_for_its_release(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "torch==2.8.0+cu128\n")
    init(tmp_path, "arc-linux")
    assert "torch==2.8.0+xpu" in pip(tmp_path, "arc-linux").requirements


@pytest.mark.parametrize(
    "asked", ["torch>=2.11.0,<=2.12.1", "torch~=2.8.0", "torch==2.8.0+cu128"]
)
def test_torch_of_the_default_index_is_within_the_repository_s_limits(
    tmp_path: Path, asked: str
) -> None:
    write(tmp_path, "requirements.txt", f"{asked}\ntorchaudio\n")
    init(tmp_path, "cuda-linux")
    found = pip(tmp_path, "cuda-linux").requirements
    wanted = {*Requirement(asked.removesuffix("+cu128")).specifier}
    torch = [Requirement(text) for text in found if Requirement(text).name == "torch"]
    assert wanted == {each for required in torch for each in required.specifier}
    audio = [
        Requirement(text) for text in found if Requirement(text).name == "torchaudio"
    ]
    assert wanted == {
        each for required in audio for each in required.specifier
    }  # same releases
    assert [text for text in found if text.startswith("torchvision")] == ["torchvision"]


@pytest.mark.parametrize("name", ["arc-linux", "arc-windows"])
def test_what_comes_with_torch_is_of_the_same_index_even_if_others_bring_it(
    tmp_path: Path, name: str
) -> None:
    write(tmp_path, "requirements.txt", "torch>=2.12\ntimm\n")
    init(tmp_path, name)
    found = pip(tmp_path, name)
    newest = {"arc-linux": ("2.13.0", "0.28.0"), "arc-windows": ("2.12.1", "0.27.1")}[
        name
    ]
    assert {f"torch=={newest[0]}+xpu", f"torchvision=={newest[1]}+xpu"} <= {
        *found.requirements
    }
    for each in ("torchvision", "triton-xpu", "pytorch-triton-xpu"):
        assert found.index_of(each) == "pytorch-xpu"
    assert found.index_of("torchaudio") == "default"  # one build for all since 2.9
    served = offered(load_target(tmp_path / "envs", name), Project(tmp_path).catalog)
    assert {"triton-xpu", "torchvision"} <= {
        wheel.name for wheel in served["pytorch-xpu"]
    }


def test_torchaudio_is_of_the_index_of_an_older_torch_and_of_the_default_one_later(
    tmp_path: Path,
) -> None:
    write(tmp_path, "requirements.txt", "torch==2.8.0\npyannote-audio\n")
    init(tmp_path, "arc-linux")
    assert pip(tmp_path, "arc-linux").index_of("torchaudio") == "pytorch-xpu"
    write(tmp_path, "requirements.txt", "torch\ntorchaudio\n")
    init(tmp_path, "cpu-linux")
    found = pip(tmp_path)
    assert "torchaudio<=2.13.0" in found.requirements
    assert found.index_of("torchaudio") == "default"


def test_the_only_requirement_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    write(tmp_path, "requirements_versions.txt", "einops==0.8.0\n")
    write(tmp_path, "pyproject.toml", "[tool.ruff]\nline-length = 100\n")
    result = init(tmp_path)
    assert pip(tmp_path).files == ("requirements_versions.txt",)
    assert "einops==0.8.0" in pip(tmp_path).requirements
    assert (result.left, result.empty, result.targets[0].locked) == ((), False, False)


def test_one_of_several_sources_is_not_chosen(tmp_path: Path) -> None:
    write(tmp_path, "requirements-dev.txt", "ruff\n")
    write(
        tmp_path, "pyproject.toml", "[project]\nname = 'a'\ndependencies = ['einops']\n"
    )
    assert [text.split(":")[0] for text in init(tmp_path).left] == [
        "requirements-dev.txt"
    ]
    assert not pip(tmp_path).files
    assert "ruff" not in pip(tmp_path).requirements


@pytest.mark.parametrize(
    "files",
    [
        {"requirements-a.txt": "einops\n", "requirements-b.txt": "tqdm\n"},
        {"pyproject.toml": "[tool.poetry.dependencies]\ntqdm = '^4'\n"},
    ],
)
def test_nothing_carried_over_does_not_look_like_success(
    tmp_path: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        write(tmp_path, name, text)
    assert main(["init", "--project", str(tmp_path), "--target", "cpu-linux"]) == 1
    said = capsys.readouterr().out
    assert "none of the repository's requirements is in a spec" in said
    assert "next: " not in said
    for name in files:
        assert f"not carried over: {name}" in said


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


def test_a_file_with_a_fault_is_copied_without_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        "requirements.txt",
        "einops\n-r https://example.org/more.txt\nfoo ==\ntqdm>4\n",
    )
    left = init(tmp_path).left
    assert sum(text.startswith("requirements.txt, line ") for text in left) == 2
    found = pip(tmp_path)
    assert (found.files, {"einops", "tqdm>4"} <= {*found.requirements}) == ((), True)


def test_a_pyproject_with_sources_extras_and_groups(tmp_path: Path) -> None:
    write(
        tmp_path,
        "pyproject.toml",
        """
        [project]
        name = "chat"
        dependencies = ["torch==2.7.1", "Ours>=1", "beside", "far", "gone ; sys_platform=='win32'"]
        [project.optional-dependencies]
        web = ["flask"]
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
        """,
    )
    left = "\n".join(init(tmp_path).left)
    found = pip(tmp_path)
    assert "torch==2.7.1+cpu" in found.requirements
    assert "Ours@ git+https://example.org/ours.git@v1" in [
        text.replace(" @", "@", 1) for text in found.requirements
    ]
    assert any(text.endswith("far-1.0-py3-none-any.whl") for text in found.requirements)
    assert found.local == ("-e libs/beside",)
    assert not any(text.startswith("gone") for text in found.requirements)
    for what in ("web", "dev", "[[tool.uv.index]] mine", "sources] torch"):
        assert what in left


def test_a_conda_environment(tmp_path: Path) -> None:
    write(
        tmp_path,
        "environment.yml",
        """
        name: x
        dependencies:
          - python=3.10
          - pip
          - ffmpeg
          - pip:
            - einops==0.7
            - -e .
            - --index-url https://example.org
        """,
    )
    left = init(tmp_path).left
    found = pip(tmp_path)
    assert "einops==0.7" in found.requirements
    assert found.local == ("-e .",)
    assert [text.split(": ")[1] for text in left] == [
        "python=3.10",
        "ffmpeg",
        "'--index-url https://example.org' is not a requirement",
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[project"),
        ("pyproject.toml", "project = 3"),
        ("pyproject.toml", "[tool.poetry]\nname = 'x'"),
        ("pyproject.toml", "[project]\ndependencies = [3]"),
        ("pyproject.toml", "[project]\ndependencies = ['a b']"),
        ("pyproject.toml", "tool.uv.sources = 3\nproject.dependencies = ['a']"),
        ("environment.yml", "dependencies: ["),
        ("environment.yml", "- a"),
        ("environment.yml", "dependencies: [3]"),
        ("environment.yml", "dependencies: [{pip: [3]}]"),
        ("requirements.txt", "\x00 ==="),
    ],
)
def test_a_damaged_file_is_listed_and_the_rest_is_done(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    result = init(tmp_path)
    assert any(line.startswith(name) for line in result.left)
    assert pip(tmp_path).requirements


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


def test_without_requirements_the_shipped_lock_serves(tmp_path: Path) -> None:
    assert init(tmp_path).targets[0].locked
    lock = tmp_path / "lockfiles" / "cpu-linux" / "requirements.txt"
    assert lock.read_bytes() == (shipped().lock("cpu-linux") / lock.name).read_bytes()
    assert main(["lock", "--check", "--project", str(tmp_path)]) == 0


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
