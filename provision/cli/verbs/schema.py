"""print the JSON Schema of a spec, or of the verdict on a node."""

import json

from provision.cli.call import Call, Parser
from provision.core.errors import Exit

ANYWHERE = True


def add_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("of", nargs="?", choices=("spec", "verdict"), default="spec", help="which; default spec")


def handle(call: Call) -> int:
    from provision.ui.console import print_text

    if call.arguments.of == "spec":
        from provision.spec.model import spec_schema as made
    else:
        from provision.report.verdict import verdict_schema as made
    print_text(json.dumps(made(), indent=2) + "\n")
    return Exit.OK
