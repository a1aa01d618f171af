"""What the handler of a verb gets, and what it returns."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from provision.core.errors import Exit, UsageError
from provision.core.project import Project

if TYPE_CHECKING:
    from provision.commands.build import BuildRequest
    from provision.installer.install import ArtifactSources
    from provision.lockfile.pip import Lock
    from provision.spec.model import Target
    from provision.ui.console import Console

# Parsing a command line loads neither pydantic nor rich.
# ruff: noqa: PLC0415

Result = TypeVar("Result")
Parser = ArgumentParser
_LONGEST = 30 * 86400  # seconds


class Call:
    """A command as it was typed, and what several verbs need of it."""

    def __init__(self, arguments: Namespace, project: Project, console: Console) -> None:
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
        from provision.commands.machine import read_layers, why_device_is_absent
        from provision.commands.request import require_platform

        project, target = self.project, self.target
        require_platform(target)
        if target.status == "legacy":
            self.console.note(f"{target.name} is legacy: {target.reason}")
        return BuildRequest(
            project, target, self.lock, self.supply, smoke=not self.arguments.no_smoke,
            absent=why_device_is_absent(project, target), stack=lambda: read_layers(project),
        )  # fmt: skip


class Outcome:
    """The result of a verb, the function that prints it, and the exit code.

    Both are arguments of one constructor, so that ``nox -s lint`` reports a function that does not
    take this type of result, and no result can be returned without one.
    """

    def __init__(
        self, result: Result, show: Callable[[Result, Console], None], code: int = Exit.OK
    ) -> None:
        self.result: object = result
        self.show = lambda console: show(result, console)
        self.code = code


def each(show: Callable[[Result, Console], None]) -> Callable[[list[Result], Console], None]:
    """Return the view of a list of results, from the view of one; an error is shown as such."""

    def show_each(results: list[Result], console: Console) -> None:
        for result in results:
            if error := getattr(result, "error", None):
                console.error(error)
            else:
                show(result, console)

    return show_each


def seconds(text: str) -> float:
    """Return a time such as ``90s``, as the type of an option."""
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:])
    if unit is None or not text[:-1].isdecimal() or not 1 <= int(text[:-1]) * unit <= _LONGEST:
        raise ArgumentTypeError(f"{text!r} is no time from 1s to 30d, such as 90s, 10m or 2h")
    return float(int(text[:-1]) * unit)


def findings_if(bad: object) -> Exit:
    """Return the exit code of a verb that judges."""
    return Exit.FINDINGS if bad else Exit.OK


def add_wheelhouse(parser: Parser) -> None:
    """Add ``--wheelhouse``."""
    parser.add_argument(
        "--wheelhouse", type=Path, action="append", default=[], metavar="DIR",
        help="a folder of wheels to use first; may be given again",
    )  # fmt: skip


def add_build_options(parser: Parser) -> None:
    """Add what ``build`` and ``verify --repair`` take."""
    add_wheelhouse(parser)
    parser.add_argument("--offline", action="store_true", help="ask no index")
    parser.add_argument("--no-smoke", action="store_true", help="leave out the quick checks")


def add_contract(parser: Parser) -> None:
    """Add ``--contract`` and what belongs to it; :mod:`provision.cli.contract` keeps it."""
    add = parser.add_argument_group("for schedulers, see docs/fleet.md").add_argument
    engines = ("slurm", "kubernetes", "prometheus")
    exits = "exit with 0 keep, 1 remove, 2 no verdict; for %(choices)s"
    add("--contract", choices=engines, metavar="SCHEDULER", help=exits)
    add("-o", "--output", type=Path, metavar="FILE", help="its text, else on stdout")
    add("--verdicts", type=Path, metavar="DIR", help="keeps its JSON; default .envs/verdicts")
    add("--node", metavar="NAME", help="default $SLURMD_NODENAME, or the name of the host")
    add("--idle", action="store_true", help="no verdict while another process uses the device")
    add("--time-limit", type=seconds, metavar="TIME", help="no verdict after it")


def is_contract(arguments: Namespace) -> bool:
    """Whether a command is to keep the contract; its other options mean nothing without it."""
    wanted = getattr(arguments, "contract", "")  # None where the verb has it
    for name in ("output", "verdicts", "node", "idle", "time_limit"):
        if wanted is None and getattr(arguments, name):
            raise UsageError(f"--{name.replace('_', '-')} has no meaning without --contract")
    return bool(wanted)
