"""Lock and requirement files of public projects, before and after the commit that mended them.

``repositories/pairs.toml`` names each commit; the files are excerpts, with the facts that count.
"""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.core.errors import SpecError
from provision.doctor.repository import read_repository
from provision.doctor.rules.locks import judge
from provision.host.model import Driver, Gpu, Host

if TYPE_CHECKING:
    from provision.catalog.devices import Devices
    from provision.core.findings import Finding

PAIRS = Path(__file__).with_name("repositories")
TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    (PAIRS / "pairs.toml").read_text("utf-8")
)
LINUX = Host("linux-64", "6.8")
TORCH = "https://download.pytorch.org/whl"


def found(folder: Path, devices: Devices, host: Host = LINUX) -> list[Finding]:
    return judge(read_repository(folder), host, devices)


def codes(folder: Path, devices: Devices, host: Host = LINUX) -> list[str]:
    return [finding.code for finding in found(folder, devices, host) if finding.bad]


def evidence(findings: list[Finding]) -> str:
    lines = []
    for finding in findings:
        lines += finding.evidence
    return "\n".join(lines)


@pytest.mark.parametrize("name", TABLE)
def test_the_fault_is_named_before_its_fix_and_not_after(
    name: str, devices: Devices
) -> None:
    pair = TABLE[name]
    before = found(PAIRS / name / "before", devices)
    after = found(PAIRS / name / "after", devices)
    reported = [finding for finding in before if finding.code == pair["code"]]
    symptoms = {finding.symptom for finding in reported}
    assert pair["says"] in evidence(reported), before
    for finding in reported:
        place = finding.evidence[0].split()[0]
        assert ":" in place  # file and line
    again = [finding for finding in after if finding.code == pair["code"]]
    same = [finding for finding in again if finding.symptom in symptoms]
    assert pair["says"] not in evidence(same)
    # Faults of the same project that a later commit mended, as the next pair shows, or that stand.
    still = {finding.code for finding in after if finding.bad}
    assert sorted(still) == pair.get("still", [])


PYLOCK = f"""
lock-version = "1.0"
created-by = "x"
requires-python = ">=3.11"
[[packages]]
name = "torch"
version = "2.9.1+cu128"
index = "{TORCH}/cu128"
wheels = [{{name = "torch-2.9.1+cu128-cp311-cp311-manylinux_2_28_x86_64.whl", hashes = {{}} }}]
[[packages]]
name = "nvidia-cudnn-cu12"
version = "9.10.2.21"
marker = "sys_platform == 'linux'"
wheels = [{{name = "nvidia_cudnn_cu12-9.10.2.21-py3-none-any.whl", hashes = {{sha256 = "00"}} }}]
"""
POETRY = f"""
[[package]]
name = "torch"
version = "2.3.1+cu121"
optional = false
files = [{{file = "torch-2.3.1+cu121-cp310-cp310-linux_x86_64.whl", hash = "sha256:00"}}]
[package.source]
type = "legacy"
url = "{TORCH}/cu121"
[[package]]
name = "numpy"
version = "1.26.0"
files = [{{file = "numpy-1.26.0-cp310-cp310-linux_x86_64.whl", hash = "sha256:00"}}]
[package.source]
url = "{TORCH}/cu121"
[metadata]
lock-version = "2.1"
python-versions = "^3.10"
"""
HASHED = """--extra-index-url https://download.pytorch.org/whl/cpu
torch==2.4.0+cpu ; sys_platform == "linux" \\
    --hash=sha256:00
torchvision==0.18.0+cpu --hash=sha256:00
"""


