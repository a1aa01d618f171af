"""print the JSON Schema of a spec, a verdict, a statement of evidence, or of a verb's `--json`."""

import json
from argparse import ArgumentParser

from provision.cli.call import Call, Outcome
from provision.report.evidence import Statement
from provision.report.verdict import Verdict
from provision.spec.schema import spec_schema
from provision.ui.console import print_text
from provision.ui.documents import RESULTS, document_schema

ANYWHERE = True
_DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def declare(parser: ArgumentParser) -> None:
    parser.add_argument(
        "of",
        nargs="?",
        choices=("spec", "verdict", "statement", *RESULTS),
        default="spec",
        metavar="OF",
        help="spec (default), verdict, statement (of evidence), a verb for its --json, or usage for "
        "a wrong command line",
    )


def handle(call: Call) -> Outcome:
    match call.arguments.of:
        case "spec":
            schema = spec_schema()
        case "verdict":
            schema = _DIALECT | Verdict.model_json_schema()
        case "statement":
            schema = _DIALECT | Statement.model_json_schema()
        case verb:
            schema = document_schema(verb)
    return Outcome(
        schema, lambda schema, _: print_text(json.dumps(schema, indent=2) + "\n")
    )
