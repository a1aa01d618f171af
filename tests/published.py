"""What a verb gives, held against the schema that is published of its document."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema

from provision.core.text import json_text
from provision.ui.console import SCHEMA, to_jsonable
from provision.ui.documents import document_schema


@cache
def validator(verb: str) -> jsonschema.Draft202012Validator:
    """Return what judges a document of a verb; of none, by the name ``usage``."""
    return jsonschema.Draft202012Validator(document_schema(verb))


def faults(verb: str, document: dict[str, Any]) -> list[str]:
    """Return what is wrong with a document."""
    return [
        f"{e.json_path}: {e.message}" for e in validator(verb).iter_errors(document)
    ]


def is_published(verb: str, result: object) -> bool:
    """Whether a result makes a document by the schema; fails with what is wrong with it."""
    document = {
        "schema": SCHEMA,
        "verb": verb,
        "ok": True,
        "result": to_jsonable(result),
    }
    assert faults(verb, json.loads(json_text(document))) == []
    return True
