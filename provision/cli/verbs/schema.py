"""print the JSON Schema of a spec, of the verdict on a node, or of a verb's `--json`."""

import json

from provision.cli.call import Call, Outcome

ANYWHERE = True


def handle(call: Call) -> Outcome:
    from provision.ui.console import print_text

    if call.arguments.of == "spec":
        from provision.spec.model import spec_schema

        made = spec_schema()
    elif call.arguments.of == "verdict":
        from provision.report.verdict import verdict_schema

        made = verdict_schema()
    else:
        from provision.ui.documents import document_schema

        made = document_schema(call.arguments.of)
    return Outcome(made, lambda made, _: print_text(json.dumps(made, indent=2) + "\n"))
