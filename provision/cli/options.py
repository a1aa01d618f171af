"""Options that several verbs share, and the types of options."""

from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST = 30 * 86400  # seconds


def seconds(text: str) -> float:
    """A time such as ``90s``, as the type of an option."""
    number, unit = text[:-1], text[-1:]
    if number.isdecimal() and unit in _SECONDS:
        time = int(number) * _SECONDS[unit]
        if 1 <= time <= _LONGEST:
            return float(time)
    raise ArgumentTypeError(
        f"{text!r} is no time from 1s to 30d, such as 90s, 10m or 2h"
    )


def add_common(parser: ArgumentParser) -> None:
    """Add the options of every verb."""
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON on stdout"
    )
    parser.add_argument(
        "-C",
        "--project",
        type=Path,
        metavar="DIR",
        help="the project's folder; default: the current one, or one above",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print no progress")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="show every check, and every command that runs",
    )


def add_target(parser: ArgumentParser, also: str = "the target's name") -> None:
    """Add the one target that a verb is about."""
    parser.add_argument("target", help=also)


def add_targets(parser: ArgumentParser, also: str = "default: all targets") -> None:
    """Add the targets that a verb is about."""
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=also)


def add_output(parser: ArgumentParser, about: str) -> None:
    """Add the file that a verb writes."""
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=about)


def add_wheelhouse(parser: ArgumentParser) -> None:
    """Add folders of wheels."""
    parser.add_argument(
        "--wheelhouse",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a folder of wheels to use first; may be given again",
    )


def add_build(parser: ArgumentParser) -> None:
    """Add what every verb takes that builds."""
    add_wheelhouse(parser)
    add_offline(parser)
    parser.add_argument(
        "--no-smoke",
        action="store_true",
        help="skip the quick checks; the environment is not proven then",
    )


def add_offline(parser: ArgumentParser) -> None:
    """Add what leaves the network out of a build."""
    parser.add_argument(
        "--offline",
        action="store_true",
        help="build from wheelhouses and uv's cache only",
    )


def add_contract(parser: ArgumentParser) -> None:
    """Add what makes a verb keep the contract with a scheduler."""
    group = parser.add_argument_group("for schedulers, docs/how-to/fleet.md")
    group.add_argument(
        "--contract",
        choices=("slurm", "kubernetes", "prometheus"),
        metavar="SCHEDULER",
        help="exit with 0 keep, 1 remove, 2 no verdict; for %(choices)s",
    )
    group.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the file for the verdict's text; default stdout",
    )
    group.add_argument(
        "--verdicts",
        type=Path,
        metavar="DIR",
        help="the folder for the verdict's JSON; default .envs/verdicts",
    )
    group.add_argument(
        "--node",
        metavar="NAME",
        help="the node's name; default $SLURMD_NODENAME, or the name of the host",
    )
    group.add_argument(
        "--idle",
        action="store_true",
        help="give no verdict if another process uses the device",
    )
    group.add_argument(
        "--time-limit",
        type=seconds,
        metavar="TIME",
        help="give no verdict after this time",
    )
