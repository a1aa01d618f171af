"""What an image is built from and by which command; the real builds are in test_docker_engine."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provision.core.errors import ToolError, UsageError
from provision.core.platforms import ACCELERATORS
from provision.core.process import Completed
from provision.image.context import dockerfile, labels, prepare_context
from provision.image.docker import build_argv, find_engine
from provision.image.request import ImageRequest
from provision.installer.plan import ArtifactSources
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_target
from tests import small
from tests.image.python_archive import archive_name, bytes_archive
from tests.lab import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from provision.core.process import Run

BOOKWORM = tomllib.loads((small.CATALOG / "distributions.toml").read_text())[
    "debian:bookworm"
]["image"]
MIRROR = "https://me:hunter2@mirror.example/simple"
EXTRA = """
[environment]
LIBRARY = '{prefix}/lib'
[docker]
apt = ["libze1"]
"""


def program(name: str) -> ModuleType:
    """Import a program of docker/."""
    path = Path(__file__).parents[2] / "docker" / f"{name}.py"
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def answer(respond: Callable[[list[str]], tuple[int, str, str]]) -> Run:
    """Return a door to processes that starts none."""

    def run(argv: Sequence[str | Path], **_: object) -> Completed:
        words = [str(word) for word in argv]
        if "--target" in words:  # uv, asked for the toolkit's own packages
            folder = Path(words[words.index("--target") + 1])
            for name in ("pytest", "pytest-9.0.dist-info", "pydantic"):
                (folder / name).mkdir(parents=True)
            return Completed(tuple(words), 0, "", "", 0.0)
        return Completed(tuple(words), *respond(words), 0.0)

    return run


refuse = answer(lambda words: pytest.fail(f"started {words}"))


@pytest.fixture
def image_request(tmp_path: Path) -> ImageRequest:
    index = small.Index(tmp_path / "index", url="http://127.0.0.1:9")
    project = small.make_project(tmp_path / "project", index, extra=EXTRA)
    wheels = [
        small.make_wheel(tmp_path / "default", "alpha", "1.0", {"alpha.py": ""}),
        small.make_wheel(tmp_path / "vendor", "beta", "1.0", {"beta.py": ""}),
    ]
    small.lock(project, wheels)
    bytes_archive(wheels[0].parent, project.catalog)
    return ImageRequest(
        project,
        load_target(project.specs, small.TARGET),
        read_lock(project.lock(small.TARGET)),
        ArtifactSources(
            (wheels[0].parent,), {"default": MIRROR, "vendor": None}, offline=False
        ),
    )


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def words(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split()


def test_the_context_holds_the_files_that_the_wheelhouses_have(
    image_request: ImageRequest,
) -> None:
    prepare_context(image_request, refuse, Silent())
    context = image_request.context
    # beta is in no wheelhouse
    assert names(context / "wheelhouse") == {"alpha-1.0-py3-none-any.whl"}
    packages = context / "system" / "packages.txt"
    assert words(packages) == ["ca-certificates", "libze1"]
    python = context / "python"
    assert (python / archive_name()).read_bytes() == b"a Python"
    digest = hashlib.sha256(b"a Python").hexdigest()
    assert (python / "SHA256SUMS").read_text() == f"{digest}  {archive_name()}\n"
    assert "python/include" in words(python / "leave-out.txt")


def test_the_context_holds_of_the_toolkit_what_the_target_needs_and_no_more(
    image_request: ImageRequest,
) -> None:
    prepare_context(image_request, refuse, Silent())
    toolkit = image_request.context / "toolkit"
    assert list((toolkit / "envs").glob("*.toml")) == [toolkit / "envs" / "tiny.toml"]
    assert names(toolkit / "envs" / "catalog") == {"vendor.json"}
    assert (toolkit / "lib" / "provision" / "image" / "docker.py").is_file()
    assert (toolkit / "docker" / "environment.py").is_file()
    home = image_request.context / "root" / "opt" / "provision"
    expected = json.loads((home / "expect.json").read_text(encoding="utf-8"))
    assert expected["packages"] == {"alpha": "1.0", "beta": "1.0"}
    assert expected["environment"] == {"LIBRARY": "/opt/env/lib"}
    assert names(home / "runner") == {"pytest", "pytest-9.0.dist-info"}
    inventory = json.loads((home / "sbom.cdx.json").read_text(encoding="utf-8"))
    assert inventory["components"]


def test_attack_nothing_of_a_mirror_s_password_reaches_context_or_command(
    image_request: ImageRequest,
) -> None:
    started: list[tuple[str, dict[str, str]]] = []

    def run(argv: Sequence[str | Path], **options: Any) -> Completed:  # noqa: ANN401
        started.append((" ".join(map(str, argv)), options["env"]))
        return refuse(argv)

    prepare_context(image_request, run, Silent())
    ((command, env),) = started
    assert env["UV_DEFAULT_INDEX"] == MIRROR
    variables = {"PIP_INDEX_URL": MIRROR, "SSL_CERT_FILE": "/ca"}
    argv = build_argv(image_request, "docker", variables)
    assert {"id=index,env=PIP_INDEX_URL", "id=ca,src=/ca"} <= set(argv)
    assert "hunter2" not in " ".join([command, *argv])
    for path in image_request.context.rglob("*"):
        assert not (path.is_file() and b"hunter2" in path.read_bytes()), path


def test_the_command_names_what_decides_the_image(image_request: ImageRequest) -> None:
    argv = build_argv(image_request, "docker", {})
    given = {argv[i + 1] for i, word in enumerate(argv) if word == "--build-arg"}
    assert given == {
        "TARGET=tiny",
        f"PYTHON={small.PYTHON}",
        "SOURCE_DATE_EPOCH=1793491200",
        f"BASE_IMAGE={BOOKWORM}",
    }
    assert argv[-1] == str(image_request.context)
    other = dataclasses.replace(image_request, base_image="x@sha256:1")
    assert "BASE_IMAGE=x@sha256:1" in build_argv(other, "docker", {})


def test_offline_without_a_file_is_refused_before_anything_is_built(
    image_request: ImageRequest,
) -> None:
    supply = dataclasses.replace(image_request.supply, offline=True)
    offline = dataclasses.replace(image_request, supply=supply)
    refused = "1 file of the lock in no wheelhouse"
    with pytest.raises(UsageError, match=refused) as caught:
        prepare_context(offline, refuse, Silent())
    assert caught.value.evidence == "beta-1.0-py3-none-any.whl"


def test_a_target_without_the_table_has_no_images(image_request: ImageRequest) -> None:
    target = image_request.target.model_copy(update={"docker": None})
    with pytest.raises(UsageError, match="tiny has no images"):
        dataclasses.replace(image_request, target=target)


def test_the_dev_image_has_compiler_and_headers_and_another_name(
    image_request: ImageRequest,
) -> None:
    dev = dataclasses.replace(image_request, dev=True)
    prepare_context(image_request, refuse, Silent())
    prepare_context(dev, refuse, Silent())
    assert "g++" in words(dev.context / "system" / "packages.txt")
    left_out = words(dev.context / "python" / "leave-out.txt")
    assert "python/include" not in left_out
    headers = "leave-out-headers.txt"
    assert headers in names(image_request.context / "toolkit" / "docker")
    assert headers not in names(dev.context / "toolkit" / "docker")
    assert dev.tag == image_request.tag.replace("tiny", "tiny-dev")


def test_variables_and_labels_come_from_spec_and_lock(
    image_request: ImageRequest,
) -> None:
    text = dockerfile(image_request)
    assert 'ENV LIBRARY="/opt/env/lib"' in text
    assert f'LABEL provision.lock="{image_request.lock.digest}"' in text
    assert labels(image_request)["provision.packages"] == "alpha==1.0"
    variables = {"A": 'say "$HOME" \\'}
    odd = image_request.target.model_copy(update={"environment": variables})
    odd_text = dockerfile(dataclasses.replace(image_request, target=odd))
    assert 'ENV A="say \\"\\$HOME\\" \\\\"' in odd_text


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put two clients on PATH."""
    folders = [tmp_path / "new", tmp_path / "old"]
    for folder in folders:
        folder.mkdir()
        (folder / "docker").touch(mode=0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
    return [str(folder / "docker") for folder in folders]


def test_a_client_without_buildkit_is_passed_over(clients: list[str]) -> None:
    new, old = clients

    def respond(words: list[str]) -> tuple[int, str, str]:
        if words[1] == "buildx":
            return 1, "", "unknown command"
        return 0, "28.2.2 20.10.24\n" if words[0] == new else "20.10.24 20.10.24\n", ""

    assert find_engine(answer(respond)) == old


def test_without_an_engine_it_says_what_each_client_said(clients: list[str]) -> None:
    silent = answer(lambda _: (1, "", "Cannot connect to the daemon"))
    with pytest.raises(ToolError, match="no Docker engine that can build") as caught:
        find_engine(silent)
    assert caught.value.evidence.count("Cannot connect") == 2


def test_what_is_left_out_leaves_its_record_too(tmp_path: Path) -> None:
    info = tmp_path / "torch-1.dist-info"
    info.mkdir()
    (tmp_path / "torch" / "test" / "deep").mkdir(parents=True)
    for name in ("torch/a.py", "torch/test/big", "torch/test/deep/b,c"):
        (tmp_path / name).touch()
    (info / "METADATA").write_text("Name: torch\nVersion: 1\n", encoding="utf-8")
    rows = 'torch/a.py,sha256=x,0\ntorch/test/big,sha256=y,0\n"torch/test/deep/b,c",sha256=z,0\n'
    (info / "RECORD").write_text(rows, encoding="utf-8")
    leave_out = program("environment").leave_out
    assert leave_out(tmp_path, ["torch/test/*"]) == [
        "torch/test/big",
        "torch/test/deep/b,c",
    ]
    assert (info / "RECORD").read_text(encoding="utf-8") == "torch/a.py,sha256=x,0\n"
    assert [path.name for path in (tmp_path / "torch").iterdir()] == ["a.py"]


def test_times_and_modes_do_not_tell_who_built_it(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "tool").touch(mode=0o700)
    (private / "data").touch(mode=0o600)
    (private / "link").symlink_to("data")
    program("environment").set_times(tmp_path, 1000)
    assert stat.S_IMODE((private / "tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((private / "data").stat().st_mode) == 0o644
    for path in (private, *private.iterdir()):
        assert path.lstat().st_mtime == 1000.0


@pytest.fixture(scope="module")
def entrypoint() -> ModuleType:
    return program("entrypoint")


def device(accelerator: str) -> dict[str, Any]:
    return ACCELERATORS[accelerator]._asdict()


def test_the_entry_point_names_the_flag_that_is_missing(
    entrypoint: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("xpu", "cuda"):
        row = device(name)
        nodes = entrypoint.nodes(row, str(tmp_path))
        assert row["container"] in entrypoint.missing(row, nodes)
    assert entrypoint.missing(device("cpu"), []) is None
    (tmp_path / "dev" / "dri").mkdir(parents=True)
    node = tmp_path / "dev" / "dri" / "renderD129"
    node.touch()
    nodes = entrypoint.nodes(device("xpu"), str(tmp_path))
    assert nodes == [str(node)]
    assert entrypoint.missing(device("xpu"), nodes) is None
    monkeypatch.setattr(os, "access", lambda *_: False)
    group = f"--group-add {node.stat().st_gid}"
    assert group in entrypoint.missing(device("xpu"), nodes)


def test_a_cuda_container_without_nvml_is_told_so(
    entrypoint: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia0").touch()
    nodes = [str(tmp_path / "nvidia0")]
    monkeypatch.delenv("NVIDIA_DRIVER_CAPABILITIES", raising=False)
    assert not entrypoint.missing(device("cuda"), nodes)
    flag = "--env NVIDIA_DRIVER_CAPABILITIES=compute,utility"
    for setting, hidden in (("all", False), ("compute,utility", False), ("", True)):
        monkeypatch.setenv("NVIDIA_DRIVER_CAPABILITIES", setting)
        missing = entrypoint.missing(device("cuda"), nodes) or ""
        assert (flag in missing) == hidden
        assert not entrypoint.missing(device("xpu"), nodes)


_ANY = st.text(st.characters(exclude_categories=["Cs"]))


@given(_ANY, st.text(st.sampled_from("$\"\\\n'`{}\r #")))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_attack_no_value_adds_a_line_to_the_dockerfile(
    image_request: ImageRequest, summary: str, nasty: str
) -> None:
    plain = dockerfile(image_request).splitlines()
    changes = {"summary": summary + nasty, "environment": {"LIBRARY": nasty + summary}}
    target = image_request.target.model_copy(update=changes)
    text = dockerfile(dataclasses.replace(image_request, target=target))
    lines = text.removesuffix("\n").split("\n")
    instructions = [line.partition(" ")[0] for line in plain]
    assert [line.partition(" ")[0] for line in lines] == instructions
    (line,) = [line for line in lines if "ENV LIBRARY=" in line]
    value = line.removeprefix("ENV LIBRARY=")
    # A quoted string of a Dockerfile ends at a bare quote, and a bare $ starts a variable.
    assert value[0] == value[-1] == '"'
    bare = re.sub(r"\\.", "", value[1:-1])
    assert '"' not in bare
    assert "$" not in bare


def test_the_jobs_of_the_fleet_run_as_the_user_of_the_image() -> None:
    root = Path(__file__).parents[2]
    text = (root / "docker" / "Dockerfile").read_text("utf-8")
    user = re.search(r"^USER (\d+)", text, re.MULTILINE)
    assert user is not None
    named = set()
    for manifest in (root / "fleet" / "kubernetes").rglob("*.yaml"):
        named |= set(re.findall(r"runAsUser: (\d+)", manifest.read_text("utf-8")))
    assert named == {user[1], "0"}, "root only where a label is written"
