"""one HTML page of a target's reports on this host."""

from pathlib import Path

from provision.cli.call import Call, Outcome
from provision.core.errors import UsageError
from provision.core.program import program_name


def handle(call: Call) -> Outcome:
    from provision.commands.export import Export
    from provision.core.filesystem import write_atomic
    from provision.core.text import plural
    from provision.report.history import history, read_reports
    from provision.ui.html_report import render_page
    from provision.ui.results import show_export

    name = call.target.name
    kept = list(read_reports(history(call.project, name), call.console.note))
    if not kept:
        raise UsageError(
            f"{name} has no report on this host",
            remedy=f"`{program_name()} smoke {name}` makes one",
        )
    out = call.arguments.output or Path(f"{name}.html")
    write_atomic(out, render_page(kept))
    made = Export(
        name, "html", out, "", (), (f"it shows {plural(len(kept), 'report')}",)
    )
    return Outcome(made, show_export)
