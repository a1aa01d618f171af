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
from itertools import pairwise
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

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = tomllib.loads((small.CATALOG / "distributions.toml").read_text())
BOOKWORM = DISTRIBUTIONS["debian:bookworm"]["image"]
MIRROR = "https://me:hunter2@mirror.example/simple"
EXTRA = """
[environment]
LIBRARY = '{prefix}/lib'
[docker]
apt = ["libze1"]
"""


def program(name: str) -> ModuleType:
    """Import a program of docker/."""
    path = ROOT / "docker" / f"{name}.py"
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
        code, out, err = 0, "", ""
        if "--target" in words:
            install_toolkit(words)
        else:
            code, out, err = respond(words)
        return Completed(tuple(words), code, out, err, 0.0)

    return run


def install_toolkit(words: list[str]) -> None:
    """Do as uv, asked for the toolkit's own packages."""
    option = words.index("--target")
    folder = Path(words[option + 1])
    for name in ("pytest", "pytest-9.0.dist-info", "pydantic"):
        package = folder / name
        package.mkdir(parents=True)


def fail(words: list[str]) -> tuple[int, str, str]:
    pytest.fail(f"started {words}")


refuse = answer(fail)


@pytest.fixture
def image_request(tmp_path: Path) -> ImageRequest:
    index = small.Index(tmp_path / "index", url="http://127.0.0.1:9")
    project = small.make_project(tmp_path / "project", index, extra=EXTRA)
    wheelhouse = tmp_path / "default"
    alpha = small.make_wheel(wheelhouse, "alpha", "1.0", {"alpha.py": ""})
    vendor = tmp_path / "vendor"
    beta = small.make_wheel(vendor, "beta", "1.0", {"beta.py": ""})
    small.lock(project, [alpha, beta])
    bytes_archive(wheelhouse, project.catalog)
    target = load_target(project.specs, small.TARGET)
    lock = read_lock(project.lock(small.TARGET))
    addresses = {"default": MIRROR, "vendor": None}
    supply = ArtifactSources((wheelhouse,), addresses, offline=False)
    return ImageRequest(project, target, lock, supply)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def words(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split()


def read_json(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))


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
    archive = python / archive_name()
    assert archive.read_bytes() == b"a Python"
    digest = hashlib.sha256(b"a Python").hexdigest()
    sums = python / "SHA256SUMS"
    assert sums.read_text() == f"{digest}  {archive_name()}\n"
    assert "python/include" in words(python / "leave-out.txt")


def test_the_context_holds_of_the_toolkit_what_the_target_needs_and_no_more(
    image_request: ImageRequest,
) -> None:
    prepare_context(image_request, refuse, Silent())
    toolkit = image_request.context / "toolkit"
    specs = toolkit / "envs"
    (spec,) = specs.glob("*.toml")
    assert spec.name == "tiny.toml"
    assert names(specs / "catalog") == {"vendor.json"}
    package = toolkit / "lib" / "provision"
    assert (package / "image" / "docker.py").is_file()
    assert (toolkit / "docker" / "environment.py").is_file()
    home = image_request.context / "root" / "opt" / "provision"
    expected = read_json(home / "expect.json")
    assert expected["packages"] == {"alpha": "1.0", "beta": "1.0"}
    assert expected["environment"] == {"LIBRARY": "/opt/env/lib"}
    assert names(home / "runner") == {"pytest", "pytest-9.0.dist-info"}
    inventory = read_json(home / "sbom.cdx.json")
    assert inventory["components"]


def test_attack_nothing_of_a_mirror_s_password_reaches_context_or_command(
    image_request: ImageRequest,
) -> None:
    commands = []
    environments = []

    def run(argv: Sequence[str | Path], **options: Any) -> Completed:  # noqa: ANN401
        commands.append([str(word) for word in argv])
        environments.append(options["env"])
        return refuse(argv)

    prepare_context(image_request, run, Silent())
    (command,) = commands
    (env,) = environments
    assert env["UV_DEFAULT_INDEX"] == MIRROR
    variables = {"PIP_INDEX_URL": MIRROR, "SSL_CERT_FILE": "/ca"}
    argv = build_argv(image_request, "docker", variables)
    assert "id=index,env=PIP_INDEX_URL" in argv
    assert "id=ca,src=/ca" in argv
    for word in [*command, *argv]:
        assert "hunter2" not in word
    for path in image_request.context.rglob("*"):
        if path.is_file():
            assert b"hunter2" not in path.read_bytes(), path


