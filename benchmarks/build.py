"""Builds of cpu-linux: cold and warm caches, nothing to do, one package changed, a damaged file.

Provision hashes every installed file, which the other tools do not; the row against ``uv and
sha256sum`` compares with a shell script that does the same.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Contestant, Row, compare, interleave
from benchmarks.verify import sha256sum
from benchmarks.workbench import PYTHON, TARGET, UV, Workbench, call
from provision.artifacts.pip_config import read_pip_config
from provision.installer.uv import interpreter
from provision.lockfile.pip import read_lock, render_requirements
from tests.small import artifact, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable

CHANGED = "iniconfig"  # small, pure and required by pytest alone
_LOCKED = ["--no-deps", "--require-hashes"]


def rows(bench: Workbench) -> list[Row]:
    """Return the rows of every kind of build."""
    return [
        *_warm(bench),
        *_no_op(bench),
        *_changed(bench),
        *_repaired(bench),
        *_cold(bench),
    ]


def _warm(bench: Workbench) -> list[Row]:
    """Compare builds from uv's warm cache, with the indexes and wheelhouses of this user."""
    prefix = bench.folder / "uv"
    build = bench.provision("build", TARGET, "--no-smoke")
    bare = [_venv(prefix), _install(bench, prefix, *_links())]
    remove = functools.partial(shutil.rmtree, prefix, ignore_errors=True)

    def bare_and_hashed() -> None:
        call(*bare)
        sha256sum(prefix)

    environments = bench.project() / ".envs"
    seconds = interleave(
        [
            Contestant("uv", lambda: call(*bare), remove),
            Contestant("uv and sha256sum", bare_and_hashed, remove),
            Contestant("provision", lambda: call(build), lambda: _remove(environments)),
        ],
        bench.rounds,
    )
    return compare("warm cache", seconds, "provision")


def _no_op(bench: Workbench) -> list[Row]:
    """Compare commands that find out that there is nothing to do."""
    bench.proven()
    prefix = bench.folder / "uv-no-op"
    # pip-sync needs a pip in the environment, and leaves it there.
    call([*_venv(prefix), "--seed"], _install(bench, prefix, *_links()))
    seconds = interleave(
        [
            Contestant("uv", lambda: call(_install(bench, prefix, *_links()))),
            Contestant("pip-sync", lambda: call(_pip_sync(bench, prefix, *_links()))),
            Contestant("provision", lambda: call(bench.provision("build", TARGET))),
        ],
        bench.rounds,
    )
    return compare("nothing to do", seconds, "provision")


def _changed(bench: Workbench) -> list[Row]:
    """Compare what follows when one locked package gets another version."""
    old = bench.lock().read_text(encoding="utf-8")
    new = _with_new_version(bench.lock(), bench.wheelhouse())
    env, links, build = _offline(bench)
    prefix = bench.folder / "uv-changed"
    call(_venv(prefix))
    install = _install(bench, prefix, *links)

    def write(text: str) -> None:
        bench.lock().write_text(text, encoding="utf-8")

    def go_back() -> None:
        write(old)
        call(build, env=env)
        current = (bench.project() / ".envs" / TARGET / "current").resolve()
        for folder in current.parent.iterdir():
            if (
                folder.is_dir()
                and folder.resolve() != current
                and folder.name != "reports"
            ):
                shutil.rmtree(folder)
        write(new)

    def go_back_in_place() -> None:
        write(old)
        call(install, env=env)
        write(new)

    seconds = interleave(
        [
            Contestant(
                "uv, in place", lambda: call(install, env=env), go_back_in_place
            ),
            Contestant(
                "uv, new environment",
                lambda: call(_venv(prefix), install, env=env),
                functools.partial(shutil.rmtree, prefix),
            ),
            Contestant("provision", lambda: call(build, env=env), go_back),
        ],
        bench.rounds,
    )
    write(old)
    return compare("one package changed", seconds, "provision")


