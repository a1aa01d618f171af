"""The generation of a target that is in use, for verbs that need one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.errors import UsageError
from provision.core.filesystem import read_link
from provision.core.project import CURRENT, RECORD, Project

if TYPE_CHECKING:
    from provision.environment.manifest import Generation


def require_current(project: Project, target: str) -> Generation:
    """Return the current generation of a target."""
    from provision.environment.manifest import current_generation  # noqa: PLC0415 - loads pydantic

    now = current_generation(project.environments(target))
    if now is None:
        raise UsageError.of("not-built", target=target)
    return now


def hold_current(project: Project, target: str) -> tuple[Generation, int | None]:
    """Return the current generation, and the descriptor that keeps it from being removed."""
    from provision.core.in_use import hold  # noqa: PLC0415 - for verbs that run something only
    from provision.core.prefix import environment_python  # noqa: PLC0415

    now = require_current(project, target)
    # Another process may have removed it since the link was read; one that nobody can hold runs.
    while (held := hold(now.folder)) is None and not (now.folder / RECORD).is_file():
        now = require_current(project, target)
    if not (python := environment_python(now.folder)).exists():
        # PATH would lead to another Python.
        evidence = f"{python} is gone, or links to an interpreter that is"
        raise UsageError.of("gone-python", evidence, target=target)
    return now, held


def current_folder(project: Project, target: str) -> Path:
    """Return the folder of the current generation; its record is not read."""
    folder = read_link(project.environments(target) / CURRENT)
    if folder is None or not (folder / RECORD).is_file():
        raise UsageError.of("not-built", target=target)
    return folder
