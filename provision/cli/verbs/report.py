"""write an HTML page of a target's reports on this host."""

from argparse import ArgumentParser
from pathlib import Path

from provision.cli.call import Call, Outcome
from provision.cli.options import add_output, add_target
from provision.commands.export import Export
from provision.core.errors import UsageError
from provision.core.output import write_output
from provision.core.program import program_name
from provision.core.text import plural
from provision.report.history import history, read_reports
from provision.ui.html_report import EARLIER, MARK, render_page
from provision.ui.results import show_page


def declare(parser: ArgumentParser) -> None:
    add_target(parser)
    add_output(parser, "the file to write; default TARGET.html")


def handle(call: Call) -> Outcome:
    name = call.target.name
    reports = list(read_reports(history(call.project, name), call.console.note))
    if not reports:
        raise UsageError(
            f"{name} has no report on this host",
            remedy=f"`{program_name()} smoke {name}` makes one",
        )
    out = call.arguments.output or Path(f"{name}.html")
    write_output(out, render_page(reports), MARK, EARLIER)
    notes = (f"it shows {plural(len(reports), 'report')}",)
    return Outcome(Export(name, "html", out, "", (), notes), show_page)