BY_URL = f"""torch==2.4.0+cu121
torchvision @ {TORCH}/cpu/torchvision-0.19.0%2Bcpu-cp311-cp311-linux_x86_64.whl
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("pylock.toml", PYLOCK, ["lock-unhashed"]),
        ("pylock.toml", PYLOCK.replace("hashes = {}", 'hashes = {sha256 = "00"}'), []),
        (
            "pylock.gpu.toml",
            PYLOCK.replace("hashes = {}", 'hashes = {sha256 = "00"}').replace(
                "cudnn", "nvtx"
            ),
            ["lock-loses-cuda-libraries"],
        ),
        ("poetry.lock", POETRY, ["lock-loses-cuda-libraries", "index-leaks"]),
        ("requirements.txt", HASHED, ["torch-companion-mismatch"]),
        ("requirements-gpu.txt", HASHED.replace("0.18.0", "0.19.0"), []),
        ("requirements.txt", "torch\ntorchvision>=0.15\n-e .\n", []),
        (
            "requirements.txt",
            "torch==2.13.0\nxformers==0.0.20\n",
            ["torch-companion-mismatch"],
        ),
        ("requirements.txt", "torch==2.0.1\nxformers==0.0.20\n", []),
        (
            "requirements.txt",
            "torch==2.1.0\nxformers==0.0.28.post1\n",
            ["torch-companion-mismatch"],
        ),
        ("requirements.txt", "torch==2.4.1\nxformers==0.0.28.post1\n", []),
        ("requirements.txt", BY_URL, ["torch-companion-mismatch"]),
        ("requirements.txt", BY_URL.replace("+cu121", "+cpu"), []),
        ("requirements.txt", "x @ https://x.example/x.whl\ntorch==2.4.0\n", []),
        ("uv.lock", "version = 1\n", []),
        ("pyproject.toml", "[tool.other]\nx = 1\n", []),
    ],
)
def test_every_format_is_read(
    name: str, text: str, expected: list[str], tmp_path: Path, devices: Devices
) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert codes(tmp_path, devices) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("uv.lock", '[[package]]\nname = "torch"\nsource = 1\n'),
        ("uv.lock", "[[package]]\nname = 3\n"),
        ("poetry.lock", '[[package]]\nname = "torch"\nfiles = ["x"]\n'),
        ("requirements.txt", b"\xff\xfe\x00"),
    ],
)
def test_what_cannot_be_read_is_named(
    name: str, text: str | bytes, tmp_path: Path, devices: Devices
) -> None:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SpecError) as error:
        found(tmp_path, devices)
    assert name in error.value.what


def test_a_requirement_file_that_includes_itself_is_named_with_its_way(
    tmp_path: Path, devices: Devices
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "requirements.txt").write_text("einops\n-r sub/more.txt\n", "utf-8")
    (tmp_path / "sub/more.txt").write_text("-r twice.txt\n-r twice.txt\n", "utf-8")
    (tmp_path / "sub/twice.txt").write_text("tqdm\n", "utf-8")
    assert found(tmp_path, devices) == []  # the same file on two ways is no circle
    (tmp_path / "sub/twice.txt").write_text("-r ../sub/../requirements.txt\n", "utf-8")
    with pytest.raises(SpecError) as error:
        found(tmp_path, devices)
    files = ("requirements.txt", "sub/more.txt", "sub/twice.txt", "requirements.txt")
    way = " → ".join(str(tmp_path.resolve() / name) for name in files)
    place = "sub/twice.txt:1: -r ../sub/../requirements.txt"
    assert error.value.evidence == f"{place}: it includes itself: {way}"


def test_a_lock_replaces_what_it_was_made_from(
    tmp_path: Path, devices: Devices
) -> None:
    pin = '[project]\nname = "x"\ndependencies = ["torch==2.4.0", "torchvision==0.18.0"]\n'
    (tmp_path / "pyproject.toml").write_text(pin, "utf-8")
    assert codes(tmp_path, devices) == ["torch-companion-mismatch"]
    mended = HASHED.replace("0.18.0", "0.19.0")
    (tmp_path / "requirements.txt").write_text(mended, "utf-8")
    assert codes(tmp_path, devices) == []


def test_each_extra_of_a_manifest_is_examined_with_the_package(
    tmp_path: Path, devices: Devices
) -> None:
    manifest = """[project]
name = "x"
dependencies = ["torch==2.4.0"]
optional-dependencies.old = ["torchvision==0.18.0"]
optional-dependencies.new = ["torchvision==0.19.0", "torchaudio==2.4.0"]
"""
    (tmp_path / "pyproject.toml").write_text(manifest, "utf-8")
    (finding,) = found(tmp_path, devices)
    assert finding.code == "torch-companion-mismatch"
    assert "with old" in finding.evidence[0]
    (tmp_path / "pyproject.toml").write_text(
        manifest.replace("0.18.0", "0.19.0"), "utf-8"
    )
    assert found(tmp_path, devices) == []


def test_an_extra_that_cannot_be_read_hides_nothing_else(
    tmp_path: Path, devices: Devices
) -> None:
    manifest = """[project]
