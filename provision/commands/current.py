"""The generation of a target that is in use, for verbs that need one."""

from pathlib import Path

from provision.core.errors import UsageError
from provision.core.filesystem import read_link
from provision.core.in_use import hold
from provision.core.prefix import environment_python
from provision.core.program import program_name
from provision.core.project import CURRENT, RECORD, Project
from provision.environment.manifest import Generation, current_generation


def not_built(target: str) -> UsageError:
    """Return the error about a target that has no environment."""
    return UsageError(
        f"{target} is not built",
        remedy=f"build it with `{program_name()} build {target}`",
    )


def require_current(project: Project, target: str) -> Generation:
    """Return the current generation of a target."""
    now = current_generation(project.environments(target))
    if now is None:
        raise not_built(target)
    return now


def hold_current(project: Project, target: str) -> tuple[Generation, int | None]:
    """Return the current generation, and the descriptor that keeps it from being removed."""
    now = require_current(project, target)
    held = hold(now.folder)
    # Another process may have removed it since the link was read; one that nobody can hold runs.
    while held is None and not (now.folder / RECORD).is_file():
        now = require_current(project, target)
        held = hold(now.folder)
    python = environment_python(now.folder)
    if not python.exists():  # PATH would lead to another Python
        raise UsageError(
            f"{target} cannot run",
            evidence=f"{python} is gone, or links to an interpreter that is",
            remedy=f"`{program_name()} build {target}`",
        )
    return now, held


def current_folder(project: Project, target: str) -> Path:
    """Return the folder of the current generation; its record is not read."""
    folder = read_link(project.environments(target) / CURRENT)
    if folder is None or not (folder / RECORD).is_file():
        raise not_built(target)
    return folder
