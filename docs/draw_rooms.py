"""Draw ``docs/explanation/rooms.svg``: the packages of ``provision/`` and their imports.

``nox -s docs`` runs it, and ``tests/test_docs.py`` fails where the committed picture differs.
"""
# ruff: noqa: INP001 - a program, not a module of a package

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import grimp  # import-linter's own reader of imports

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "explanation" / "rooms.svg"
# What is started as a program, which no import shows: from, to, and the line that starts it.
PROGRAMS = (
    ("noxfile.py", "cli", "provision/sessions.py", r'"-m",\s+"provision"'),
    ("commands", "smoke/", "provision/commands/smoke.py", r'"run\.py"'),
    ("image", "docker/", "provision/image/*.py", r'"Dockerfile"'),
    ("docker/", "smoke/", "docker/bin/smoke", r"smoke/run\.py"),
)
WIDTH, BOX, PITCH = 390, 30, 64  # the width of a phone; heights of a box and of a layer
STYLE = """
  rect.ground { fill: #ffffff; }  rect.room { fill: #eaf1fb; stroke: #3b6ea8; }
  rect.outside { fill: #f6efe2; stroke: #a8793b; }  text { fill: #1f2328; }
  path { fill: none; stroke: #57606a; }  path.head { fill: #57606a; stroke: none; }
  path.program { stroke-dasharray: 4 3; }
  text { font: 600 12px system-ui, sans-serif; text-anchor: middle; }
  @media (prefers-color-scheme: dark) {
    rect.ground { fill: #0d1117; }  rect.room { fill: #16263c; stroke: #5b93d6; }
    rect.outside { fill: #2e2415; stroke: #d0a05c; }  text { fill: #e6edf3; }
    path { stroke: #9198a1; }  path.head { fill: #9198a1; }
  }
"""

Edge = tuple[str, str]


class Node(NamedTuple):
    """A box, or a place where a long arrow passes through a layer.

    Attributes:
        name: Of the box; empty for a place of an arrow.
        arrow: The arrow that passes; None for a box.
        layer: Counted from the bottom.
    """

    name: str
    arrow: Edge | None
    layer: int

    @property
    def width(self) -> float:
        """Pixels that it takes in its layer."""
        return 8 * len(self.name) + 16 if self.name else 8


def imports() -> Counter[Edge]:
    """Return how many imports lead from one package of ``provision/`` to another."""
    graph = grimp.build_graph("provision", cache_dir=None)
    rooms = {name.partition(".")[2]: name for name in graph.find_children("provision")}
    for module in ("__main__", "sessions"):  # the latter is of noxfiles
        rooms.pop(module)
    within = {
        room: {name, *graph.find_descendants(name)} for room, name in rooms.items()
    }
    return Counter(
        {
            (upper, lower): count
            for upper, lower in itertools.permutations(within, 2)
            if (
                count := sum(
                    len(graph.find_modules_directly_imported_by(module) & within[lower])
                    for module in within[upper]
                )
            )
        }
    )


def programs() -> list[Edge]:
    """Return who starts whom as a program.

    Raises:
        LookupError: The line that starts it is not there any more: correct ``PROGRAMS``.
    """
    for upper, lower, files, pattern in PROGRAMS:
        if not any(
            re.search(pattern, path.read_text("utf-8")) for path in ROOT.glob(files)
        ):
            raise LookupError(f"{upper} -> {lower}: no {pattern} in {files}")
    return [(upper, lower) for upper, lower, *_ in PROGRAMS]


def direct(edges: Counter[Edge]) -> list[Edge]:
    """Return the arrows that do not follow from others: without them no order is lost."""
    below = _below(edges)

    @functools.cache
    def reach(room: str) -> frozenset[str]:
        return frozenset(below[room]).union(*map(reach, below[room]))

    return sorted(
        (upper, lower)
        for upper, lower in edges
        if not any(lower in reach(other) for other in below[upper] - {lower})
    )


def _below(edges: Counter[Edge]) -> defaultdict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for upper, lower in edges:
        found[upper].add(lower)
    return found


def layers(edges: Counter[Edge], started: list[Edge]) -> dict[str, int]:
    """Return each box's layer: above all that it imports; a program just below who starts it.

    Raises:
        RecursionError: Packages import one another in a circle; `nox -s lint` names it.
    """
    below = _below(edges)

    @functools.cache
    def height(room: str) -> int:
        return 1 + max(map(height, below[room]), default=-1)

    found = {room: height(room) for edge in edges for room in edge}
    for upper, lower in started:
        if upper not in found:
            found[upper] = found[lower] + 1
        if lower not in below and lower.endswith("/"):
            found[lower] = min(found.get(lower, found[upper]), found[upper] - 1)
    return found