name = "x"
dependencies = ["torch==2.4.0", "torchvision==0.18.0"]
optional-dependencies.dev = ["x[gone]"]
optional-dependencies.doc = "sphinx"
"""
    (tmp_path / "pyproject.toml").write_text(manifest, "utf-8")
    error, note = found(tmp_path, devices)
    assert error.code == "torch-companion-mismatch"
    assert note.code == "requirement-unread"
    assert "extra dev: it has no extra 'gone'" in note.evidence[0]
    assert "extra doc" in note.evidence[1]


@pytest.mark.parametrize(
    "text",
    [
        "[tool.poetry.dependencies]\ntorch = '2.4.0'\n",
        "[project]\nname = 'x'\ndynamic = ['dependencies']\n",
        "[tool.uv.sources]\ntorch = {index = 'x'}\n[project]\ndependencies = ['torch']\n",
    ],
)
def test_what_only_a_lock_tells_is_said_where_there_is_none(
    text: str, tmp_path: Path, devices: Devices
) -> None:
    (tmp_path / "pyproject.toml").write_text(text, "utf-8")
    (note,) = found(tmp_path, devices)
    assert (note.code, note.level) == ("requirement-unread", "note")
    assert note.evidence[0].startswith("pyproject.toml: ")
    (tmp_path / "uv.lock").write_text("version = 1\n", "utf-8")
    assert found(tmp_path, devices) == []


def test_a_lock_that_is_wrong_is_mended_in_what_it_was_made_from(
    tmp_path: Path, devices: Devices
) -> None:
    (tmp_path / "poetry.lock").write_text(
        POETRY.replace('"1.26.0"', '"2.1.0"').replace("2.3.1", "2.2.2"), "utf-8"
    )
    (old,) = [f for f in found(tmp_path, devices) if f.code == "numpy2-abi"]
    assert "Require numpy==1.26.4 in the requirements of poetry.lock" in old.remedy
    (tmp_path / "poetry.lock").write_text(
        POETRY.replace('"1.26.0"', '"2.1.0"'), "utf-8"
    )
    assert "numpy2-abi" not in codes(tmp_path, devices)
    (tmp_path / "poetry.lock").unlink()
    (tmp_path / "requirements.txt").write_text("torch==2.1.2\nnumpy==2.1.0\n", "utf-8")
    (old,) = found(tmp_path, devices)
    assert "Require numpy==1.26.4 in requirements.txt" in old.remedy


def test_this_machine_is_compared_with_the_build(
    tmp_path: Path, devices: Devices
) -> None:
    (tmp_path / "requirements.txt").write_text("torch==2.9.1+cu130\n", "utf-8")
    gpu = Gpu(
        "nvidia",
        "2b85",
        "RTX 5090",
        "0",
        supported=True,
        compute_capability="12.0",
        driver=Driver("nvidia", "575.57.08"),
    )
    host = Host("linux-64", "6.8", gpus=(gpu,))
    assert codes(tmp_path, devices, host) == ["driver-too-old"]
    new = dataclasses.replace(gpu, driver=Driver("nvidia", "580.95.05"))
    assert codes(tmp_path, devices, dataclasses.replace(host, gpus=(new,))) == []
    volta = dataclasses.replace(new, compute_capability="7.0")
    assert codes(tmp_path, devices, dataclasses.replace(host, gpus=(volta,))) == [
        "unsupported-gpu-architecture"
    ]
    (tmp_path / "requirements.txt").write_text("torch==2.7.1+cu126\n", "utf-8")
    assert codes(tmp_path, devices, dataclasses.replace(host, gpus=(new,))) == [
        "unsupported-gpu-architecture"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[project]\nname = 3\ndependencies = ['torch']\n",
        "[[tool.poetry.source]]\nurl = 5\n",
        "[tool.uv]\nextra-index-url = 7\n",
        "[tool.poetry]\nsource = [1, 'x']\n",
    ],
)
def test_a_manifest_of_other_types_is_no_traceback(
    text: str, tmp_path: Path, devices: Devices
) -> None:
    (tmp_path / "pyproject.toml").write_text(text, "utf-8")
    assert codes(tmp_path, devices) == []


# A lock whose torch is cu128 on Linux, and of another index on Windows.
UV_LOCK = """version = 1
requires-python = ">=3.11"
{head}
[[package]]
name = "x"
version = "0"
source = {{ virtual = "." }}
dependencies = [
    {{ name = "torch", version = "2.9.1+cu128", {cuda}, marker = "sys_platform == 'linux'" }},
    {{ name = "torch", version = "{version}", {other}, marker = "sys_platform == 'win32'" }},
]
[package.optional-dependencies]
cpu = [{{ name = "torch", version = "2.8.0+cpu", source = {{ registry = "{torch}/cpu" }} }}]
[package.dev-dependencies]
gpu = [{{ name = "torch", version = "2.9.1+cu128", {cuda} }}]
[[package]]
name = "torch"
version = "2.9.1+cu128"
{cuda}
dependencies = [{{ name = "nvidia-cudnn-cu12", marker = "sys_platform == 'linux'" }}]
[[package]]
name = "torch"
version = "{version}"
{other}
[[package]]
name = "torch"
version = "2.8.0+cpu"
source = {{ registry = "{torch}/cpu" }}
[[package]]
name = "nvidia-cudnn-cu12"
version = "9.10.2.21"
source = {{ registry = "https://index.example/simple" }}
"""


def uv_lock(folder: Path, build: str, head: str = "", manifest: str = "") -> Path:
    """Write a uv.lock whose torch is cu128 on Linux, and of another index on Windows."""
    index = f"{TORCH}/{build}" if build else "https://index.example/simple"
    version = f"2.9.1+{build}" if build else "2.9.1"
    cuda = f'source = {{ registry = "{TORCH}/cu128" }}'
    other = f'source = {{ registry = "{index}" }}'
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "x"\n{manifest}', "utf-8"
    )
    (folder / "uv.lock").write_text(
        UV_LOCK.format(head=head, cuda=cuda, other=other, version=version, torch=TORCH),
        "utf-8",
    )
    return folder


BY_MACHINE = """[tool.uv.sources]
torch = [{ index = "cu128", marker = "platform_machine == 'x86_64'" }]
"""


def test_a_cpu_build_that_is_assigned_by_platform_is_meant(
    tmp_path: Path, devices: Devices
) -> None:
    """As NVIDIA-NeMo/Automodel does: only Linux is served with CUDA."""
    assert "lock-cpu-build" not in codes(uv_lock(tmp_path, "cpu"), devices)
    assert "lock-cpu-build" in codes(
        uv_lock(tmp_path, "cpu", manifest=BY_MACHINE), devices
    )
    assert "lock-cpu-build" in codes(uv_lock(tmp_path, ""), devices)


def test_a_platform_that_is_excluded_is_not_judged(
    tmp_path: Path, devices: Devices
) -> None:
    served = "supported-markers = [\"sys_platform == 'linux'\"]"
    assert "lock-cpu-build" not in codes(uv_lock(tmp_path, "", served), devices)


INNOCENT = """# pip takes all of these
torch==2.4.0 --no-binary=x
torch == 2.4.0+cu121 ; sys_platform == "linux"
numpy<2; python_version < "3.9"
numpy>=2; python_version >= "3.9"
scipy >=1.5, !=1.6.*, <2 # why
scipy~=1.10
scipy>1.10
pkg[a, b] (>=1.0,<2) ; extra == 'x'
pkg @ git+https://x.example/pkg.git@main
einops; python_version>"3"
Foo.Bar===1.0-custom
Foo.Bar
.
.[test]
./wheels/a-1-py3-none-any.whl
wheels/b-1-py3-none-any.whl
b-1-py3-none-any.whl
C:\\wheels\\c
-e git+https://x.example/d.git#egg=d
-c constraints.txt
--find-links wheels
--pre
-f https://x.example/
"""


def test_what_pip_accepts_is_not_accused(tmp_path: Path, devices: Devices) -> None:
    (tmp_path / "requirements.txt").write_text(INNOCENT, "utf-8")
    assert codes(tmp_path, devices) == []
    assert "requirement-unread" not in [f.code for f in found(tmp_path, devices)]


def test_included_files_are_read_in_place_and_what_is_unread_is_named(
    tmp_path: Path, devices: Devices
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/base.txt").write_text("-r more.txt\nnope nope\n", "utf-8")
    (tmp_path / "sub/more.txt").write_text("einops\ntorch==2.4.0\n", "utf-8")
    lines = "-r sub/base.txt\ntorchvision==0.18.0\n-r https://x.example/y.txt\nx @ ${HOME}/x\n"
    (tmp_path / "requirements.txt").write_text(lines, "utf-8")
    (tmp_path / "requirements-dev.txt").write_text("-r requirements.txt\n", "utf-8")
    told = {f.code: f for f in found(tmp_path, devices)}
    assert told["requirement-unread"].evidence == (
        "sub/base.txt:2: nope nope",
        "requirements.txt:3: -r https://x.example/y.txt",
        "requirements.txt:4: x @ ${HOME}/x",
    )
    assert not told["requirement-unread"].bad
    assert (
        told["torch-companion-mismatch"]
        .evidence[0]
        .startswith("sub/more.txt:2: torch 2.4.0")
    )
    assert len(told) == len(found(tmp_path, devices))  # nothing is told twice
