"""report the state of many nodes, from the verdicts that `--contract` wrote."""

import datetime as dt
from argparse import ArgumentParser
from pathlib import Path

from provision.cli.call import Call, Outcome, findings_if
from provision.cli.options import seconds
from provision.core.errors import UsageError, damage_in
from provision.core.limits import read_text
from provision.core.output import write_output
from provision.report.fleet import report_fleet
from provision.ui.html_report import EARLIER_FLEET, MARK, render_fleet
from provision.ui.results import show_fleet

ANYWHERE = True


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("report",), help="print the report")
    parser.add_argument(
        "folder",
        type=Path,
        metavar="DIR",
        help="the folder of the verdicts; its subfolders are read, too",
    )
    parser.add_argument(
        "--hosts",
        type=Path,
        metavar="FILE",
        help="a file with the expected nodes, one per line",
    )
    parser.add_argument(
        "--max-age",
        type=seconds,
        default="24h",
        metavar="TIME",
        help="count older verdicts as stale; default 24h",
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write an HTML page as well"
    )


def handle(call: Call) -> Outcome:
    options = call.arguments
    hosts = []
    if not options.folder.is_dir():
        raise UsageError(
            f"{options.folder} is no folder", remedy="name that of the verdicts"
        )
    if options.hosts:
        with damage_in(
            options.hosts, "--hosts names a text file with a node in each line"
        ):
            lines = read_text(options.hosts).splitlines()
        for line in lines:
            name = line.partition("#")[0].strip()
            if name:
                hosts.append(name)
    oldest = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=options.max_age)
    fleet = report_fleet(options.folder, hosts, oldest)
    if options.html:
        write_output(options.html, render_fleet(fleet), MARK, EARLIER_FLEET)
    return Outcome(fleet, show_fleet, findings_if(fleet.bad))
