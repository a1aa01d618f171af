"""``lock`` against bare uv and pip-compile: the committed targets, and generated ones."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from benchmarks.generated import make_packages, make_project, name_of, serve
from benchmarks.growth import series
from benchmarks.harness import Contestant, compare, interleave
from benchmarks.workbench import PROVISION, UV, Workbench, call
from provision.artifacts.pip_config import read_pip_config
from provision.catalog.digest import catalog_digest
from provision.resolver import local_index
from provision.resolver.resolver import offered
from provision.resolver.uv import compile_argv
from provision.spec.reader import load_target

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.harness import Row
    from provision.core.project import Project

TARGETS = (1, 4, 16, 64)
PACKAGES = (10, 100, 1000)
PIP_COMPILE_UP_TO = 100  # packages; it downloads every wheel, one after the other
_TOOL, _UV = "provision lock", "uv pip compile, one after the other"


def rows(bench: Workbench) -> list[Row]:
    """Return the rows of both kinds of targets."""
    return [*_committed(bench), *_targets(bench), *_packages(bench)]


def _committed(bench: Workbench) -> list[Row]:
    """Compare locking every target of this repository; Provision locks the conda layers as well."""
    from provision.core.project import Project  # noqa: PLC0415 - the type is needed by others

    project = Project(bench.project())
    mirror = read_pip_config().index_url
    env = {"UV_DEFAULT_INDEX": mirror} if mirror else {}
    # The local indexes must not be asked through a proxy.
    env["NO_PROXY"] = "127.0.0.1"
    with contextlib.ExitStack() as stack:
        commands = []
        for spec in sorted(project.specs.glob("*.toml")):
            target = load_target(project.specs, spec.stem)
            wheels = offered(target, project.catalog)
            digest = catalog_digest(project.catalog, target)
            indexes = stack.enter_context(local_index.serve(wheels, digest))
            commands.append(_compile(bench, target.name, indexes, project))
        seconds = interleave(
            [
                Contestant(_UV, lambda: call(*commands, env=env)),
                Contestant(
                    _TOOL, lambda: call(bench.provision("lock", "--check", "--resolve"))
                ),
            ],
            max(1, bench.rounds // 2),
        )
    return compare("all committed targets", seconds, _TOOL, size=len(commands))


def _compile(
    bench: Workbench, name: str, indexes: dict[str, str], project: Project
) -> list[str | Path]:
    """Return the bare command that resolves and hashes one target."""
    target = load_target(project.specs, name)
    requirements = bench.folder / f"{name}.in"
    requirements.write_text("\n".join(target.pip.requirements), encoding="utf-8")
    overrides = bench.folder / f"{name}.overrides"
    lines = [override.requirement for override in target.pip.overrides]
    overrides.write_text("\n".join(lines), encoding="utf-8")
    return [
        *compile_argv(UV, target, indexes),
        "--generate-hashes",
        "--overrides",
        overrides,
        requirements,
    ]


def _targets(bench: Workbench) -> list[Row]:
    """Compare 1 to 64 targets of 20 packages each."""
    return _series(bench, "targets", {size: (size, 20) for size in TARGETS})


def _packages(bench: Workbench) -> list[Row]:
    """Compare one target of 10 to 1,000 packages."""
    return _series(bench, "packages", {size: (1, size) for size in PACKAGES})


def _series(
    bench: Workbench, case: str, shapes: dict[int, tuple[int, int]]
) -> list[Row]:
    with contextlib.ExitStack() as stack:
        sizes = {}
        for size, (targets, packages) in shapes.items():
            folder = bench.folder / f"{case}-{size}"
            make_packages(folder / "index", packages)
            url = stack.enter_context(serve(folder / "index"))
            sizes[size] = _generated(bench, folder, url, targets)
            if targets == 1 and packages <= PIP_COMPILE_UP_TO:
                sizes[size].append(_pip_compile(folder, url))
        return series(f"generated {case}", case, sizes, bench.rounds)


def _generated(
    bench: Workbench, folder: Path, url: str, targets: int
) -> list[Contestant]:
    """Return the contestants on generated targets; each size has its own warm cache."""
    project = make_project(folder / "project", targets, name_of(1))
    env = _environment(folder, url)
    bare = [
        _compile(bench, path.stem, {}, project) for path in project.specs.glob("*.toml")
    ]
    ours = [*PROVISION, "lock", "--project", str(project.root)]
    return [
        Contestant(_TOOL, lambda: call(ours, env=env)),
        Contestant(_UV, lambda: call(*bare, env=env)),
    ]


def _pip_compile(folder: Path, url: str) -> Contestant:
    source, pins = folder / "source.in", folder / "pins.txt"
    source.write_text(name_of(1), encoding="utf-8")
    compile_ = [
        sys.executable,
        "-m",
        "piptools",
        "compile",
        "--quiet",
        "--no-config",
        "--generate-hashes",
        "--output-file",
        str(pins),
        str(source),
    ]
    return Contestant(
        "pip-compile", lambda: call(compile_, env=_environment(folder, url))
    )


def _environment(folder: Path, url: str) -> dict[str, str]:
    return {
        "UV_CACHE_DIR": str(folder / "cache"),
        "UV_DEFAULT_INDEX": url,
        "PIP_CACHE_DIR": str(folder / "pip-cache"),
        "PIP_INDEX_URL": url,
        "NO_PROXY": "127.0.0.1",
    }
