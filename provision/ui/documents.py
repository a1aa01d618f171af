"""The published JSON Schema of what each verb prints with ``--json``, from its results' classes."""

import inspect
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from provision.commands.bisect_result import Bisection
from provision.commands.build_request import BuildResult
from provision.commands.bundle import Bundle
from provision.commands.detect import Detection
from provision.commands.edit_spec import Edited
from provision.commands.evidence import Evidence
from provision.commands.explanation import Explanation
from provision.commands.export import Export
from provision.commands.freshness import Freshness
from provision.commands.generations import Cleaned, RolledBack
from provision.commands.init import Initialized
from provision.commands.lock import Confirmation, LockResult
from provision.commands.outdated import Outdated
from provision.commands.smoke import SmokeResult, SmokeSkipped
from provision.commands.status import ProjectStatus
from provision.commands.submissions import Submission
from provision.commands.update import RefreshResult
from provision.core.docstrings import field_docstrings
from provision.core.findings import Diagnosis
from provision.environment.verification import Verification
from provision.image.docker import BuiltImage
from provision.lockfile import sbom
from provision.report.fleet import Fleet
from provision.report.model import Measurement
from provision.report.verdict import Verdict
from provision.ui.console import SCHEMA


@dataclass
class Error:
    """What stopped the verb; a part without anything to say is empty."""

    what: str
    """What failed."""
    evidence: str
    """What was read or seen, as it was."""
    cause: str
    """Why, where that is known."""
    remedy: str
    """What to do: a command, or a sentence."""


@dataclass
class Failure:
    """The result of a verb that was stopped."""

    error: Error
    """Why it was stopped."""


def _said(kind: Any, description: str) -> Any:  # noqa: ANN401 - forms of types
    return Annotated[kind, Field(description=description)]


_CONTRACT = _said(Verdict, "With `--contract`.")
_BILL = {
    "description": f"The bill of materials, CycloneDX {sbom.VERSION}.",
    "type": "object",
    "properties": {
        "bomFormat": {"const": "CycloneDX"},
        "specVersion": {"const": sbom.VERSION},
    },
    "required": ["bomFormat", "specVersion", "components"],
}
_SCHEMA = {
    "description": "A JSON Schema, draft 2020-12.",
    "type": "object",
    "required": ["$schema", "properties"],
}
RESULTS: dict[str, Any] = {
    "add": list[Edited],
    "bisect": Bisection,
    "build": BuildResult,
    "bundle": Bundle,
    "clean": list[Cleaned],
    "completion": _said(str, "What the shell reads."),
    "detect": Detection,
    "docker": BuiltImage | _said(Export, "With `--print`."),
    "doctor": Diagnosis | _said(str, "With `--report`: the text for an issue."),
    "evidence": list[Evidence]
    | _said(Submission, "With `submit`.")
    | _said(
        BuildResult | SmokeResult,
        "With `submit TARGET`, where the build or a check failed.",
    ),
    "explain": list[Explanation],
    "export": Export,
    "fleet": Fleet,
    "gate": Verdict,
    "init": Initialized,
    "lock": list[LockResult]
    | _said(list[Freshness], "With `--check`.")
    | _said(list[Confirmation], "With `--check --engine pip-tools`."),
    "outdated": list[Outdated],
    "remove": list[Edited],
    "report": Export,
    "rollback": RolledBack,
    "run": _said(
        Failure,
        "Only why the program was not started: a program that runs has the standard output to itself.",
    ),
    "sbom": Annotated[dict[str, Any], WithJsonSchema(_BILL)],
    "schema": Annotated[dict[str, Any], WithJsonSchema(_SCHEMA)],
    "smoke": SmokeResult
    | _said(SmokeSkipped, "With `--if-driver-changed`, where nothing changed.")
    | _CONTRACT,
    "targets": ProjectStatus,
    "update": list[RefreshResult],
    "usage": _said(Failure, "What is wrong with a command line that names no verb."),
    "verify": Verification
    | _said(BuildResult, "With `--repair`, where anything differed.")
    | _CONTRACT,
}


class _Generator(GenerateJsonSchema):
    """Every field is required and described by its docstring; no other is printed."""

    def field_title_should_be_set(self, _: object) -> bool:
        """The name of a field says as much."""
        return False

    def default_schema(self, schema: Any) -> JsonSchemaValue:  # noqa: ANN401 - pydantic's own
        """A default is printed as any other value."""
        return self.generate_inner(schema["schema"])

    def float_schema(self, schema: Any) -> JsonSchemaValue:  # noqa: ANN401 - as above
        """What JSON has no number for is a text; see :func:`provision.core.text.json_text`."""
        number = {"type": "number"}
        if schema.get("allow_inf_nan") is False:
            return number
        return {"anyOf": [number, {"enum": ["NaN", "Infinity", "-Infinity"]}]}

    def is_instance_schema(self, _: object) -> JsonSchemaValue:
        """ProvisionError is the one class that is neither a model nor a dataclass."""
        return self.generate_inner(TypeAdapter(Error).core_schema)

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:  # noqa: ANN401 - as above
        return _closed(super().dataclass_schema(schema), schema["cls"])

    def model_schema(self, schema: Any) -> JsonSchemaValue:  # noqa: ANN401 - as above
        return _closed(super().model_schema(schema), schema["cls"])


def _closed(schema: JsonSchemaValue, cls: type) -> JsonSchemaValue:
    """Complete the schema of a class by its fields' docstrings, and close it."""
    fields = schema["properties"]
    for base in cls.__mro__:
        if base.__module__.startswith("provision."):
            for name, text in field_docstrings(base):
                place = fields.get(name) or fields["schema"]  # the one alias
                place.setdefault("description", text)
    summary, *_ = (inspect.getdoc(cls) or "").split("\n\n")
    schema["description"] = " ".join(summary.split()).replace("``", "`")
    schema.pop("title")
    schema["required"] = list(fields)
    if cls is Measurement:  # a verdict has not the course of a number
        schema["required"] = [n for n in fields if n not in {"rounds", "every"}]
    schema["additionalProperties"] = False
    return schema


def document_schema(verb: str) -> dict[str, Any]:
    """Return the schema (draft 2020-12) of a verb's document; ``usage`` is that without a verb."""
    result = TypeAdapter(
        RESULTS[verb] | Failure, config=ConfigDict(arbitrary_types_allowed=True)
    ).json_schema(mode="serialization", schema_generator=_Generator)
    definitions = result.pop("$defs")
    properties = {
        "schema": {"description": "Version of the documents.", "const": SCHEMA},
        "verb": {
            "description": "The verb; null where the command line names none.",
            "const": None if verb == "usage" else verb,
        },
        "ok": {
            "description": "Whether the exit code is 0: the verb did what was asked, and what it "
            "looked at is good.",
            "type": "boolean",
        },
        "result": result,
    }
    failed = {"properties": {"result": {"$ref": "#/$defs/Failure"}}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"provision {verb} --json",
        "description": "What the verb prints on standard output with `--json`: one document. "
        "New fields do not raise `schema`; a change that breaks readers does.",
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        "if": failed,
        "then": {"properties": {"ok": {"const": False}}},
        "$defs": definitions,
    }
