"""A verdict in the form that a scheduler reads."""

import datetime as dt
import re
from pathlib import Path

from provision.core.findings import toml_table
from provision.core.text import json_text
from provision.report.verdict import Verdict

_REASON, _MESSAGE = (
    200,
    4096,
)  # characters of a drain reason, bytes of a termination message


def slurm(of: Verdict) -> str:
    """Return one line that is fit as the reason of a drain: ASCII, no quotes."""
    passed = (
        f"{of.counts['passed']} of {of.counts['owed']} checks"
        if of.counts
        else "as locked"
    )
    text = f"provision: {of.verdict} {of.code} {of.target} {of.suite}: {of.reason or passed}"
    plain = re.sub(r"[\"'`\\$]", "", text.encode("ascii", "replace").decode())
    return " ".join(plain.split())[:_REASON] + "\n"


def kubernetes(of: Verdict) -> str:
    """Return JSON that fits into a termination message: as many facts as there is room for."""
    parts = of.model_dump(mode="json", by_alias=True, exclude={"numbers"})
    while len(text := json_text(parts, None)) > _MESSAGE:  # ASCII
        longest = max(parts, key=lambda name: len(json_text(parts[name])))
        shape = type(parts[longest])
        kept = list(parts[longest].items() if shape is dict else parts[longest])[:-1]
        parts[longest] = shape(kept)
    return text


def prometheus(of: Verdict) -> str:
    """Return the text that the node exporter's textfile collector reads."""
    from jinja2 import Template  # noqa: PLC0415 - for this form only

    units = toml_table(Path(__file__).with_name("units.toml"))
    numbers = []
    for check, name, number in (
        (c, *n) for c, some in of.numbers.items() for n in some.items()
    ):
        plain = re.sub(r"\W+", "_", number.unit.replace("/s", "_per_second"))
        unit, scale = units.get(number.unit, (plain, 1.0))
        numbers.append((unit, f"{number.value * scale:.15g}", check, name))

    def labels(**own: str | None) -> str:
        escaped = {ord("\\"): r"\\", ord('"'): r"\"", ord("\n"): r"\n"}
        every = {"target": of.target, "suite": of.suite} | own
        inside = ",".join(
            f'{k}="{(v or "").translate(escaped)}"' for k, v in every.items()
        )
        return f"{{{inside}}}"

    page = Path(__file__).with_name("verdict.prom.j2").read_text(encoding="utf-8")
    template = Template(
        page, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    at = dt.datetime.fromisoformat(of.time).timestamp()
    return str(template.render(of=of, at=at, numbers=numbers, labels=labels))
