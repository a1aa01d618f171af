"""uv's words on what cannot be installed: the facts that they rest on, and the few that prove it."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from packaging.utils import canonicalize_name

from provision.core.findings import toml_table

NO_SOLUTION = "No solution found"
ONLY_SOURCE = "only source"  # ends a fact of derivation.toml
LATE = re.compile(
    r"`(\S+)` was filtered by `exclude-newer`.*?version, v(\S+), was published at (\d{4}-\d\d-\d\d)"
)
# One step of uv's derivation: "because <premises>, we can conclude that <conclusion>". Conclusions
# only repeat the premises in longer words, so premises alone are shown.
_PREMISES = re.compile(r"[Bb]ecause (.*?),? we can conclude that")
_ITEMS = re.compile(r":\n((?: {9,}\S+\n)+)")  # a list, one version range per line
_TABLE = toml_table(Path(__file__).with_suffix(".toml"))
_FEW = 3  # facts that are read at once; of more, those that prove it are searched
Edge = tuple[str, str]  # a distribution, and one that it needs


class Fact(NamedTuple):
    """One premise of a derivation: what a distribution needs, or how it cannot be installed."""

    words: str
    about: str = ""  # a distribution, normalised
    needs: str = ""  # another one; "" where the fact is of another kind
    wants: str = ""  # in which versions

    @property
    def is_limit(self) -> bool:
        """Whether it says which versions are there."""
        return self.words.startswith("there is only")


def stated_facts(text: str) -> list[Fact]:
    """Return the facts that uv's explanation rests on, reworded, in its order."""
    lists = _ITEMS.sub(lambda items: f" {'|'.join(items[1].split())} ", text)
    unmarked = re.sub(r"\{[^}]*\}", "", lists)
    flat = " ".join(unmarked.split())  # without the line ends of uv's wrapping
    facts = []
    for premise in _PREMISES.findall(flat):
        facts += _reworded(premise)
    if any(" has no wheel for " in fact.words for fact in facts):
        # uv divides the versions by whether a wheel fits, so this would say nothing new.
        facts = [fact for fact in facts if not fact.is_limit]
    for name, version, day in LATE.findall(flat):
        words = f"{name} {version} was published on {day}, not before the cut-off"
        facts.append(Fact(words, _name(name)))
    if facts:
        return list(dict.fromkeys(facts))
    # Without a cause, the reader would have nothing: then uv's own words.
    _, _, cause = flat.partition("cause: ")
    return [Fact(cause.partition(" hint:")[0])]


def source_only(facts: Iterable[Fact]) -> set[str]:
    """Return the distributions that have no wheel but a source to build one from."""
    return {fact.about for fact in facts if fact.words.endswith(ONLY_SOURCE)}


def _reworded(premise: str) -> list[Fact]:
    facts = []
    for pattern, form in _TABLE["facts"]:
        whole = pattern.replace("ALL", _TABLE["all"])
        whole = whole.replace("SET", _TABLE["set"])
        for match in re.finditer(whole, premise):
            words = form
            wants = ""
            for number, ranges in enumerate(match.groups(), 1):
                words = words.replace(f"\\{number}", _shortened(ranges))
            if " needs " in form:
                wants = _shortened(match[2])
            fact = Fact(words, _name(match[1]), _name(wants), wants)
            facts.append((match.start(), fact))
    return [fact for _, fact in sorted(facts)]


def _shortened(ranges: str) -> str:
    first, *more = ranges.split("|")
    if len(more) > 2:
        more = ["…", more[-1]]
    return " or ".join([first, *more])


def _name(words: str) -> str:
    found = re.match(r"[A-Za-z0-9][\w.-]*", words)
    return str(canonicalize_name(found[0])) if found else ""


def shortest_proof(facts: Sequence[Fact], roots: Sequence[str]) -> list[str]:
    """Return the facts that lead from what is required to where it fails, in few lines.

    ``roots`` are the distributions that are required. Of a chain over many versions, the facts
    about one pair of packages become one.
    """
    if len(facts) <= _FEW:
        return [fact.words for fact in facts]
    edges: dict[Edge, list[Fact]] = defaultdict(list)
    ends = []
    for fact in facts:
        if fact.needs:
            edges[fact.about, fact.needs].append(fact)
        elif not fact.is_limit:  # it says that something is not there
            ends.append(fact)
    root, *others = roots
    shown = []
    for other in others:
        shown += _path(edges, root, [other])
    if not others:
        shown = _path(edges, root, [fact.about for fact in ends])
    words = [_merged(edges[edge]) for edge in dict.fromkeys(shown)]
    if not others or not shown:
        met = {*roots, *chain.from_iterable(shown)}
        words += [fact.words for fact in ends if fact.about in met][:_FEW]
    return words or [_merged(several) for several in edges.values()][:_FEW]


def _path(edges: Iterable[Edge], start: str, goals: Sequence[str]) -> list[Edge]:
    """Return the shortest way from a package to one of others, whoever of each pair needs whom."""
    paths: dict[str, list[Edge]] = {start: []}
    waiting = [start]
    for name in waiting:
        if name in goals:
            return paths[name]
        for edge in edges:
            if name in edge:
                for other in edge:
                    if other not in paths:
                        paths[other] = [*paths[name], edge]
                        waiting.append(other)
    return []


def _merged(facts: Sequence[Fact]) -> str:
    """Return what several versions of a package need of another one, as one fact."""
    first = facts[0]
    last = facts[-1]
    if first is last:
        return first.words
    if len({fact.wants for fact in facts}) == 1:
        return f"every {first.about} that can be chosen needs {first.wants}"
    return f"{first.about} needs {first.wants} or … or {last.wants}, by its version"
