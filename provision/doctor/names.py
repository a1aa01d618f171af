"""Names that libraries gained and lost: names.json.gz, which docs/record_names.py writes."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from provision.doctor.data import data
from provision.doctor.evidence import numbers
from provision.doctor.failures import any_of
from provision.doctor.matcher import Hit
from provision.doctor.sampling import Line

Row = dict[str, Any]


@cache
def _libraries() -> dict[str, Row]:
    import gzip  # noqa: PLC0415 - most logs need no table

    packed = Path(__file__).with_name("names.json.gz").read_bytes()
    return dict(json.loads(gzip.decompress(packed)))


def moved(lines: Sequence[Line], hit: Hit) -> dict[str, str]:
    """Return cause and remedy where a line misses what only some releases of a library have.

    {} where the table does not know it, or the log tells of an installed release that has it.
    """
    found = {key: value for key, value in hit[1].groupdict().items() if value}
    above = [line.text for line in lines[max(0, hit[0] - 200) : hit[0]]]
    if found.keys() == {"what"}:  # Python before 3.7 does not tell the module
        found["module"] = "".join(
            re.findall(r"\bfrom ([\w.]+) import ", "\n".join(above))[-1:]
        )
    for name, row in _libraries().items():
        asked = (
            (row["moved"].get(at, {}), what) for at, what in _places(row, found, above)
        )
        span = next(
            (s for spans, what in asked for s in spans if what in spans[s].split()), ""
        )
        names = "|".join((name, *row["imports"]))
        sure = re.match(
            r"([A-Z][a-z]+){3}\w*\.", found.get("owner", "")
        )  # no other library's
        if not span or not (
            sure or any(re.search(rf"\b(?:{names})\b", x.text) for x in lines)
        ):
            continue
        first, last = (row["releases"][int(at)] for at in span.split("-"))
        told = rf"(?i)\b(?:{names})(?:==|-| version:? *|: *| +v?)(\d+\.\d+)"
        at = [numbers(each) for each in re.findall(told, "\n".join(above))][-1:]
        old = first != row["releases"][0] and (not at or at[0] < numbers(first)[:2])
        new = last != row["releases"][-1] and (not at or at[0] > numbers(last)[:2])
        torch = "torch-" * (name in data("packages")["with_torch"])
        texts = data("packages")["moved"].get(f"{torch}{'old' * old}{'new' * new}", {})
        frames = (each for each in reversed(above) if any_of("frame").match(each))
        owners = (
            "".join(re.findall(r"[\\/](?:site|dist)-packages[\\/](\w+)", f))
            for f in frames
        )
        caller = (
            next((each for each in owners if each not in row["imports"]), "")
            or "the program"
        )
        missing = " of ".join(
            found[key] for key in ("what", "owner", "module") if key in found
        )
        facts = {
            "minor": ".".join(first.split(".")[:2]),
            "missing": missing,
            "caller": caller,
        }
        facts |= {"name": name, "since": first, "until": last}
        return {key: text.format_map(facts) for key, text in texts.items()}
    return {}


def _places(
    row: Row, found: dict[str, str], above: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield where the table of a library would have what is missing, and under which name."""
    what, module = found.get("what", ""), found.get("module", "")
    for top in (each for each in row["imports"] if f"{module}.".startswith(f"{each}.")):
        parts = [*accumulate(module.removeprefix(top).split("."), "{}.{}".format)][::-1]
        # What exports the name above a module that the table does not know tells nothing of it.
        parts = parts if not what or parts[0] in row["moved"] else parts[:1]
        yield from ((each or ".", what) if what else ("/", each) for each in parts)
        yield "/", f"{parts[0]}.{what}"
    if owner := found.get("owner", ""):
        name, dot, method = ".".join(owner.split(".")[-2:]).partition(".")
        owners = [
            name,
            *(base for p, base in data("packages")["bases"] if re.fullmatch(p, name)),
        ]
        for each in owners:  # the list grows by the bases in the library
            owners += {row["bases"].get(each, name)}.difference(owners)
            yield f":{each}{dot}{method}", what
        # Python before 3.10 does not tell the class: the call does.
        calls = re.findall(r"\w+", " ".join(above[-4:]))
        yield from ((f":{each}.{owner}", what) for each in calls)
