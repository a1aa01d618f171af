"""Explain why the requirements of a spec cannot be resolved, in terms of the spec."""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from provision.catalog.snapshot import Wheel
from provision.core.errors import SpecError, ToolError
from provision.core.findings import toml_table
from provision.core.platforms import ACCELERATORS
from provision.core.process import Completed
from provision.core.progress import Progress
from provision.core.text import plural
from provision.lockfile.tags import best_wheel
from provision.resolver.uv import UvResolver
from provision.spec.model import Target
from provision.spec.requirement_files import requirement_name

# One step of uv's derivation: "because <premises>, we can conclude that <conclusion>". Conclusions
# only repeat the premises in longer words, so premises alone are shown.
_PREMISES = re.compile(r"[Bb]ecause (.*?),? we can conclude that")
_ITEMS = re.compile(r":\n((?: {9,}\S+\n)+)")  # a list, one version range per line
_TABLE = toml_table(Path(__file__).with_suffix(".toml"))
_LATE = re.compile(
    r"`(\S+)` was filtered by `exclude-newer`.*?version, v(\S+), was published at (\d{4}-\d\d-\d\d)"
)
_NO_SOLUTION = "No solution found"
_ABSENT = re.compile(r"(?:there is no|no index has a package) (\S+)")


def explain_conflict(
    target: Target,
    failed: Completed,
    engine: UvResolver,
    catalog: Mapping[str, Sequence[Wheel]],
    progress: Progress,
) -> SpecError:
    """Return the error that explains why resolving failed: each fault, not only the first.

    ToolError: uv itself failed.

    What uv says first is shown at once. Then the requirements that are part of a fault are left
    out, and the others are resolved again, until they can be.
    """
    if _NO_SOLUTION not in failed.stderr:
        remedy = f"correct what uv names, or envs/{target.name}.toml"
        failed.require(f"could not resolve {target.name}", remedy=remedy)
    conflicts: list[list[str]] = []
    facts: list[str] = []
    remedies: list[str] = []
    remaining = list(target.pip.requirements)
    run: Completed | None = failed
    while run and _NO_SOLUTION in run.stderr:
        stated = "; ".join(stated_facts(run.stderr))
        progress.step(f"{target.name}: {stated}; looking for more")
        conflict, alone = smallest_conflict(target, remaining, run, engine)
        more, remedy = _judged(target, conflict, alone.stderr, engine, catalog)
        conflicts.append(conflict)
        facts += more
        remedies.append(remedy)
        remaining = [text for text in remaining if text not in conflict]
        run = _resolve(target, remaining, engine) if remaining else None
    requirements = [text for conflict in conflicts for text in conflict]
    spec = f"envs/{target.name}.toml"
    error = SpecError(
        f"{target.name}: {_subject(conflicts)}",
        evidence="\n".join(f"{spec} asks for {text}" for text in requirements),
        cause="\n".join(dict.fromkeys(facts)),
        remedy="\n".join(dict.fromkeys(remedies)),
    )
    error.requirements = tuple(requirements)
    # For --debug.
    error.__cause__ = ToolError(f"uv on {target.name}", evidence=failed.stderr)
    return error


def _resolve(
    target: Target, requirements: Sequence[str], engine: UvResolver
) -> Completed | None:
    """Return the failed run on some of the requirements, None on success."""
    done = engine.pins(target.with_pip(requirements=tuple(requirements)))
    return done if isinstance(done, Completed) else None


def smallest_conflict(
    target: Target, requirements: Sequence[str], failed: Completed, engine: UvResolver
) -> tuple[list[str], Completed]:
    """Return a minimal set of requirements that conflict, and the failed run on them alone.

    Only those that uv names can have a part in it: each is left out in turn. A run that fails for
    another reason, such as the network, proves nothing and the requirement stays.
    """
    words = re.findall(r"\w[\w.-]*", failed.stderr.split("hint:")[0])
    named = set(map(canonicalize_name, words))
    remaining = [text for text in requirements if requirement_name(text) in named]
    # An override, for instance, is in none of them.
    remaining = remaining or list(requirements)
    for requirement in list(remaining):
        others = [text for text in remaining if text != requirement]
        run = _resolve(target, others, engine) if others else None
        if run and _NO_SOLUTION in run.stderr:
            remaining, failed = others, run
    return remaining, failed


def stated_facts(text: str) -> list[str]:
    """Return the facts that uv's explanation rests on, reworded, in its order."""
    lists = _ITEMS.sub(lambda items: f" {'|'.join(items[1].split())} ", text)
    # Without markers, and without the line ends of uv's wrapping.
    flat = " ".join(re.sub(r"\{[^}]*\}", "", lists).split())
    facts = []
    for premise in _PREMISES.findall(flat):
        facts += _reworded(premise)
    if any(" has no wheel for " in fact for fact in facts):
        # uv divides the versions by whether a wheel fits, so this would say nothing new.
        facts = [fact for fact in facts if not fact.startswith("there is only")]
    for name, version, day in _LATE.findall(flat):
        facts.append(f"{name} {version} was published on {day}, not before the cut-off")
    if facts:
        return list(dict.fromkeys(facts))
    # Without a cause, the reader would have nothing: then uv's own words.
    return [flat.partition("cause: ")[2].partition(" hint:")[0]]


