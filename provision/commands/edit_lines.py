"""Edit a requirement where it is, in a file of any kind: all else of the file stays.

Of requirement files, pyproject.toml, specs and environment.yml the reader tells file and line; see
provision.spec.places.
"""

import json
import re
import tomllib
from typing import NamedTuple

from packaging.utils import canonicalize_name

from provision.spec.pip_files import COMMENT

# A text of TOML, or the begin of a comment.
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|#")


class Edit(NamedTuple):
    """Where the edited requirement is."""

    suffix: str  # of the file's name
    number: int  # of the line
    name: str  # of its distribution
    text: str  # what it says


def distribution(text: str) -> str:
    """Return the normalised name of a requirement's distribution; "" of a path or an option."""
    name = re.match(r"\s*([A-Za-z0-9][\w.-]*)", text)
    return canonicalize_name(name[1]) if name else ""


def with_line(text: str, at: Edit, new: str | None) -> str:
    """Return a file's text with another requirement of a distribution in a line, or with none.

    ValueError where the line does not have the distribution, or has it more than once.
    """
    lines = text.splitlines(keepends=True)
    if not 0 < at.number <= len(lines):
        raise ValueError(f"it has no line {at.number}")
    last = at.number - 1
    first = last
    if at.suffix == ".toml":
        edited = _in_toml(lines[last], at, new)
    elif at.suffix in {".yml", ".yaml"}:
        edited = _in_yaml(lines[last], at.name, new)
    else:
        while first and _goes_on(lines[first - 1]):
            first -= 1
        edited = _in_requirements(lines[first : at.number], at.name, new)
    lines[first : at.number] = [edited]
    return "".join(lines)


def appended(text: str, requirement: str) -> str:
    """Return the text of a requirement file with one more line, in its line ends."""
    end = "\r\n" if "\r\n" in text else "\n"
    before = text
    if text and not text.endswith(("\n", "\r")):
        before += end
    if text and _goes_on(text.splitlines()[-1]):  # an empty line ends it
        before += end
    return f"{before}{requirement}{end}"


def _goes_on(line: str) -> bool:
    return COMMENT.sub("", line).rstrip().endswith("\\")


def _in_requirements(lines: list[str], name: str, new: str | None) -> str:
    """Return a logical line; the hashes that it had are of another version."""
    first, last = lines[0], lines[-1]
    if distribution(first) != name:
        raise ValueError(f"{first.strip()!r} is no line of {name}")
    if new is None:
        return ""
    indent = first.removesuffix(first.lstrip())
    bare = last.rstrip("\r\n")
    kept = last.removeprefix(bare)  # the end of the line
    comment = COMMENT.search(bare)
    if comment:
        before = bare[: comment.start()].rstrip()
        kept = last.removeprefix(before)
    return f"{indent}{new}{kept}"


def _in_yaml(line: str, name: str, new: str | None) -> str:
    parts = re.match(r"(\s*-\s+)([^#]*?)(\s+#.*|\s*)$", line, re.DOTALL)
    if not parts or distribution(parts[2].strip("'\"")) != name:
        raise ValueError(f"{line.strip()!r} is no line of {name}")
    if new is None:
        return ""
    if not re.fullmatch(r"[\w.,<>=!~ -]+", new):
        new = json.dumps(new)  # YAML could take it for another thing
    return f"{parts[1]}{new}{parts[3]}"


def _in_toml(line: str, at: Edit, new: str | None) -> str:
    start, end = _place_in_toml(line, at)
    before = line[:start]
    quote = line[start]
    after = line[end:]
    if new is not None:
        return f"{before}{_quoted(new, quote)}{after}"
    if not before.strip() and re.fullmatch(r"\s*,?\s*(#.*)?", after.strip()):
        return ""
    after = re.sub(r"^[ \t]*,[ \t]*", "", after)
    if after.startswith("]"):
        before = re.sub(r"[ \t]*,[ \t]*$", "", before)
    return before + after


def _place_in_toml(line: str, at: Edit) -> tuple[int, int]:
    """Return where the text of a requirement begins and ends in a line."""
    same: list[tuple[int, int]] = []
    alike: list[tuple[int, int]] = []
    for quoted in _QUOTED.finditer(line):
        if quoted[0] == "#":
            break
        if distribution(quoted[0][1:-1]) == at.name:
            alike.append(quoted.span())
            if tomllib.loads(f"text = {quoted[0]}")["text"] == at.text:
                same.append(quoted.span())
    for spans in (same, alike):
        if len(spans) == 1:
            return spans[0]
    if alike:
        raise ValueError(f"{line.strip()!r} has {at.name} more than once")
    raise ValueError(f"{line.strip()!r} does not have {at.name}")


def _quoted(text: str, quote: str) -> str:
    if quote == "'" and "'" not in text:
        return f"'{text}'"
    if '"' in text and "'" not in text:
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False)
