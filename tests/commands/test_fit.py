"""What ``init`` writes for one accelerator: builds, exclusions, overrides, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from provision.core.project import shipped
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_target
from tests.commands.repositories import init, pip, said, trainer, write

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def test_torch_and_its_companions_are_chosen_per_accelerator(tmp_path: Path) -> None:
    repository = trainer(tmp_path)
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
    done = {target.name: target for target in result.targets}
    replaced = "requirements.txt, line 3: torch==2.8.0 replaces the target's torch=="
    assert any(text.startswith(replaced) for text in done["cuda-linux"].changed)
    place = "requirements.txt, line 6: xformers: works on cuda only"
    assert place in done["cpu-linux"].left_out
    assert place not in done["arc-windows"].left_out  # its marker


def names_of(texts: Iterable[str]) -> set[str]:
    return {text.partition(" ;")[0] for text in texts}


def test_a_pin_that_the_target_meets_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "torch>=2\nnumpy\neinops\n")
    result = init(tmp_path)
    text = (tmp_path / "envs" / "cpu-linux.toml").read_text(encoding="utf-8")
    extends, _, rest = text.partition(
        " # requirements of this project, and of the shipped "
    )
    assert extends == 'extends = ["base/project", "cpu-linux"]'
    about, lines = "# This installs nothing. If a package requires", rest.splitlines()
    # In case that einops does.
    assert lines[2] == "[pip.index]"
    assert lines[3].startswith(about)
    assert lines[5:] == ['pytorch-cpu = ["torchvision"]']
    assert result.targets[0].changed == ()
    assert result.targets[0].left_out == ()
    assert result.to_do == ()
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
    for target in result.targets:
        assert line in target.changed[0]
    (later,) = init(tmp_path, "cuda-linux").targets
    assert "drop" not in said(tmp_path, "cuda-linux")
    assert later.left_out == ()
    assert later.changed[0].startswith(line)


def test_a_torch_without_a_build_is_overridden_with_its_reason(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "einops\ntorch==2.4.1\ntorchvision==0.19.1\n")
    init(tmp_path, "arc-linux")
    torch, vision = pip(tmp_path, "arc-linux").overrides
    assert torch.requirement == "torch==2.12.1+xpu"
    place = "requirements.txt, line 2 requires torch==2.4.1"
    assert torch.reason == f"{place}, of which pytorch-xpu has no build"
    assert vision.requirement == "torchvision==0.27.1+xpu"
    assert "no build for torch 2.12.1+xpu" in vision.reason


@pytest.mark.parametrize("name", ["arc-linux", "arc-windows", "max-linux"])
def test_the_target_whose_torch_fits_a_repository_is_told(
    tmp_path: Path, name: str
) -> None:
    """As for whisperX: torch 2.8 requires what the newer targets of Intel forbid."""
    write(tmp_path, "requirements.txt", "torch~=2.8.0\ntorchaudio~=2.8.0\n")
    (told,) = init(tmp_path, name).to_do
    command = f"provision init --target {name}-older"
    assert told == (
        f"requirements.txt, line 1: torch~=2.8.0 fits {name}-older with torch 2.8.0+xpu, "
        f"and not {name}: `{command}`"
    )
    assert init(tmp_path, f"{name}-older").to_do == ()
    again = {*pip(tmp_path, f"{name}-older").requirements}
    assert {"torch==2.8.0+xpu", "torchaudio~=2.8.0"} <= again
    (tmp_path / "envs" / f"{name}.toml").unlink()
    assert init(tmp_path, name).to_do == ()  # it is there already


@pytest.mark.parametrize("bound", ["torch>=2.12", "torch==1.13.1"])
def test_no_other_target_is_told_where_this_or_none_fits(
    tmp_path: Path, bound: str
) -> None:
    write(tmp_path, "requirements.txt", f"{bound}\n")
    assert init(tmp_path, "arc-linux", "cuda-linux", "cpu-linux").to_do == ()


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
    assert triton.reason.startswith("requirements.txt, line 2 requires triton==3.1.0")
    assert "nvidia-cublas-cu12" in cuda.exclude  # this torch has CUDA 13
    assert {"triton", "nvidia-cublas-cu12"} <= {*pip(tmp_path, "arc-linux").exclude}


def test_a_wheel_for_cuda_is_left_out_elsewhere_by_its_name(tmp_path: Path) -> None:
    url = "https://example.org/binaries-0.1+cu124-py3-none-linux_x86_64.whl"
    write(tmp_path, "requirements.txt", f'{url} ; sys_platform == "linux"\n')
    result = init(tmp_path, "arc-linux", "cuda-linux", "arc-windows")
    arc, cuda, windows = (target.left_out for target in result.targets)
    assert arc == ("requirements.txt, line 1: binaries: a build for cuda",)
    assert cuda == ()
    assert windows == ()


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
    left, elsewhere = result.to_do
    assert "fits arc-linux-older" in elsewhere
    assert left.startswith("environment.yml: 1 package of conda not used: ffmpeg")


def test_a_torch_of_conda_that_a_target_lacks_is_said_with_its_line(
    tmp_path: Path,
) -> None:
    write(tmp_path, "environment.yml", "dependencies:\n- pytorch=2.4.1\n")
    (target,) = init(tmp_path, "arc-linux").targets
    line = "environment.yml, line 2: torch==2.4.1.*, of which pytorch-xpu has no build"
    assert target.changed == (f"{line}: torch==2.12.1+xpu instead",)


@pytest.mark.parametrize(
    ("name", "text", "python"),
    [
        ("pyproject.toml", '[project]\nrequires-python = ">=3.11.4,<3.12"\n', "3.11"),
        ("pyproject.toml", '[project]\nrequires-python = ">=3.10"\n', "3.12"),
        ("environment.yaml", "dependencies:\n- python=3.13\n", "3.13"),
        ("environment.yml", "dependencies:\n- python >=3.10, < 3.12\n", "3.11"),
        ("environment.yml", "dependencies:\n- python 3.13.1 h1234_0_cpython\n", "3.13"),
        ("requirements.txt", "torch==2.8.0\n", "3.11"),  # no other has a wheel
    ],
)
def test_the_python_is_one_that_the_repository_takes_and_its_torch_has(
    tmp_path: Path, name: str, text: str, python: str
) -> None:
    write(tmp_path, name, text)
    result = init(tmp_path, "arc-linux")
    assert load_target(tmp_path / "envs", "arc-linux").python == python
    said = [line for line in result.targets[0].changed if f"Python {python}" in line]
    assert bool(said) == (python != "3.12")


def test_the_python_holds_for_files_that_are_named_and_for_later_targets(
    tmp_path: Path,
) -> None:
    write(tmp_path, "pyproject.toml", '[project]\nrequires-python = ">=3.13"\n')
    write(tmp_path, "more/requirements.txt", "einops\n")
    init(tmp_path, "arc-linux", files=("more/requirements.txt",))
    init(tmp_path, "cpu-linux")
    for name in ("arc-linux", "cpu-linux"):
        assert load_target(tmp_path / "envs", name).python == "3.13"
    assert pip(tmp_path).files == ("more/requirements.txt",)


def test_a_python_that_no_target_has_is_told(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", '[project]\nrequires-python = "<3.10"\n')
    result = init(tmp_path, "arc-linux")
    assert load_target(tmp_path / "envs", "arc-linux").python == "3.12"
    assert (
        "requires-python <3.10: no target has such a Python"
        in result.targets[0].left_out
    )


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
    assert [target.left_out for target in result.targets] == [(), ()]
    cuda = said(tmp_path, "cuda-linux")["requirements"]
    assert cuda == ["torch", "torchaudio", "torchvision"]  # from the default index
    assert pip(tmp_path, "arc-linux").index_of("torchaudio") == "pytorch-xpu"


def test_vllm_is_of_use_where_the_target_is_vllm_s(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("vllm>=0.30\neinops\n", encoding="utf-8")
    told = {
        one.name: one for one in init(tmp_path, "arc-linux", "vllm-xpu-linux").targets
    }
    assert told["arc-linux"].left_out[0] == (
        "requirements.txt, line 1: vllm: works on cuda only"
    )
    assert told["vllm-xpu-linux"].left_out == ()
    assert "vllm" not in pip(tmp_path, "vllm-xpu-linux").exclude


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
