"""A verdict in the form that a scheduler reads."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.text import json_text

if TYPE_CHECKING:
    from provision.report.verdict import Verdict

_REASON = 200  # characters of a drain reason
_MESSAGE = 4096  # bytes of a termination message: the kubelet takes no more
# Prometheus wants base units, written out: https://prometheus.io/docs/practices/naming/
_UNITS = {"1": ("ratio", 1.0), "s": ("seconds", 1.0), "count": ("items", 1.0),
          "GB/s": ("bytes_per_second", 1e9), "GiB/s": ("bytes_per_second", 2.0**30),
          "GiB": ("bytes", 2.0**30), "MiB": ("bytes", 2.0**20), "MHz": ("hertz", 1e6),
          "W": ("watts", 1.0), "°C": ("celsius", 1.0),
          "TFLOP/s": ("operations_per_second", 1e12)}  # fmt: skip


def slurm_text(verdict: Verdict) -> str:
    """Return one line that is fit as the reason of a drain: ASCII, no quotes."""
    counts = verdict.counts
    passed = f"{counts['passed']} of {counts['owed']} checks passed" if counts else "as locked"
    end = f"{verdict.code} {verdict.target} {verdict.suite}: {verdict.reason or passed}"
    plain = f"provision: {verdict.verdict} {end}".encode("ascii", "replace").decode()
    return " ".join(re.sub(r"[\"'`\\$]", "", plain).split())[:_REASON] + "\n"


def kubernetes_text(verdict: Verdict) -> str:
    """Return JSON that fits into a termination message: as many facts as there is room for."""
    parts = verdict.model_dump(mode="json", by_alias=True, exclude={"numbers"})
    while len(text := json_text(parts, None).encode()) > _MESSAGE:
        longest = max(parts, key=lambda name: len(json_text(parts[name])))
        fewer = list(parts[longest].items() if longest == "stack" else parts[longest])[:-1]
        parts[longest] = dict(fewer) if longest == "stack" else fewer
    return text.decode()


def prometheus_text(verdict: Verdict) -> str:
    """Return the text that the node exporter's textfile collector reads."""
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - for this form only

    pages = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701 - no HTML
    pages.filters["labels"] = lambda own: _labels(
        {"target": verdict.target, "suite": verdict.suite} | own
    )
    template = Path(__file__).with_name("verdict.prom.j2").read_text(encoding="utf-8")
    at = dt.datetime.fromisoformat(verdict.time).timestamp()
    numbers = []
    for check, found in verdict.numbers.items():
        for name, number in found.items():
            plain = re.sub(r"\W+", "_", number.unit.replace("/s", "_per_second"))
            unit, scale = _UNITS.get(number.unit, (plain, 1.0))
            numbers.append((unit, f"{number.value * scale:.15g}", check, name))
    return pages.from_string(template).render(of=verdict, at=at, numbers=numbers) + "\n"


def _labels(labels: dict[str, str | None]) -> str:
    escaped = {ord("\\"): r"\\", ord('"'): r"\"", ord("\n"): r"\n"}
    inside = ",".join(f'{k}="{(v or "").translate(escaped)}"' for k, v in labels.items())
    return f"{{{inside}}}"


TEXTS: dict[str, Callable[[Verdict], str]] = {
    "slurm": slurm_text, "kubernetes": kubernetes_text, "prometheus": prometheus_text
}  # fmt: skip
