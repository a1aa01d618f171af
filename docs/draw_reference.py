"""Write the pages of ``docs/reference`` that are made from the code: verbs, spec, exit codes, JSON.

``nox -s docs`` runs it, and ``tests/test_docs.py`` fails where a committed page differs, or where
``undocumented`` finds an option or a field without a description.
"""
# ruff: noqa: INP001 - a program, not a module of a package

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
VERBS_FOLDER = ROOT / "provision" / "cli" / "verbs"
sys.path.append(str(ROOT))

from provision.cli.main import parser, verb_names  # noqa: E402
from provision.core import errors  # noqa: E402
from provision.spec.model import Target, spec_schema  # noqa: E402
from provision.ui.console import SCHEMA  # noqa: E402

EXAMPLES = tomllib.loads((VERBS_FOLDER.parent / "examples.toml").read_text("utf-8"))
MADE = "Made from the code by `docs/draw_reference.py`; `nox -s docs` makes it again.\n\n"
VERBS = f"""# Verbs

{MADE}[The verbs at a glance](overview.md) groups them by what they are for. All of them take:

"""
SPEC = f"""# The spec

{MADE}A target's spec is `envs/TARGET.toml`. [Your own repository](../how-to/own-repository.md)
tells how specs inherit, [requirements of every kind](../how-to/requirements.md) what `[pip]`
takes. `provision schema` prints the JSON Schema for an editor; a fault is reported with its key
and the allowed values, all faults of a file at once. Where a default is "required", a spec with
`extends` may inherit the value.

"""
# What the schema has no description of.
SAID = {
    "summary": "What the target is for, in one line.",
    "accelerator": "The devices that the checks have to run on.",
    "status": "A legacy target is for existing programs only; `reason` says why.",
    "channels": "conda channels, such as `conda-forge`, or their addresses.",
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

{MADE}With `--json` each verb prints one document on stdout, and messages go to stderr:

```json
{{"schema": {SCHEMA}, "verb": "build", "result": {{}}}}
```

`result` is what is listed below: an object, or a list of such objects where a verb handles
several things. Where the verb failed it is `{{"error": {{"what": "…", "evidence": "…", "cause":
"…", "remedy": "…"}}}}`. `schema` is raised by a change that breaks readers; new fields do not
raise it. A verb that is not listed prints text, or runs a program.

"""


def _common() -> set[str]:
    verbs = _parsers()
    return set.intersection(*({_words(a) for a in verb._actions} for verb in verbs.values()))  # noqa: SLF001 - argparse has no other way


def _parsers() -> dict[str, argparse.ArgumentParser]:
    actions = parser()._actions  # noqa: SLF001 - as above
    (verbs,) = (a for a in actions if isinstance(a, argparse._SubParsersAction))  # noqa: SLF001
    return dict(verbs.choices)


def _words(action: argparse.Action) -> str:
    """Return an argument as it is typed."""
    name = action.metavar or (
        action.dest if not action.option_strings or action.choices else action.dest.upper()
    )
    if action.choices:
        name = "|".join(map(str, action.choices))
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
    found = _parsers()
    first = next(iter(found.values()))
    page = VERBS + table + "".join(_row(a) for a in first._actions if _words(a) in common)  # noqa: SLF001
    for name, verb in found.items():
        own = [a for a in verb._actions if _words(a) not in common]  # noqa: SLF001
        usage = " ".join(
            _words(a)
            if a.required or (not a.option_strings and a.nargs != "?")
            else f"[{_words(a)}]"
            for a in own
        )
        text = (verb.description or "").removesuffix(".")
        page += f"\n## {name}\n\n{text[:1].upper()}{text[1:]}.\n\n"
        page += f"```text\nprovision {name} {usage}".rstrip() + "\n```\n"
        page += f"\n{table}{''.join(map(_row, own))}" if own else ""
        page += f"\n{verb.epilog}\n" if verb.epilog else ""
        page += "".join(f"\n- `{typed}`: {does}" for typed, does in EXAMPLES[name].items()) + "\n"
    return page


def undocumented() -> list[str]:
    """Return the options without a help text: the pages above have nothing to say about them."""
    return [
        f"{name} {_words(action)}"
        for name, verb in _parsers().items()
        for action in verb._actions  # noqa: SLF001
        if not action.help and (action.option_strings or action.dest != "target")
    ]


def spec() -> str:
    """Return the page of the spec."""
    schema = spec_schema()
    needed = [f.alias or name for name, f in Target.model_fields.items() if f.is_required()]
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
        inner = [*value.get("patternProperties", {}).values(), value.get("additionalProperties")]
        return f"table of: {_kind(inner[0])}"
    kind = {"date": "day"}.get(value.get("format", ""), str(value["type"]))
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
    page, shown = JSON, set[type]()
    for verb in verb_names():
        if classes := list(_results(verb)):
            names = " or ".join(f"[{c.__name__}](#{c.__name__.lower()})" for c in classes)
            page += f"- `{verb}`: {names}\n"
            shown.update(classes)
    for each in sorted(shown, key=lambda c: c.__name__):
        page += f"\n## {each.__name__}\n\n{_described(each)}"
    return page


def _results(verb: str) -> Iterator[type]:
    """Yield the classes of a verb's results: what the views take that its handler names."""
    nodes = list(ast.walk(ast.parse((VERBS_FOLDER / f"{verb}.py").read_text("utf-8"))))
    made = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func) == "Outcome"]
    views = {n.id for call in made for n in ast.walk(call) if isinstance(n, ast.Name)}
    found = set[type]()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("provision.ui."):
            module = importlib.import_module(node.module or "")
            for name in (alias.name for alias in node.names if alias.name in views):
                hint = next(iter(getattr(module, name).__annotations__.values()))
                if (one := _class(module.__file__ or "", hint)) and one not in found:
                    found.add(one)
                    yield one


def _class(file: str, hint: str | type) -> type | None:
    """Return the class that a module means by a name, which it may import for types only."""
    if isinstance(hint, type):
        return hint
    name = re.findall(r"\w+", hint)[-1]
    for node in ast.walk(ast.parse(Path(file).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            found = getattr(importlib.import_module(node.module or ""), name, None)
            return found if isinstance(found, type) else None
    return None


def _described(each: type) -> str:
    """Return a class's summary, and its fields with what its docstring says of them."""
    text = (each.__doc__ or "").split("\n\n")[0]
    entries = re.findall(r"^ {8}(\w+): (.+(?:\n {12}.+)*)", each.__doc__ or "", re.MULTILINE)
    said = {name: " ".join(words.split()) for name, words in entries}
    said |= dict(re.findall(r"^    (\w+): .+?  # (?!noqa)(.+)$", inspect.getsource(each), re.M))
    kinds = getattr(each, "__annotations__", {})
    names = (
        [field.name for field in dataclasses.fields(each)]
        if dataclasses.is_dataclass(each)
        else list(getattr(each, "model_fields", kinds))
    )
    rows = "".join(
        f"| `{n}` | `{_cell(_kind_of(kinds.get(n)))}` | {_cell(said.get(n, ''))} |\n" for n in names
    )
    return f"{' '.join(text.split())}\n\n| field | type | meaning |\n|---|---|---|\n{rows}"


def _kind_of(hint: object) -> str:
    text = hint if isinstance(hint, str) else inspect.formatannotation(hint)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)  # without the modules


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