def _repaired(bench: Workbench) -> list[Row]:
    """Compare repairs of one edited file; uv gets the name of its package."""
    env, links, build = _offline(bench)
    prefix = bench.folder / "uv-repaired"
    call(_venv(prefix), _install(bench, prefix, *links), env=env)
    call(build, env=env)
    reinstall = [*_install(bench, prefix, *links), "--reinstall-package", CHANGED]
    options = ["--no-smoke", "--offline", "--wheelhouse", str(bench.wheelhouse())]
    repair = [*bench.provision("verify", TARGET, "--deep", "--repair"), *options]
    current = bench.project() / ".envs" / TARGET / "current"
    seconds = interleave(
        [
            Contestant("uv", lambda: call(reinstall, env=env), lambda: _damage(prefix)),
            Contestant(
                "provision", lambda: call(repair, env=env), lambda: _damage(current)
            ),
        ],
        bench.rounds,
    )
    return compare("one file damaged", seconds, "provision")


def _cold(bench: Workbench) -> list[Row]:
    """Compare builds with empty caches from a folder of wheels; pip takes most of a minute."""
    env, links, build = _offline(bench)
    prefix = bench.folder / "cold"

    def empty() -> None:
        for folder in (prefix, Path(env["UV_CACHE_DIR"]), bench.project() / ".envs"):
            _remove(folder)

    by_pip = [
        str(prefix / "bin" / "python"),
        "-I",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-cache-dir",
        *_LOCKED,
        "-r",
        str(bench.lock()),
        *links,
    ]
    venv = [interpreter(PYTHON), "-m", "venv", str(prefix)]
    contestants: dict[str, Callable[[], None]] = {
        "uv": lambda: call(_venv(prefix), _install(bench, prefix, *links), env=env),
        "pip --require-hashes": lambda: call(venv, by_pip, env=env),
        "pip-sync": lambda: call(venv, _pip_sync(bench, prefix, *links), env=env),
        "provision": lambda: call(build, env=env),
    }
    # A third of the rounds, as pip needs most of a minute for each; a warm-up would warm nothing.
    seconds = interleave(
        [Contestant(name, work, empty) for name, work in contestants.items()],
        max(1, bench.rounds // 3),
        warm_up=False,
    )
    return compare("cold cache", seconds, "provision")


def _venv(prefix: Path) -> list[str]:
    return [UV, "venv", "--no-config", "--python", interpreter(PYTHON), str(prefix)]


def _install(bench: Workbench, prefix: Path, *more: str) -> list[str]:
    return [
        UV,
        "pip",
        "install",
        "--no-config",
        "--python",
        str(prefix),
        *_LOCKED,
        "-r",
        str(bench.lock()),
        *more,
    ]


def _pip_sync(bench: Workbench, prefix: Path, *more: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "piptools",
        "sync",
        "--no-config",
        "--quiet",
        "--python-executable",
        str(prefix / "bin" / "python"),
        str(bench.lock()),
        *more,
    ]


def _links() -> list[str]:
    return [
        word
        for folder in read_pip_config().wheelhouses
        for word in ("--find-links", str(folder))
    ]


def _offline(bench: Workbench) -> tuple[dict[str, str], list[str], list[str]]:
    """Return variables, uv's options and the build command for one wheelhouse and a fresh cache."""
    wheels = str(bench.wheelhouse())
    env = {"UV_CACHE_DIR": str(bench.folder / "cache"), "PIP_FIND_LINKS": wheels}
    build = [
        *bench.provision("build", TARGET, "--no-smoke"),
        "--offline",
        "--wheelhouse",
        wheels,
    ]
    return env, ["--no-index", "--find-links", wheels], build


def _with_new_version(lock: Path, wheelhouse: Path) -> str:
    """Put a new version of a package into a wheelhouse; return the lock that names it."""
    wheel = make_wheel(
        wheelhouse, CHANGED, "99.0", {f"{CHANGED}/__init__.py": "version = 99\n"}
    )
    old = read_lock(lock.parent)
    changed = {CHANGED: replace(artifact(wheel), index="default")}
    # Without the schema, which render_requirements() writes itself.
    header = {key: value for key, value in old.header.items() if key != "schema"}
    return render_requirements(header, [changed.get(a.name, a) for a in old.artifacts])


def _damage(prefix: Path) -> None:
    """Edit one installed file without touching uv's cache, to which it is linked."""
    (path,) = prefix.glob(f"lib/python3.*/site-packages/{CHANGED}/__init__.py")
    text = path.read_bytes() + os.linesep.encode()
    # A new file: uv hard-links from its cache, and writing in place would damage that as well.
    path.unlink()
    path.write_bytes(text)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
