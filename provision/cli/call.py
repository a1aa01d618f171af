"""What the handler of a verb gets, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from provision.core.errors import Exit, UsageError
from provision.core.project import Project

if TYPE_CHECKING:
    from argparse import Namespace

    from provision.commands.build import BuildRequest
    from provision.installer.install import ArtifactSources
    from provision.lockfile.pip import Lock
    from provision.spec.model import Target
    from provision.ui.console import Console

# Parsing a command line loads neither pydantic nor rich.
# ruff: noqa: PLC0415

Result = TypeVar("Result")


class Call:
    """A command as it was typed, and what several verbs need of it."""

    def __init__(
        self, arguments: Namespace, project: Project, console: Console
    ) -> None:
        self.arguments = arguments
        self.project = project
        self.console = console

    @cached_property
    def target(self) -> Target:
        """The spec of the target that is named."""
        from provision.spec.reader import load_target

        return load_target(self.project.specs, self.arguments.target)

    @cached_property
    def lock(self) -> Lock:
        """Its lock, which is fresh."""
        from provision.commands.request import require_fresh_lock

        return require_fresh_lock(self.project, self.target)

    @cached_property
    def supply(self) -> ArtifactSources:
        """Where its artifacts come from."""
        from provision.commands.request import artifact_sources

        houses = getattr(self.arguments, "wheelhouse", ())
        offline = getattr(self.arguments, "offline", False)
        return artifact_sources(self.project, self.target, houses, offline=offline)

    def build_request(self) -> BuildRequest:
        """Return what to build, for a verb with the options of a build."""
        from provision.commands.build import BuildRequest
        from provision.commands.detect import why_device_is_absent
        from provision.commands.machine import read_layers
        from provision.commands.request import require_platform

        project, target = self.project, self.target
        require_platform(target)
        if target.status == "legacy":
            self.console.note(f"{target.name} is legacy: {target.reason}")
        return BuildRequest(
            project,
            target,
            self.lock,
            self.supply,
            smoke=not self.arguments.no_smoke,
            absent=why_device_is_absent(project, target),
            stack=lambda: read_layers(project),
        )


class Outcome:
    """The result of a verb, the function that prints it, and the exit code.

    Both are arguments of one constructor, so that ``nox -s lint`` reports a function that does not
    take this type of result, and no result can be returned without one.
    """

    def __init__(
        self,
        result: Result,
        show: Callable[[Result, Console], None],
        code: int = Exit.OK,
    ) -> None:
        self.result: object = result
        self.show = lambda console: show(result, console)
        self.code = code


def each(
    show: Callable[[Result, Console], None],
) -> Callable[[list[Result], Console], None]:
    """Return the view of a list of results, from the view of one; an error is shown as such."""

    def show_each(results: list[Result], console: Console) -> None:
        for result in results:
            if error := getattr(result, "error", None):
                console.error(error)
            else:
                show(result, console)

    return show_each


def findings_if(bad: object) -> Exit:
    """Return the exit code of a verb that judges."""
    return Exit.FINDINGS if bad else Exit.OK


def is_contract(arguments: Namespace) -> bool:
    """Whether a command is to keep the contract; its other options mean nothing without it."""
    wanted = getattr(arguments, "contract", "")  # None where the verb has it
    for name in ("output", "verdicts", "node", "idle", "time_limit"):
        if wanted is None and getattr(arguments, name):
            raise UsageError(
                f"--{name.replace('_', '-')} has no meaning without --contract"
            )
    return bool(wanted)
