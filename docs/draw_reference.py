"""Write the pages of ``docs/reference`` that are made from the code: verbs, spec, exit codes, JSON.

``nox -s docs`` runs it, and ``tests/test_docs.py`` fails where a committed page differs, or where
``undocumented`` finds an option or a field without a description.
"""
# ruff: noqa: INP001 - a program, not a module of a package

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
sys.path.append(str(ROOT))

from provision.cli.main import parser, parsers, verb_names  # noqa: E402
from provision.core import errors  # noqa: E402
from provision.spec.model import Target  # noqa: E402
from provision.spec.schema import spec_schema  # noqa: E402
from provision.ui.console import SCHEMA  # noqa: E402
from provision.ui.documents import document_schema  # noqa: E402

EXAMPLES = tomllib.loads(
    (ROOT / "provision" / "cli" / "examples.toml").read_text("utf-8")
)
MADE = (
    "Made from the code by `docs/draw_reference.py`; `nox -s docs` makes it again.\n\n"
)
VERBS = f"""# Verbs

{MADE}`T` or `TARGET` is a target's name, such as `cpu-linux`. [At the terminal](../how-to/terminal.md)
explains what is printed where, and how a shell completes these commands.

| verb | does |
|---|---|
"""
COMMON = """
Every verb takes, before or after its name:

"""
SPEC = f"""# The spec

{MADE}A target's spec is `envs/TARGET.toml`. [Your own repository](../how-to/own-repository.md)
explains how specs inherit, [requirements of every kind](../how-to/requirements.md) what `[pip]`
takes. `provision schema` prints the JSON Schema for an editor. All errors of a file are reported at
once, each with its line, its key and the allowed values. A spec with `extends` may inherit a
"required" value.

"""
# What the schema has no description of.
SAID = {
    "summary": "What the target is for, in one line.",
    "accelerator": "The devices that the checks have to run on.",
    "channels": "Names of conda channels whose catalogs `envs/catalog` has, such as `conda-forge`.",
    "dependencies": "Specs of conda packages, such as `python=3.11.*`.",
    "name": "The distribution.",
    "requirement": "PEP 508.",
    "fused_ops": "Fused operators of IPEX that have to run on the device.",
    "rotary": "Forms of rotary embedding that the checks compute.",
}
CODES = f"""# Exit codes

{MADE}| code | name | when |
|---|---|---|
"""
JSON = f"""# JSON documents

{MADE}With `--json`, each verb prints one document on stdout; notes and errors go to stderr:

```json
{{"schema": {SCHEMA}, "verb": "build", "ok": true, "result": {{}}}}
```

| field | value |
|---|---|
| `schema` | the version of the format. A change that breaks readers raises it; new fields do not |
| `verb` | the verb; null where the command line names none |
| `ok` | true exactly where the [exit code](exit-codes.md) is 0 |
| `result` | see the table below, or a `Failure`: message, evidence, cause, remedy |

```console
provision schema build          # the fields of `build --json`, each with its meaning
provision schema usage          # a command line without a verb
```

print JSON Schemas (draft 2020-12). They are strict: a document has no other fields, and never lacks a
required one. `"NaN"`, `"Infinity"` and `"-Infinity"` replace the numbers that JSON lacks. A program
that `run` starts has stdout to itself. `--version` and `--help` print text in any case.

| verb | result |
|---|---|
"""


def _common() -> set[str]:
    verbs = parsers(parser())
    return set.intersection(
        *({_words(a) for a in verb._actions} for verb in verbs.values())  # noqa: SLF001
    )


def _words(action: argparse.Action) -> str:
    """Return an argument as it is typed."""
    name = action.metavar or (
        "|".join(map(str, action.choices))
        if action.choices
        else action.dest
        if not action.option_strings
        else action.dest.upper()
    )
    if not action.option_strings:
        return (
            f"[{name}…]"
            if action.nargs == "*"
            else f"{name}…"
            if action.nargs == "+"
            else str(name)
        )
    return ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {name}")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _row(action: argparse.Action) -> str:
    text = (action.help or "the target's name") % {
        "choices": ", ".join(map(str, action.choices or ()))
    }
    return f"| `{_cell(_words(action))}` | {_cell(text)} |\n"


def verbs() -> str:
    """Return the page of the verbs."""
    common, table = _common(), "| argument | meaning |\n|---|---|\n"
    found = parsers(parser())
    first = next(iter(found.values()))
    page = VERBS + "".join(
        f"| [`{name}`](#{name}) | {_cell(_said(verb))} |\n"
        for name, verb in found.items()
    )
    page += COMMON + table
    page += "".join(_row(a) for a in first._actions if _words(a) in common)  # noqa: SLF001
    for name, verb in found.items():
        own = [a for a in verb._actions if _words(a) not in common]  # noqa: SLF001
        usage = " ".join(
            _words(a)
            if a.required or (not a.option_strings and a.nargs != "?")
            else f"[{_words(a)}]"
            for a in own
        )
        text = _said(verb)
        page += f"\n## {name}\n\n{text[:1].upper()}{text[1:]}.\n\n"
        page += f"```text\nprovision {name} {usage}".rstrip() + "\n```\n"
        page += f"\n{table}{''.join(map(_row, own))}" if own else ""
        page += f"\n{verb.epilog}\n" if verb.epilog else ""
        page += (
            "".join(f"\n- `{typed}`: {does}" for typed, does in EXAMPLES[name].items())
            + "\n"
        )
    return page


