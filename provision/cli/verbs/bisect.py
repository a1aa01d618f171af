"""find the first release of a package with which a check or a program fails."""

from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path

from provision.artifacts.pip_config import PipConfig
from provision.cli.call import Call, Outcome, findings_if
from provision.cli.options import add_offline, add_target, add_wheelhouse
from provision.cli.verbs.lock import make_resolver
from provision.commands.bisect import Bisector
from provision.commands.bisect_candidates import local_wheels, require_version
from provision.commands.bisect_history import failing_checks
from provision.commands.bisect_result import BisectRequest
from provision.commands.machine import read_layers
from provision.commands.request import (
    artifact_sources,
    require_fresh_lock,
    require_platform,
)
from provision.core.errors import UsageError
from provision.core.process import run
from provision.resolver.resolver import Resolver
from provision.spec.model import requirement_name
from provision.ui.bisect import plan_lines, show_bisection


def declare(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("--check", default="", metavar="ID", help="the check to run")
    parser.add_argument(
        "--package",
        default="",
        metavar="NAME",
        help="search releases of NAME; default: what changed since the last good report, else torch",
    )
    parser.add_argument(
        "--good",
        default="",
        metavar="VERSION",
        help="a good release; default: that of the last good report, else the oldest that fits",
    )
    parser.add_argument(
        "--bad",
        default="",
        metavar="VERSION",
        help="a bad release; default: the locked one",
    )
    parser.add_argument(
        "--plan",
        action="store_true",
        help="print releases, builds and downloads, and build nothing",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep what was built, until `clean`"
    )
    add_wheelhouse(parser)
    add_offline(parser)
    parser.add_argument(
        "command",
        nargs="*",
        metavar="CMD",
        help="after --: a program in place of a check; it ends with 0 for good, 125 to skip a "
        "release, another code up to 127 for bad",
    )


def handle(call: Call) -> Outcome:
    request = _request(call)
    bisector = Bisector(request, _resolver(call, request), run, call.console)
    plan = bisector.plan()
    if call.arguments.plan:
        return Outcome(plan, show_bisection)
    call.console.note("\n".join(plan_lines(plan)))
    result = bisector.search()
    return Outcome(result, show_bisection, findings_if(not result.suspects))


def _request(call: Call) -> BisectRequest:
    project, options, target = call.project, call.arguments, call.target
    for option in ("good", "bad"):
        if text := getattr(options, option):
            require_version(f"--{option}", text)
    if bool(options.check) == bool(options.command):
        raise _undecided(call)
    if not options.plan:  # of another machine's environment, the downloads can be told
        require_platform(target)
    return BisectRequest(
        project,
        target,
        require_fresh_lock(project, target),
        artifact_sources(project, target, options.wheelhouse, offline=options.offline),
        read_layers(project),
        options.check,
        tuple(options.command),
        requirement_name(options.package) if options.package else "",
        options.good,
        options.bad,
        options.keep,
    )


def _undecided(call: Call) -> UsageError:
    """The error of a command line with both a check and a program, or neither."""
    failing = failing_checks(call.project, call.target, call.console.note)
    remedy = "`--check ID` runs a check, `-- CMD…` a program"
    if failing:
        remedy += f"; in the last report failed: {', '.join(failing)}"
    return UsageError("bisect takes a check or a program, one of them", remedy=remedy)


def _resolver(call: Call, request: BisectRequest) -> Resolver:
    """The resolver of the project; offline, of the wheels that the wheelhouses have."""
    resolver = make_resolver(call)
    if not call.arguments.offline:
        return resolver
    houses: tuple[Path, ...] = request.supply.wheelhouses
    wheels = local_wheels(houses, request.target, request.lock)
    sources = PipConfig(None, houses)
    return replace(resolver, sources=sources, local=wheels)