def chains(arrows: list[Edge], layer: dict[str, int]) -> dict[Edge, list[Node]]:
    """Return the nodes that each arrow visits, from its box down, one in each layer."""
    return {
        (upper, lower): [
            Node(upper, None, layer[upper]),
            *(
                Node("", (upper, lower), at)
                for at in range(layer[upper] - 1, layer[lower], -1)
            ),
            Node(lower, None, layer[lower]),
        ]
        for upper, lower in arrows
    }


def places(lines: dict[Edge, list[Node]]) -> dict[Node, float]:
    """Return the middle of each node, so that few arrows cross and all are short.

    Every order of every layer is weighed against every order of the next; layers hold up to six.
    """
    nodes = sorted({node for line in lines.values() for node in line}, key=str)
    steps = [pair for line in lines.values() for pair in itertools.pairwise(line)]
    best: dict[tuple[Node, ...], tuple[float, dict[Node, float]]] = {(): (0, {})}
    for at in range(max(node.layer for node in nodes), -1, -1):
        here = [node for node in nodes if node.layer == at]
        between = [(upper, lower) for upper, lower in steps if lower.layer == at]
        fresh = {}
        for order in itertools.permutations(here):
            row = _spread(order)
            fresh[order] = min(
                (
                    (cost + _cost(between, placed, row), placed | row)
                    for cost, placed in best.values()
                ),
                key=lambda pair: pair[0],
            )
        best = fresh
    return min(best.values(), key=lambda pair: pair[0])[1]


def _spread(order: tuple[Node, ...]) -> dict[Node, float]:
    gap = (WIDTH - sum(node.width for node in order)) / (len(order) + 1)
    found, left = {}, gap
    for node in order:
        found[node] = left + node.width / 2
        left += node.width + gap
    return found


def _cost(
    steps: list[tuple[Node, Node]], above: dict[Node, float], row: dict[Node, float]
) -> float:
    ends = [(above[upper], row[lower]) for upper, lower in steps]
    crossings = sum(
        (a - c) * (b - d) < 0 for (a, b), (c, d) in itertools.combinations(ends, 2)
    )
    return 200 * crossings + sum(abs(a - b) for a, b in ends)


def draw() -> str:
    """Return the picture."""
    edges, started = imports(), programs()
    layer = layers(edges, started)
    lines = chains([*direct(edges), *started], layer)
    middle = places(lines)
    top = max(layer.values())
    height = top * PITCH + BOX + 20

    def y(node: Node) -> int:
        return 10 + (top - node.layer) * PITCH

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"',
        f'  width="{WIDTH}" height="{height}">',
        "<title>The packages of provision/: each imports only from packages below it</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height}" rx="8"/>',
    ]
    for edge, line in sorted(lines.items()):
        points = [(_port(edge, node, lines, middle), y(node)) for node in line]
        parts += _arrow(points, edges[edge])
    for node in sorted(middle, key=str):
        if node.name:
            kind = "outside" if re.search(r"[./]", node.name) else "room"
            x = middle[node]
            parts += [
                f'<rect class="{kind}" x="{x - node.width / 2:.0f}" y="{y(node)}"',
                f'  width="{node.width}" height="{BOX}" rx="6"/>',
                f'<text x="{x:.0f}" y="{y(node) + BOX / 2 + 4:.0f}">{node.name}</text>',
            ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _port(
    edge: Edge, node: Node, lines: dict[Edge, list[Node]], middle: dict[Node, float]
) -> float:
    """Return where an arrow touches a box: side by side with the others, in their order."""
    if not node.name:
        return middle[node]
    side = (
        0 if node.name == edge[0] else -1
    )  # it leaves at the bottom, or arrives at the top
    others = [line for line in lines.values() if line[side] == node]
    next_to = sorted(others, key=lambda line: middle[line[1 if side == 0 else -2]])
    step = min(12, (node.width - 12) / len(others))
    return middle[node] + (next_to.index(lines[edge]) - (len(others) - 1) / 2) * step


def _arrow(points: list[tuple[float, int]], count: int) -> list[str]:
    """Return a line and its head; three widths, so that not every new import redraws it."""
    width = 1 + (count >= 3) * 0.8 + (count >= 6) * 0.8
    (x, y), *rest = points
    path = f"M{x:.0f} {y + BOX}"
    for number, (end, below) in enumerate(rest, 1):
        last = number == len(rest)
        start, stop = points[number - 1][1] + BOX, below - (5 if last else 0)
        half = (start + stop) / 2
        path += f" C{x:.0f} {half:.0f} {end:.0f} {half:.0f} {end:.0f} {stop}"
        path += "" if last else f" V{below + BOX}"
        x = end
    kind = "" if count else ' class="program"'
    head = f"M{x:.0f} {points[-1][1]} l-4 -7 h8 z"
    return [
        f'<path{kind} stroke-width="{width}" d="{path}"/>',
        f'<path class="head" d="{head}"/>',
    ]


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