def _said(verb: argparse.ArgumentParser) -> str:
    return (verb.description or "").removesuffix(".")


def undocumented() -> list[str]:
    """Return the options without a help text: the pages above have nothing to say about them."""
    return [
        f"{name} {_words(action)}"
        for name, verb in parsers(parser()).items()
        for action in verb._actions  # noqa: SLF001
        if not action.help and (action.option_strings or action.dest != "target")
    ]


def spec() -> str:
    """Return the page of the spec."""
    schema = spec_schema()
    needed = [
        f.alias or name for name, f in Target.model_fields.items() if f.is_required()
    ]
    page = SPEC + _fields({**schema, "required": needed})
    for name, each in schema["$defs"].items():
        key = next(_places(name, schema))
        page += f"\n## {key}\n\n{each['description']}\n\n{_fields(each)}"
    return page


def _places(name: str, schema: dict[str, Any]) -> Iterator[str]:
    """Yield the tables of a spec that a definition of its schema describes."""
    tables = {"": schema} | {f"{k.lower()}.": v for k, v in schema["$defs"].items()}
    for prefix, table in tables.items():
        for key, value in table["properties"].items():
            if f"#/$defs/{name}'" in str(value):
                inside = f"{prefix}{key}"
                yield f"[[{inside}]]" if value.get("type") == "array" else f"[{inside}]"


def _fields(table: dict[str, Any]) -> str:
    required = table.get("required", ())
    rows = "".join(
        f"| `{key}` | {_cell(_kind(value))} | {_default(value, required=key in required)} "
        f"| {_cell(_meaning(key, value))} |\n"
        for key, value in table["properties"].items()
    )
    return f"| key | value | default | meaning |\n|---|---|---|---|\n{rows}"


def _meaning(key: str, value: dict[str, Any]) -> str:
    """Return a key's description, or that of the table that it holds."""
    named = re.search(r"#/\$defs/(\w+)", str(value))
    table = spec_schema()["$defs"][named[1]]["description"] if named else ""
    reason = "Why, for whoever reads the spec." if key == "reason" else ""
    return value.get("description") or table or SAID.get(key) or reason


def _kind(value: dict[str, Any]) -> str:
    if options := [one for one in value.get("anyOf", ()) if one.get("type") != "null"]:
        return _kind(options[0])
    if "$ref" in value:
        return "a table, below"
    if "enum" in value:
        return ", ".join(f"`{word}`" for word in value["enum"])
    if value["type"] == "array":
        return f"list of: {_kind(value['items'])}"
    if value["type"] == "object":
        inner = [
            *value.get("patternProperties", {}).values(),
            value.get("additionalProperties"),
        ]
        return f"table of: {_kind(inner[0])}"
    kinds = value["type"] if isinstance(value["type"], list) else [value["type"]]
    kind = {"date": "day"}.get(value.get("format", ""), " or ".join(kinds))
    return f"{kind} like `{value['pattern']}`" if "pattern" in value else kind


def _default(value: dict[str, Any], *, required: bool) -> str:
    given = value.get("default")
    if required:
        return "required"
    return "" if given in (None, [], {}) or isinstance(given, dict) else f"`{given}`"


def codes() -> str:
    """Return the page of the exit codes."""
    source = Path(errors.__file__).read_text(encoding="utf-8")
    said = dict(re.findall(r"^    ([A-Z_]+) = \d+  # (.+)$", source, re.MULTILINE))
    rows = (
        f"| {int(c)} | {c.name.lower().replace('_', ' ')} | {_cell(said.get(c.name, ''))} |\n"
        for c in errors.Exit
    )
    return CODES + "".join(rows)


def documents() -> str:
    """Return the page of the JSON documents."""
    page = JSON
    for verb in verb_names():
        result = document_schema(verb)["properties"]["result"]
        if "anyOf" in result:  # each may fail, which the text above says
            failure = {"$ref": "#/$defs/Failure"}
            result["anyOf"] = [one for one in result["anyOf"] if one != failure]
        page += f"| `{verb}` | {_cell(_shape(result))} |\n"
    return page


def _shape(value: dict[str, Any]) -> str:
    """Return in words which results a schema allows, each with its description."""
    about = (
        f" ({value['description'].removesuffix('.')})" if "description" in value else ""
    )
    if "$ref" in value:
        return f"`{value['$ref'].rpartition('/')[2]}`{about}"
    if "anyOf" in value:
        return " or ".join(map(_shape, value["anyOf"])) + about
    inner = f" of {_shape(value['items'])}" if value["type"] == "array" else ""
    return f"{'list' if inner else value['type']}{inner}{about}"


def pages() -> dict[str, str]:
    """Return the text of each page."""
    return {
        "verbs.md": verbs(),
        "spec.md": spec(),
        "exit-codes.md": codes(),
        "json.md": documents(),
    }


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
