"""``init``: what becomes of real-looking repositories, and that nothing of theirs is lost."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

import pytest

from provision.cli.main import main
from provision.commands.init import Initialized, initialize
from provision.core.errors import UsageError
from provision.core.project import Project, shipped
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
    assert {"torchaudio", "xformers", "triton"} <= {*cpu.exclude}
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
        theirs_too = ["nvidia-cublas-cu12==12.1.3.1", linux_only]
        # Which Windows is not; and what torch itself needs, nobody may exclude.
        assert names == {id(xpu): [linux_only], id(cuda): theirs_too}.get(id(found), [])
        # 5.* of the target admits 5.1.0, so both hold, and the file can be edited later.
        both = {
            "transformers==5.1.0",
            "transformers==5.*",
            "accelerate>=1.6",
            "accelerate",
        }
        assert both | {"tqdm", "einops>=0.7"} <= {*found.requirements}
        assert found.constraints == ("torch<2.9", "numpy<3")
    said = {target.name: target for target in result.targets}
    replaced = f"line 3: torch==2.8.0 replaces {own[0]}"
    assert any(replaced in text for text in said["cuda-linux"].done)
    assert any("line 6: xformers==0.0.27" in text for text in said["cpu-linux"].left)
    assert not any(
        "xformers" in text for text in said["arc-windows"].left
    )  # its marker


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
    assert "torch>=2" in pip(tmp_path).requirements  # both hold


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
    (tmp_path / "libs" / "beside").mkdir(parents=True)
    left = "\n".join(init(tmp_path).left)
    found = pip(tmp_path)
    assert "torch==2.7.1+cpu" in found.requirements
    assert "Ours@ git+https://example.org/ours.git@v1" in [
        text.replace(" @", "@", 1) for text in found.requirements
    ]
    assert any(text.endswith("far-1.0-py3-none-any.whl") for text in found.requirements)
    assert found.local == ("-e libs/beside",)
    assert not any(text.startswith("gone") for text in found.requirements)
    for what in ("web", "dev", "[[tool.uv.index]] mine"):
        assert what in left


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
    said = {
        one.name: one for one in init(tmp_path, "arc-linux", "vllm-xpu-linux").targets
    }
    assert "vllm>=0.30: is of use on cuda only" in said["arc-linux"].left[0]
    assert said["vllm-xpu-linux"].left == ()
    assert "vllm" not in pip(tmp_path, "vllm-xpu-linux").exclude


def test_a_target_without_a_lock_is_begun_without_one(tmp_path: Path) -> None:
    (begun,) = init(tmp_path, "vllm-xpu-linux").targets
    assert begun.spec == "envs/vllm-xpu-linux.toml"
    assert not begun.locked
