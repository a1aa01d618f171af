"""The published JSON Schema of what each verb prints with ``--json``: ``documents.json``."""

import json
import re
from pathlib import Path
from typing import Any


def document_schema(verb: str) -> dict[str, Any]:
    """Return the schema (draft 2020-12) of a verb's document; ``usage`` is that without a verb."""
    table = json.loads(
        Path(__file__).with_name("documents.json").read_text(encoding="utf-8")
    )
    schema: dict[str, Any] = table["document"]
    schema["title"] = f"provision {verb} --json"
    schema["properties"]["verb"]["const"] = None if verb == "usage" else verb
    schema["$defs"] = used = {"Result": table["results"][verb]}
    waiting = [schema]
    while waiting:
        for name in re.findall(r"#/\$defs/(\w+)", json.dumps(waiting.pop())):
            if name not in used:
                used[name] = table["$defs"][name]
                waiting.append(used[name])
    return schema
