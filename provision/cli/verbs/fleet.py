"""the state of many nodes, from the verdicts that `--contract` wrote."""

from pathlib import Path

from provision.cli.call import Call, Outcome, Parser, findings_if, seconds
from provision.core.errors import UsageError, damage_in

ANYWHERE = True


def add_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("action", choices=("report",), help="what is made")
    add("folder", type=Path, metavar="DIR", help="verdicts, at any depth")
    add("--hosts", type=Path, metavar="FILE", help="the nodes that are expected, one a line")
    add("--max-age", type=seconds, default="24h", metavar="TIME", help="of a verdict; default 24h")
    add("--html", type=Path, metavar="FILE", help="write a page as well")


def handle(call: Call) -> Outcome:
    import datetime as dt

    from provision.core.filesystem import write_atomic
    from provision.core.limits import read_text
    from provision.report.fleet import report_fleet
    from provision.ui.html_report import render_fleet
    from provision.ui.results import show_fleet

    wanted = call.arguments
    if not wanted.folder.is_dir():
        raise UsageError(f"{wanted.folder} is no folder", remedy="name that of the verdicts")
    with damage_in(wanted.hosts, "--hosts names a text file with a node in each line"):
        lines = read_text(wanted.hosts).splitlines() if wanted.hosts else []
    hosts = filter(None, (line.partition("#")[0].strip() for line in lines))
    oldest = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=wanted.max_age)
    found = report_fleet(wanted.folder, hosts, oldest)
    if wanted.html:
        write_atomic(wanted.html, render_fleet(found))
    return Outcome(found, show_fleet, findings_if(found.bad))
