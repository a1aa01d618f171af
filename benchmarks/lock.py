"""``lock`` of the committed targets against bare uv."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from benchmarks.harness import Contestant, compare, interleave
from benchmarks.workbench import UV, Workbench, call
from provision.artifacts.pip_config import read_pip_config
from provision.catalog.digest import catalog_digest
from provision.core.platforms import PLATFORMS
from provision.resolver import local_index
from provision.resolver.resolver import offered
from provision.resolver.uv import compile_argv
from provision.spec.reader import load_target

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.harness import Row
    from provision.core.project import Project

_TOOL, _UV = "provision lock", "uv pip compile, one after the other"


def rows(bench: Workbench) -> list[Row]:
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
            if not project.lock(target.name).exists():  # its catalog is not complete
                continue
            env |= PLATFORMS[target.platform].resolver
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
    return compare(f"all {len(commands)} committed targets", seconds, _TOOL)


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
