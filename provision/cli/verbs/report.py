"""one HTML page of a target's reports on this host."""

from pathlib import Path

from provision.cli.call import Call, Parser
from provision.core.errors import Exit, UsageError
from provision.core.program import program_name


def add_arguments(parser: Parser) -> None:
    parser.add_argument("target", help="the target's name")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: TARGET.html")


def handle(call: Call) -> int:
    from provision.core.filesystem import write_atomic
    from provision.report.history import history, read_reports
    from provision.ui.html_report import render_page

    name = call.target.name
    kept = list(read_reports(history(call.project, name), call.console.note))
    if not kept:
        what = f"{name} has no report on this host"
        raise UsageError(what, remedy=f"`{program_name()} smoke {name}` makes one")
    out = call.arguments.output or Path(f"{name}.html")
    write_atomic(out, render_page(kept))
    call.console.line(f"{out}: {len(kept)} reports")
    return Exit.OK
