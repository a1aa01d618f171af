"""A verdict in the form that a scheduler reads."""

import datetime as dt
import re
from pathlib import Path

from jinja2 import Template

from provision.core.text import json_text
from provision.report.speeds import Speed
from provision.report.verdict import Verdict

# By what an earlier verdict is known, which the next one may replace: a line of each form below.
MARKS = (
    "keep: ",
    "remove: ",
    "none: ",
    "provision: ",
    '{"schema": ',
    "# HELP provision_verdict ",
)
_LINES = 4  # of one kind for people; the JSON has all
_NO_DRIVERS = ("platform", "firmware", "GPU ")  # layers of a host
_REASON = 200  # characters of a drain reason
_MESSAGE = 4096  # bytes of a termination message
# The name of the base unit, which Prometheus wants written out, and the factor:
# https://prometheus.io/docs/practices/naming/
_UNITS = {
    "1": ("ratio", 1.0),
    "s": ("seconds", 1.0),
    "count": ("items", 1.0),
    "GB/s": ("bytes_per_second", 1e9),
    "GiB/s": ("bytes_per_second", 2.0**30),
    "GiB": ("bytes", 2.0**30),
    "MiB": ("bytes", 2.0**20),
    "MHz": ("hertz", 1e6),
    "W": ("watts", 1.0),
    "°C": ("celsius", 1.0),
    "TFLOP/s": ("operations_per_second", 1e12),
}
_ESCAPED = {ord("\\"): r"\\", ord('"'): r"\"", ord("\n"): r"\n"}


def text(of: Verdict) -> str:
    """Return a few lines for people: in the log of a job, for instance."""
    outcome = of.reason or f"{of.counts.get('passed', 0)} checks passed"
    lines = [
        f"{of.verdict}: {of.target} on {of.node}, in {of.seconds:.1f} s: {outcome}"
    ]
    if of.code:
        lines.append(f"  code    {of.code}")
    if of.remedy:
        lines.append(f"  remedy  {of.remedy}")
    if of.since:
        lines.append(f"  since   {of.since}: no verdict")
    if of.device:
        count = f", {of.devices} devices" if of.devices > 1 else ""
        lines.append(f"  device  {of.device}{count}, torch {of.torch}")
    layers = [name for name in of.stack if not name.startswith(_NO_DRIVERS)]
    if layers:
        drivers = ", ".join(f"{name} {of.stack[name]}" for name in layers)
        lines.append(f"  driver  {drivers}")
    for fault in of.regressions[:_LINES]:
        lines.append(f"  warned  {fault.symptom}")
    speeds = [_speed(speed) for speed in of.speeds if speed.measured]
    if speeds:
        lines.append(f"  speed   {', '.join(speeds[:_LINES])}")
    return "\n".join(lines) + "\n"


def _speed(of: Speed) -> str:
    text = f"{of.name} {of.value:.3g} {of.unit}"
    if of.usual is not None:
        text += f" (usual {of.usual:.3g})"
    return text


def slurm(of: Verdict) -> str:
    """Return one line that is fit as the reason of a drain: ASCII, no quotes."""
    why = of.reason or "as locked"
    if of.counts and not of.reason:
        why = f"{of.counts['passed']} of {of.counts['required']} checks"
        if of.unchanged_since:
            why += f", nothing changed since {of.unchanged_since}"
    text = f"provision: {of.verdict} {of.code} {of.target} {of.suite}: {why}"
    plain = re.sub(r"[\"'`\\$]", "", text.encode("ascii", "replace").decode())
    return " ".join(plain.split())[:_REASON] + "\n"


def kubernetes(of: Verdict) -> str:
    """Return JSON that fits into a termination message: as many facts as there is room for."""
    parts = of.model_dump(mode="json", by_alias=True, exclude={"numbers"})
    while len(text := json_text(parts, None)) > _MESSAGE:  # ASCII
        longest = max(parts, key=lambda name: len(json_text(parts[name])))
        if isinstance(parts[longest], dict):
            parts[longest].popitem()
        else:
            parts[longest] = parts[longest][:-1]
    return text


def prometheus(of: Verdict) -> str:
    """The text that the node exporter's textfile collector reads."""
    numbers = []
    for check, measurements in of.numbers.items():
        for name, number in measurements.items():
            plain = re.sub(r"\W+", "_", number.unit.replace("/s", "_per_second"))
            unit, scale = _UNITS.get(number.unit, (plain, 1.0))
            numbers.append((unit, f"{number.value * scale:.15g}", check, name))

    def labels(**more: str | None) -> str:
        pairs = []
        for name, value in {"target": of.target, "suite": of.suite, **more}.items():
            pairs.append(f'{name}="{(value or "").translate(_ESCAPED)}"')
        return "{" + ",".join(pairs) + "}"

    page = Path(__file__).with_name("verdict.prom.j2").read_text(encoding="utf-8")
    template = Template(
        page, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    at = dt.datetime.fromisoformat(of.time).timestamp()
    since = dt.datetime.fromisoformat(of.since or of.time).timestamp()
    text = template.render(of=of, at=at, since=since, numbers=numbers, labels=labels)
    return str(text)
