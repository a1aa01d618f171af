"""Small SVG drawings of measurements: a course over time with its limit, and a bar."""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING, NamedTuple

from provision.ui.html_style import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH, _HEIGHT = 320, 130  # in units of the drawing; the page scales it
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 12, 22  # margins, for the labels
_DECADES = 4  # of an error below its limit that a bar shows


class Dot(NamedTuple):
    """One run: when, what was measured, and whether its check failed."""

    at: float
    value: float
    failed: bool


def plot(
    dots: Sequence[Dot], changes: Sequence[float], label: str, limit: float | None = None
) -> str:
    """Return a course over time: linear from 0, or logarithmic up to the limit of an error.

    Args:
        dots: Oldest first, at least one; ``at`` in seconds since 1970.
        changes: When a layer of the host changed.
        label: The text for a screen reader.
        limit: The largest error that passes.
    """
    first, last = dots[0].at, dots[-1].at
    low, high = _scale([dot.value for dot in dots], limit)

    def x(at: float) -> int:
        share = (at - first) / (last - first) if last > first else 0.5
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT))

    def y(value: float) -> int:
        if limit:
            share = math.log(max(value, low) / low) / math.log(high / low)
        else:
            share = (value - low) / (high - low)
        return round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM))

    base = _HEIGHT - _BOTTOM
    parts = [f"<path class=axis d='M{_LEFT} {_TOP}V{base}H{_WIDTH - _RIGHT}' fill=none />"]
    parts += [
        f"<path class=moved d='M{x(at)} {_TOP}V{base}' />" for at in changes if first <= at <= last
    ]
    if limit:
        parts.append(f"<path class=limit d='M{_LEFT} {y(limit)}H{_WIDTH - _RIGHT}' />")
        parts.append(f"<text x={_LEFT + 3} y={y(limit) - 3}>limit {limit:.2g}</text>")
    else:
        parts.append(_text(_LEFT - 4, _TOP + 4, _label(high), "end"))
    parts.append(_text(_LEFT - 4, base, _label(low), "end"))
    points = " ".join(f"{x(dot.at)},{y(dot.value)}" for dot in dots)
    parts.append(f"<polyline class=course points='{points}' />")
    # Either each failed run is marked, or the newest one.
    marked = [(dot, "failed") for dot in dots if dot.failed] or [(dots[-1], "at")]
    parts += [
        f"<circle class={kind} cx={x(dot.at)} cy={y(dot.value)} r=3 />" for dot, kind in marked
    ]
    parts.append(_text(_LEFT, _HEIGHT - 6, day(first), "start"))
    if day(last) != day(first):
        parts.append(_text(_WIDTH - _RIGHT, _HEIGHT - 6, day(last), "end"))
    box = f"viewBox='0 0 {_WIDTH} {_HEIGHT}' role=img aria-label='{escape(label)}'"
    return f"<svg {box}>{''.join(parts)}</svg>"


def bar(value: float, limit: float) -> str:
    """Return how near an error is to its limit: logarithmic, the right end is the limit."""
    ratio = value / limit if limit and math.isfinite(value) else 1.0  # no number is a failure
    share = 1 + math.log10(max(ratio, 10**-_DECADES)) / _DECADES
    width = round(100 * min(max(share, 0.0), 1.0))
    kind = "bar" if value <= limit else "failed"
    return (
        "<svg viewBox='0 0 100 10' preserveAspectRatio=none role=img "
        f"aria-label='{value:.2g} of {limit:.2g}'><rect class=rest width=100 height=10 />"
        f"<rect class={kind} width={width} height=10 /></svg>"
    )


def seconds(moment: str) -> float:
    """Return an ISO 8601 time of a report as seconds since 1970."""
    return dt.datetime.fromisoformat(moment).timestamp()


def day(at: float) -> str:
    """Return the date, UTC."""
    return f"{dt.datetime.fromtimestamp(at, dt.UTC):%Y-%m-%d}"


def _scale(values: Sequence[float], limit: float | None) -> tuple[float, float]:
    if limit:
        # An error of 0 has no logarithm: the axis ends six decades below the limit at the latest.
        smallest = min((value for value in values if value > 0), default=limit)
        return max(min(smallest, limit / 10) / 2, limit * 1e-6), max(*values, limit) * 2
    return min(0.0, *values), max(*values, 0.0) or 1.0


def _label(value: float) -> str:
    """Return a number short enough for the margin."""
    return f"{value:.0e}" if 0 < value < 0.01 else f"{value:.3g}"


def _text(x: int, y: int, words: str, anchor: str) -> str:
    return f"<text x={x} y={y} text-anchor={anchor}>{escape(words)}</text>"
