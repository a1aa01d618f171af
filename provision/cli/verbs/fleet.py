"""the state of many nodes, from the verdicts that `--contract` wrote."""

from provision.cli.call import Call, Outcome, findings_if
from provision.core.errors import UsageError, damage_in

ANYWHERE = True


def handle(call: Call) -> Outcome:
    import datetime as dt

    from provision.core.filesystem import write_atomic
    from provision.core.limits import read_text
    from provision.report.fleet import report_fleet
    from provision.ui.html_report import render_fleet
    from provision.ui.results import show_fleet

    wanted = call.arguments
    if not wanted.folder.is_dir():
        raise UsageError(
            f"{wanted.folder} is no folder", remedy="name that of the verdicts"
        )
    with damage_in(wanted.hosts, "--hosts names a text file with a node in each line"):
        lines = read_text(wanted.hosts).splitlines() if wanted.hosts else []
    hosts = filter(None, (line.partition("#")[0].strip() for line in lines))
    oldest = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=wanted.max_age)
    found = report_fleet(wanted.folder, hosts, oldest)
    if wanted.html:
        write_atomic(wanted.html, render_fleet(found))
    return Outcome(found, show_fleet, findings_if(found.bad))
