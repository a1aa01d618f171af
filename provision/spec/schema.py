"""The JSON Schema of a spec file, which `provision schema` prints for an editor."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from provision.core.docstrings import field_docstrings
from provision.spec.model import Target


class _Described(GenerateJsonSchema):
    """A key is described by the text below its field.

    pydantic would read these texts whenever the models are loaded, which takes as long as to read
    all specs of a project.
    """

    def model_schema(self, schema: Any) -> JsonSchemaValue:  # noqa: ANN401 - pydantic's own
        """A table, with the descriptions of its keys."""
        table, cls = super().model_schema(schema), schema["cls"]
        for name, text in field_docstrings(cls):
            key = cls.model_fields[name].alias or name
            table["properties"][key].setdefault("description", text)
        return table


def spec_schema() -> dict[str, Any]:
    """Return the JSON Schema of a spec file (draft 2020-12); the file's name gives ``name``.

    A file that extends another one need not say anything itself.
    """
    document = Target.model_json_schema(schema_generator=_Described)
    document["properties"].pop("name")
    required = [key for key in document.pop("required") if key != "name"]
    pip = {"required": document["$defs"]["Pip"].pop("required")}
    alone = {"required": required, "properties": {"pip": pip}}
    extends = {
        "type": ["string", "array"],
        "items": {"type": "string"},
        "description": "Specs of envs/, or shipped ones, to inherit; the first has priority.",
    }
    document["properties"] |= {"extends": extends}
    document["anyOf"] = [{"required": ["extends"]}, alone]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | document