def _reworded(premise: str) -> list[str]:
    facts = []
    for pattern, words in _TABLE["facts"]:
        whole = pattern.replace("ALL", _TABLE["all"]).replace("SET", _TABLE["set"])
        for match in re.finditer(whole, premise):
            first, *more = match.expand(words).split("|")
            if len(more) > 2:
                more = ["…", more[-1]]
            facts.append((match.start(), " or ".join([first, *more])))
    return [words for _, words in sorted(facts)]


def _judged(
    target: Target,
    conflict: Sequence[str],
    text: str,
    engine: UvResolver,
    catalog: Mapping[str, Sequence[Wheel]],
) -> tuple[list[str], str]:
    """Return the facts of a fault, and its remedy."""
    facts, lock = stated_facts(text), f"`provision lock {target.name} --upgrade"
    if len(conflict) == 1 and (lacking := _lacking(target, conflict[0], catalog)):
        remedy = "`provision update` gets what is missing from the index, or hashes the file itself"
        return facts + lacking, remedy
    if late := _LATE.search(" ".join(text.split())):
        return facts, f"{lock} {late[1]}`, or ask for another version"
    if day := _hiding_cutoff(target, conflict, engine):
        hidden = f"the cut-off {day} hides what is newer: with today's, they fit"
        return [*facts, hidden], f"{lock}` moves the cut-off to today"
    spec, assignments = f"envs/{target.name}.toml", []
    for absent in filter(None, map(_ABSENT.fullmatch, facts[:])):
        if index := _other_index(target, absent[1], catalog):
            facts.append(f"{absent[1]} is in {index}")
            assignments.append(f'`{index} = ["{Requirement(absent[1]).name}"]`')
    if assignments:
        return facts, f"assign it: {', '.join(assignments)} in [pip.index] of {spec}"
    if len(conflict) == 1:
        facts += _nearest(target, Requirement(conflict[0]), engine)
    assigned = {target.pip.index_of(requirement_name(text)) for text in conflict}
    updates = [f"`provision update {name}`" for name in sorted(assigned - {"default"})]
    return facts, " or ".join([*updates, f"change what is asked for in {spec}"])


def _nearest(target: Target, asked: Requirement, engine: UvResolver) -> list[str]:
    """Return which versions next to what is asked for can be installed, as a fact."""
    bounds = []
    for specifier in asked.specifier:
        if specifier.operator != "===":  # which need not be a version
            bounds.append(Version(specifier.version.removesuffix(".*")))
    if not bounds:
        return []
    near = engine.nearest(target, asked.name, min(bounds), max(bounds))
    if not near:
        return []
    return [f"the nearest versions of {asked.name} that fit: {', '.join(near)}"]


def _lacking(
    target: Target, asked: str, catalog: Mapping[str, Sequence[Wheel]]
) -> list[str]:
    """Return what keeps the catalog's wheels of a requirement from being locked."""
    facts = []
    for index in target.pip.index:
        for wheel in catalog[index]:
            if wheel.lacks and _matches(asked, wheel):
                facts.append(f"the catalog lists {wheel.filename}, but {wheel.lacks}")
    return facts


def _hiding_cutoff(
    target: Target, conflict: Sequence[str], engine: UvResolver
) -> dt.date | None:
    today = dt.datetime.now(dt.UTC).date()
    oldest = min([target.pip.cutoff, *target.pip.cutoffs.values()])
    if oldest >= today:
        return None
    later = target.with_pip(cutoff=today, cutoffs={})
    return None if _resolve(later, conflict, engine) else oldest


def _matches(text: str, wheel: Wheel) -> bool:
    requirement = Requirement(text)
    named = canonicalize_name(requirement.name) == wheel.name
    return named and requirement.specifier.contains(wheel.version, prereleases=True)


def _other_index(
    target: Target, asked: str, catalog: Mapping[str, Sequence[Wheel]]
) -> str:
    """Return an index that has what is asked for, for this accelerator or by its local version."""
    assigned = target.pip.index_of(requirement_name(asked))
    build = ACCELERATORS[target.accelerator].build
    for index, wheels in catalog.items():
        for wheel in wheels:
            local = Version(wheel.version).local or build
            ours = local.startswith(build) or f"+{local}" in asked
            usable = ours and index != assigned and not wheel.lacks
            if (
                usable
                and _matches(asked, wheel)
                and best_wheel([wheel.filename], *target.machine)
            ):
                return index
    return ""


def _subject(conflicts: Sequence[Sequence[str]]) -> str:
    *others, last = conflicts[0]
    text = f"{last} is not available"
    if others:
        text = f"{', '.join(others)} and {last} cannot be installed together"
    if len(conflicts) > 1:
        text += f", and {plural(len(conflicts) - 1, 'more fault')}"
    return text