def test_the_command_names_what_decides_the_image(image_request: ImageRequest) -> None:
    argv = build_argv(image_request, "docker", {})
    given = set()
    for option, value in pairwise(argv):
        if option == "--build-arg":
            given.add(value)
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
    with pytest.raises(ToolError, match=refused) as caught:
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
    packages = dev.context / "system" / "packages.txt"
    assert "g++" in words(packages)
    left_out = dev.context / "python" / "leave-out.txt"
    assert "python/include" not in words(left_out)
    headers = "leave-out-headers.txt"
    programs = image_request.context / "toolkit" / "docker"
    assert headers in names(programs)
    dev_programs = dev.context / "toolkit" / "docker"
    assert headers not in names(dev_programs)
    assert dev.tag == image_request.tag.replace("tiny", "tiny-dev")


def test_variables_and_labels_come_from_spec_and_lock(
    image_request: ImageRequest,
) -> None:
    text = dockerfile(image_request)
    assert 'ENV LIBRARY="/opt/env/lib"' in text
    assert f'LABEL provision.lock="{image_request.lock.digest}"' in text
    assert labels(image_request)["provision.packages"] == "alpha==1.0"
    variables = {"A": 'say "$HOME" \\'}
    target = image_request.target.model_copy(update={"environment": variables})
    odd = dataclasses.replace(image_request, target=target)
    assert 'ENV A="say \\"\\$HOME\\" \\\\"' in dockerfile(odd)


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put two clients on PATH."""
    new, old = tmp_path / "new", tmp_path / "old"
    clients = []
    for folder in (new, old):
        folder.mkdir()
        client = folder / "docker"
        client.touch(mode=0o755)
        clients.append(str(client))
    monkeypatch.setenv("PATH", f"{new}{os.pathsep}{old}")
    return clients


def test_a_client_without_buildkit_is_passed_over(clients: list[str]) -> None:
    new, old = clients

    def respond(words: list[str]) -> tuple[int, str, str]:
        program, verb, *_ = words
        if verb == "buildx":
            return 1, "", "unknown command"
        if program == new:
            return 0, "28.2.2 20.10.24\n", ""
        return 0, "20.10.24 20.10.24\n", ""

    assert find_engine(answer(respond)) == old


def test_without_an_engine_it_says_what_each_client_said(clients: list[str]) -> None:
    def respond(words: list[str]) -> tuple[int, str, str]:
        return 1, "", "Cannot connect to the daemon"

    with pytest.raises(ToolError, match="no Docker engine that can build") as caught:
        find_engine(answer(respond))
    evidence = caught.value.evidence
    assert evidence.count("Cannot connect") == 2


def test_what_is_left_out_leaves_its_record_too(tmp_path: Path) -> None:
    info = tmp_path / "torch-1.dist-info"
    info.mkdir()
    package = tmp_path / "torch"
    deep = package / "test" / "deep"
    deep.mkdir(parents=True)
    for name in ("torch/a.py", "torch/test/big", "torch/test/deep/b,c"):
        (tmp_path / name).touch()
    metadata = info / "METADATA"
    metadata.write_text("Name: torch\nVersion: 1\n", encoding="utf-8")
    rows = 'torch/a.py,sha256=x,0\ntorch/test/big,sha256=y,0\n"torch/test/deep/b,c",sha256=z,0\n'
    record = info / "RECORD"
    record.write_text(rows, encoding="utf-8")
    leave_out = program("environment").leave_out
    assert leave_out(tmp_path, ["torch/test/*"]) == [
        "torch/test/big",
        "torch/test/deep/b,c",
    ]
    assert record.read_text(encoding="utf-8") == "torch/a.py,sha256=x,0\n"
    assert names(package) == {"a.py"}


def test_times_and_modes_do_not_tell_who_built_it(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    tool = private / "tool"
    tool.touch(mode=0o700)
    data = private / "data"
    data.touch(mode=0o600)
    link = private / "link"
    link.symlink_to("data")
    program("environment").set_times(tmp_path, 1000)
    assert stat.S_IMODE(tool.stat().st_mode) == 0o755
    assert stat.S_IMODE(data.stat().st_mode) == 0o644
    for path in (private, tool, data, link):
        assert path.lstat().st_mtime == 1000.0


@pytest.fixture(scope="module")
def entrypoint() -> ModuleType:
    return program("entrypoint")


def device(accelerator: str) -> dict[str, Any]:
    return ACCELERATORS[accelerator]._asdict()


def test_the_entry_point_names_the_flag_that_is_missing(
    entrypoint: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu, cuda, xpu = device("cpu"), device("cuda"), device("xpu")
    root = str(tmp_path)
    for kind in (xpu, cuda):
        nodes = entrypoint.nodes(kind, root)
        missing = entrypoint.missing(kind, nodes)
        assert kind["container"] in missing
    assert entrypoint.missing(cpu, []) is None
    folder = tmp_path / "dev" / "dri"
    folder.mkdir(parents=True)
    node = folder / "renderD129"
    node.touch()
    nodes = entrypoint.nodes(xpu, root)
    assert nodes == [str(node)]
    assert entrypoint.missing(xpu, nodes) is None
    monkeypatch.setattr(os, "access", lambda *_: False)
    group = f"--group-add {node.stat().st_gid}"
    assert group in entrypoint.missing(xpu, nodes)


def test_a_cuda_container_without_nvml_is_told_so(
    entrypoint: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = tmp_path / "nvidia0"
    node.touch()
    nodes = [str(node)]
    cuda, xpu = device("cuda"), device("xpu")
    variable = "NVIDIA_DRIVER_CAPABILITIES"
    monkeypatch.delenv(variable, raising=False)
    assert not entrypoint.missing(cuda, nodes)
    flag = f"--env {variable}=compute,utility"
    for enough in ("all", "compute,utility"):
        monkeypatch.setenv(variable, enough)
        assert flag not in (entrypoint.missing(cuda, nodes) or "")
        assert not entrypoint.missing(xpu, nodes)
    monkeypatch.setenv(variable, "")
    assert flag in entrypoint.missing(cuda, nodes)
    assert not entrypoint.missing(xpu, nodes)


_ANY = st.text(st.characters(exclude_categories=["Cs"]))
_NASTY = st.text(st.sampled_from("$\"\\\n'`{}\r #"))


def instructions(lines: list[str]) -> list[str]:
    return [line.partition(" ")[0] for line in lines]


@given(_ANY, _NASTY)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_attack_no_value_adds_a_line_to_the_dockerfile(
    image_request: ImageRequest, summary: str, nasty: str
) -> None:
    plain = dockerfile(image_request).splitlines()
    environment = {"LIBRARY": nasty + summary}
    changes = {"summary": summary + nasty, "environment": environment}
    target = image_request.target.model_copy(update=changes)
    odd = dataclasses.replace(image_request, target=target)
    text = dockerfile(odd).removesuffix("\n")
    lines = text.split("\n")
    assert instructions(lines) == instructions(plain)
    (line,) = [line for line in lines if "ENV LIBRARY=" in line]
    value = line.removeprefix("ENV LIBRARY=")
    # A quoted string of a Dockerfile ends at a bare quote, and a bare $ starts a variable.
    assert value[0] == '"'
    assert value[-1] == '"'
    content = value[1:-1]
    bare = re.sub(r"\\.", "", content)
    assert '"' not in bare
    assert "$" not in bare


def test_the_jobs_of_the_fleet_run_as_the_user_of_the_image() -> None:
    path = ROOT / "docker" / "Dockerfile"
    text = path.read_text("utf-8")
    user = re.search(r"^USER (\d+)", text, re.MULTILINE)
    assert user is not None
    named = set()
    folder = ROOT / "fleet" / "kubernetes"
    for manifest in folder.rglob("*.yaml"):
        users = re.findall(r"runAsUser: (\d+)", manifest.read_text("utf-8"))
        named.update(users)
    assert named == {user[1], "0"}, "root only where a label is written"
