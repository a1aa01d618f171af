"""the state of many nodes, from the verdicts that `--contract` wrote."""

import datetime as dt
from pathlib import Path

from provision.cli.call import Call, Outcome, Parser, findings_if, seconds
from provision.core.errors import UsageError, os_errors

ANYWHERE = True


def add_arguments(parser: Parser) -> None:
    parser.add_argument("action", choices=("report",))
    parser.add_argument("folder", type=Path, metavar="DIR", help="verdicts, at any depth")
    parser.add_argument("--hosts", type=Path, metavar="FILE", help="expected nodes, one a line")
    parser.add_argument(
        "--max-age", type=seconds, default="24h", metavar="TIME", help="older is stale; default 24h"
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page as well")


def handle(call: Call) -> Outcome:
    from provision.core.filesystem import write_atomic
    from provision.core.limits import read_text
    from provision.report.fleet import report_fleet
    from provision.ui.results import show_fleet

    wanted = call.arguments
    if not wanted.folder.is_dir():
        raise UsageError(f"{wanted.folder} is no folder", remedy="name the one with the verdicts")
    with os_errors(f"cannot read {wanted.hosts}", remedy="write a name of a node on each line"):
        lines = read_text(wanted.hosts).splitlines() if wanted.hosts else []
    hosts = filter(None, (line.partition("#")[0].strip() for line in lines))
    oldest = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=wanted.max_age)
    fleet = report_fleet(wanted.folder, hosts, oldest)
    if wanted.html:
        from provision.ui.html_report import render_fleet

        write_atomic(wanted.html, render_fleet(fleet))
    return Outcome(fleet, show_fleet, findings_if(fleet.bad))
