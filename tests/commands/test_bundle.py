"""A bundle holds all that a machine without a network needs, or says what it lacks."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.artifacts.parallel_fetch import PARTIAL
from provision.artifacts.tools import LOCKS, RUNTIME, read_tools
from provision.cli import main
from provision.commands import bundle as bundling
from provision.commands.bundle import Bundle, bundle
from provision.core import process
from provision.core.errors import UsageError
from provision.core.filesystem import TAG
from provision.installer.plan import ArtifactSources
from provision.lockfile.pip import CONDA_LAYER, read_lock
from provision.spec.reader import load_target
from tests.condapkg import File, lock_text, make_package
from tests.image.python_archive import bytes_archive
from tests.lab import Lab, without_a_route
from tests.small import PYTHON, TARGET, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CLONE = Path(__file__).parents[2]


def posix(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that runs the command of a bundle for Linux."""
    reason = "that of Windows is run under Wine"
    return pytest.mark.machine(
        pytest.mark.skipif(sys.platform == "win32", reason=reason)(test)
    )


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def clone(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab whose project holds a toolkit too; it needs one tool, which the index has."""
    root = lab.project.root
    for name in (
        "noxfile.py",
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        "LICENSE",
    ):
        shutil.copy(CLONE / name, root)
    (root / "provision" / "commands").mkdir(parents=True)
    check = "provision/commands/bundle_check.py"
    shutil.copy(CLONE / check, root / check)
    bytes_archive(root / "pythons", lab.project.catalog)
    monkeypatch.setattr(bundling, "shipped", lambda: lab.project)
    monkeypatch.setattr(bundling, "PACKAGE", root / "provision")
    tool = make_wheel(lab.index.root / "default", "tool", "1.0", {"tool.py": ""})
    line = f"tool==1.0 \\\n    --hash=sha256:{sha256(tool)} \\\n    --hash=sha256:{'0' * 64}\n"
    lab.project.lock("tools").mkdir()
    for name in LOCKS:
        (lab.project.lock("tools") / name).write_text(
            f"# a comment\n{line}    # via nothing\n"
        )
    return lab


def make(lab: Lab, folder: Path, *wheelhouses: Path) -> Bundle:
    indexes: dict[str, str | None] = {
        name: f"{lab.index.url}/{name}/" for name in ("default", "vendor")
    }
    return bundle(
        lab.project,
        load_target(lab.project.specs, TARGET),
        read_lock(lab.project.lock(TARGET)),
        supply=ArtifactSources((pythons(lab), *wheelhouses), indexes, offline=False),
        folder=folder,
        progress=lab.listener,
    )


def pythons(lab: Lab) -> Path:
    return lab.project.root / "pythons"


def held(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.machine
def test_it_holds_artifacts_tools_toolkit_and_a_command(
    clone: Lab, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    made = make(clone, out)
    assert made.missing == ()
    assert held(out / "artifacts") == sorted(wheel.name for wheel in clone.wheels)
    assert held(out / "tools") == ["tool-1.0-py3-none-any.whl"]
    assert (out / "toolkit" / "envs" / f"{TARGET}.toml").is_file()
    locks = out / "toolkit" / "lockfiles"
    assert (locks / TARGET / "requirements.txt").is_file()
    # What noxfile.py installs there is what tools/ has.
    installed = locks / "tools" / "requirements.txt"
    assert installed.read_bytes() == (locks / "tools" / RUNTIME).read_bytes()
    assert os.access(out / made.command, os.X_OK)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["schema"] == 1
    assert manifest["target"] == TARGET
    assert manifest["missing"] == []
    assert len(manifest["files"]) == made.files > 10
    for entry in manifest["files"]:
        assert sha256(out / entry["path"]) == entry["sha256"]
    # Made again it downloads nothing and says the same; what an earlier lock had goes.
    clone.index.asked.clear()
    make(clone, out)
    assert clone.index.asked == []
    assert json.loads((out / "manifest.json").read_text()) == manifest
    clone.relock(clone.wheel("alpha", "2.0"), clone.wheels[1])
    make(clone, out)
    assert "alpha-1.0-py3-none-any.whl" not in held(out / "artifacts")


@pytest.mark.machine
def test_what_cannot_be_had_is_listed_and_supplied(clone: Lab, tmp_path: Path) -> None:
    out, house = tmp_path / "out", tmp_path / "house"
    clone.index.fault = 403
    made = make(clone, out)
    missing = {item.filename: item for item in made.missing}
    wheel = clone.wheels[0]
    alpha = missing[wheel.name]
    assert alpha.sha256 == sha256(wheel)
    assert alpha.size == wheel.stat().st_size
    assert "403" in alpha.why
    listed = json.loads((out / "manifest.json").read_text())["missing"]
    assert {entry["filename"] for entry in listed} == missing.keys()
    assert not list((out / "artifacts").glob("*.whl"))
    begun = out / "artifacts" / PARTIAL / "begun"
    begun.touch()
    make(clone, out)
    assert begun.exists(), "the next run goes on with it"
    house.mkdir()
    tools = (clone.index.root / "default").glob("tool-*")
    for supplied in (*clone.wheels, *tools):
        shutil.copy(supplied, house)
    assert make(clone, out, house).missing == ()
    assert held(out / "artifacts") == sorted(wheel.name for wheel in clone.wheels)


@pytest.mark.machine
def test_packages_of_the_conda_layer_come_from_their_channel(
    clone: Lab, tmp_path: Path
) -> None:
    channel = clone.index.root / "channel"
    archive = make_package(channel, "library", "1.0", {"lib/it.so": File(b"it")})
    text = lock_text(f"{clone.index.url}/channel", [archive])
    (clone.project.lock(TARGET) / CONDA_LAYER).write_text(text)
    clone.relock(*clone.wheels)
    assert make(clone, tmp_path / "out").missing == ()
    assert sha256(tmp_path / "out" / "artifacts" / archive.name) == sha256(archive)


@pytest.mark.machine
def test_a_folder_of_something_else_is_left_alone(clone: Lab, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "diary").touch()
    with pytest.raises(UsageError, match="is not a bundle"):
        make(clone, tmp_path / "precious")
    with pytest.raises(UsageError, match="is not a bundle"):
        make(clone, tmp_path / "precious" / "diary")
    assert held(tmp_path / "precious") == ["diary"]


@pytest.mark.machine
def test_a_run_that_was_killed_before_it_tagged_the_folder_is_gone_on_with(
    clone: Lab, tmp_path: Path
) -> None:
    left = (
        tmp_path / "out" / f".{TAG}.x1y2"
    )  # as write_atomic() names it until it is whole
    left.parent.mkdir()
    left.touch()
    make(clone, tmp_path / "out")
    assert not left.exists()


@pytest.mark.machine
def test_the_command_exits_with_1_until_it_is_complete(
    clone: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"{clone.index.url}/default/")
    argv = [
        "bundle",
        TARGET,
        "-o",
        str(tmp_path / "out"),
        "--project",
        str(clone.project.root),
    ]
    clone.index.fault = 403
    assert main.main(argv) == 1
    assert "missing: alpha-1.0-py3-none-any.whl  sha256 " in capsys.readouterr().out
    clone.index.fault = None
    supplied = ["--wheelhouse", str(pythons(clone)), "--json"]
    assert main.main([*argv, *supplied]) == 0
    assert json.loads(capsys.readouterr().out)["result"]["missing"] == []


def test_tools_are_chosen_by_platform_and_for_every_patch_version(
    tmp_path: Path,
) -> None:
    digest = "0" * 64
    lines = [
        "everywhere==1",
        "windows-only==1 ; sys_platform == 'win32'",
        "old==1 ; python_full_version < '3.11.5'",
        "old==2 ; python_full_version >= '3.11.5'",
        "future==1 ; python_version >= '3.14'",
    ]
    text = "".join(f"{line} \\\n    --hash=sha256:{digest}\n" for line in lines)
    for name in LOCKS:
        (tmp_path / name).write_text(f"# made by\n{text}    # via it\n")
    linux = [
        (tool.name, tool.version) for tool in read_tools(tmp_path, "linux-64", "3.11")
    ]
    assert linux == [("everywhere", "1"), ("old", "1"), ("old", "2")]
    windows = read_tools(tmp_path, "win-64", "3.11")
    assert ("windows-only", "1") in [(tool.name, tool.version) for tool in windows]
    assert windows[0].sha256s == {digest}


def test_a_bundle_has_the_tools_that_build_and_no_others() -> None:
    tools = read_tools(CLONE / "lockfiles" / "tools", "linux-64", "3.11")
    names = {tool.name for tool in tools}
    assert names > {"hatchling", "nox", "pydantic", "pytest", "py-rattler", "uv"}
    assert names.isdisjoint({"conda-lock", "pip-audit", "pip-tools", "ruff"})


@pytest.mark.slow
@pytest.mark.network
def test_a_real_bundle_builds_where_there_is_no_route(tmp_path: Path) -> None:
    """The bundle of cpu-linux, made outside and built in an empty network namespace."""
    alone = without_a_route()
    out = tmp_path / "air gap"
    argv = [sys.executable, "-m", "provision", "bundle", "cpu-linux", "-o", out]
    made = subprocess.run(
        [*argv, "--project", CLONE], check=False, cwd=CLONE, capture_output=True
    )
    assert made.returncode == 0, made.stderr
    bare = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    python = {"PYTHON": sys.executable}
    built = subprocess.run(
        [*alone, out / "build.sh", "--no-smoke"],
        env=bare | python,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    record = json.loads(
        next(out.glob("toolkit/.envs/cpu-linux/*/provision.json")).read_text()
    )
    assert record["lock"] == read_lock(CLONE / "lockfiles" / "cpu-linux").digest


NOT_NEEDED = re.compile(
    r"(^|/)(__pycache__|test|tests|idlelib|site-packages/.+|config-.*)(/|$)|\.a$"
)


def _needed(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if NOT_NEEDED.search(member.name) else member


@pytest.fixture(scope="session")
def python_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This machine's Python, packed as uv's managed builds are, and the list that names it."""
    folder = tmp_path_factory.mktemp("mirror")
    base, minor = (
        Path(sys.base_prefix),
        f"{sys.version_info.major}.{sys.version_info.minor}",
    )
    archive = folder / "1" / f"cpython-{minor}-linux.tar.gz"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz", compresslevel=0) as tar:
        tar.add(base / "bin" / f"python{minor}", f"python/bin/python{minor}")
        for place in (
            f"lib/python{minor}",
            *(f"lib/{p.name}" for p in base.glob("lib/libpython*")),
        ):
            tar.add(base / place, f"python/{place}", filter=_needed)
    entry = {
        "name": "cpython",
        "arch": {"family": "x86_64", "variant": None},
        "os": "linux",
        "libc": "gnu",
        "major": 3,
        "minor": sys.version_info.minor,
        "patch": sys.version_info.micro,
        "prerelease": "",
        "variant": None,
        "build": "1",
        "sha256": sha256(archive),
        "url": "https://github.com/astral-sh/python-build-standalone/"
        f"releases/download/1/{archive.name}",
    }
    version = ".".join(map(str, sys.version_info[:3]))
    listed = {f"cpython-{version}-linux-x86_64-gnu": entry}
    (folder / "list.json").write_text(json.dumps(listed))
    return folder


@pytest.fixture
def with_python(
    clone: Lab, python_archive: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """What uv takes Pythons from, where no wheelhouse has that of the catalog."""
    shutil.rmtree(pythons(clone))

    def run(argv: Sequence[str | Path], *, env: dict[str, str]) -> process.Completed:
        listed = {
            "UV_PYTHON_DOWNLOADS_JSON_URL": (python_archive / "list.json").as_uri()
        }
        return real(argv, env=env | listed)

    real = process.run
    monkeypatch.setattr(process, "run", run)
    monkeypatch.setenv("UV_PYTHON_INSTALL_MIRROR", python_archive.as_uri())
    return python_archive


@pytest.mark.machine
@pytest.mark.skipif(sys.platform == "win32", reason="the archive is of a Linux Python")
@pytest.mark.slow
def test_a_bundle_brings_the_interpreter_that_a_machine_may_lack(
    clone: Lab, tmp_path: Path, with_python: Path
) -> None:
    out = tmp_path / "out"
    (clone.project.root / "noxfile.py").write_text(
        "import ssl, sys, venv; print(sys.base_prefix, *sys.argv[1:3])"
    )
    made = make(clone, out)
    (archive,) = (out / "python").iterdir()
    assert sha256(archive) == sha256(next((with_python / "1").iterdir()))
    listed = json.loads((out / "manifest.json").read_text())["files"]
    assert f"python/{archive.name}" in {entry["path"] for entry in listed}
    for _ in range(2):  # the second time it is there
        done = subprocess.run(
            [out / made.command],
            env={"PATH": os.defpath, "PYTHON": "absent"},
            capture_output=True,
            text=True,
            check=True,
        )
        where = f"{out / 'toolkit' / '.python' / 'python'}"
        assert done.stdout.split() == [where, "-s", f"build-{TARGET}"]
    assert make(clone, out).files == made.files


@pytest.mark.machine
def test_attack_another_archive_than_uv_knows_is_left_out(
    clone: Lab, tmp_path: Path, with_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = tmp_path / "mirror"
    shutil.copytree(with_python, mirror)
    with next((mirror / "1").iterdir()).open("ab") as stream:
        stream.write(b"more")
    monkeypatch.setenv("UV_PYTHON_INSTALL_MIRROR", mirror.as_uri())
    made = make(clone, tmp_path / "out")
    assert made.python is None
    assert not (tmp_path / "out" / "python").exists()


@pytest.mark.machine
def test_a_python_that_cannot_be_had_is_told_with_its_address_and_can_be_supplied(
    clone: Lab, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (archive,) = pythons(clone).iterdir()
    content = archive.read_bytes()
    archive.write_bytes(b"cut")
    made = make(clone, out)
    assert made.missing == ()  # the other machine may have one
    assert made.python is None
    (note,) = [note for note in clone.listener.notes if "no Python" in note]
    assert f"{archive.name}, sha256 {hashlib.sha256(content).hexdigest()}, " in note
    assert f"from https://vendor.example/{archive.name}" in note
    assert "cause" not in note.casefold()
    assert f"ignored {archive}: its sha256 is not the lock's" in clone.listener.notes
    archive.write_bytes(content)
    assert make(clone, out).missing == ()
    archive.unlink()
    assert make(clone, out).python == archive.name, "it is in the bundle"


def started(
    lab: Lab, made: Bundle, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the command of a bundle whose noxfile says where it was called."""
    return subprocess.run(
        [made.folder / made.command],
        cwd=lab.project.root,
        env={"PATH": os.defpath, "PYTHON": sys.executable} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@posix
def test_the_command_compares_every_file_before_anything_else(
    clone: Lab, tmp_path: Path
) -> None:
    (clone.project.root / "noxfile.py").write_text(
        "import os; print('builds, called in', os.environ['PWD'])"
    )
    made = make(clone, tmp_path / "air gap")
    done = started(clone, made)
    builds = f"builds, called in {clone.project.root}\n"
    assert done.stdout == builds, done.stderr
    out = made.folder
    wheel = out / "artifacts" / clone.wheels[0].name
    good = sha256(wheel)
    wheel.write_bytes(wheel.read_bytes() + b"x")
    (out / "tools" / "tool-1.0-py3-none-any.whl").unlink()
    (out / "toolkit" / "smoke" / "run.py").write_text("print('passed')")
    done = started(clone, made)
    assert (done.returncode, done.stdout) == (3, "")
    assert "error: 3 of " in done.stderr
    assert f"{wheel.name}  sha256 {sha256(wheel)}, must be {good}" in done.stderr
    assert "tools/tool-1.0-py3-none-any.whl  No such file" in done.stderr
    assert "toolkit/smoke/run.py  sha256 " in done.stderr
    assert "copy them again" in done.stderr
    (out / "manifest.json").write_text("{")
    done = started(clone, made)
    assert done.returncode == 3
    assert "manifest.json cannot be read" in done.stderr
    (out / "manifest.json").unlink()
    assert started(clone, made).returncode == 3, "the copy is not complete"
    pushed = started(clone, made, PROVISION_PUSHED="1")  # by the role for Ansible
    assert pushed.stdout == builds, pushed.stderr


@posix
def test_without_any_python_the_command_says_what_to_install(
    clone: Lab, tmp_path: Path
) -> None:
    made = make(clone, tmp_path / "out")
    (archive,) = (made.folder / "python").iterdir()
    archive.write_bytes(archive.read_bytes()[:100])  # which no tar reads
    done = started(clone, made, PYTHON="absent")
    assert done.returncode == 3
    assert f"{archive.name} : copy it again" in done.stderr
    archive.unlink()
    done = started(clone, made, PYTHON="absent")
    assert done.returncode == 3
    assert f"no Python: install Python {PYTHON}, or set PYTHON=" in done.stderr
