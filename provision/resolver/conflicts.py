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
    faults: list[tuple[Sequence[str], Sequence[str], str]] = []
    remaining = list(target.pip.requirements)
    run: Completed | None = failed
    while run and _NO_SOLUTION in run.stderr:
        progress.step(
            f"{target.name}: {'; '.join(stated_facts(run.stderr))}; looking for more"
        )
        conflict, alone = smallest_conflict(target, remaining, run, engine)
        faults.append(
            (conflict, *_judged(target, conflict, alone.stderr, engine, catalog))
        )
        remaining = [text for text in remaining if text not in conflict]
        run = _resolve(target, remaining, engine) if remaining else None
    conflicts, facts, remedies = zip(*faults, strict=True)
    evidence = "\n".join(
        f"envs/{target.name}.toml asks for {r}" for c in conflicts for r in c
    )
    cause = "\n".join(dict.fromkeys(fact for each in facts for fact in each))
    remedy = "\n".join(dict.fromkeys(remedies))
    what = f"{target.name}: {_subject(conflicts)}"
    error = SpecError(what, evidence=evidence, cause=cause, remedy=remedy)
    error.requirements = tuple(r for each in conflicts for r in each)
    error.__cause__ = ToolError(
        f"uv on {target.name}", evidence=failed.stderr
    )  # for --debug
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
    named = {*map(canonicalize_name, words)}
    remaining = [r for r in requirements if requirement_name(r) in named]
    remaining = remaining or list(
        requirements
    )  # an override, for instance, is in none of them
    for requirement in remaining[:] if len(remaining) > 1 else ():
        others = [other for other in remaining if other != requirement]
        if (
            others
            and (run := _resolve(target, others, engine))
            and _NO_SOLUTION in run.stderr
        ):
            remaining, failed = others, run
    return remaining, failed


def stated_facts(text: str) -> list[str]:
    """Return the facts that uv's explanation rests on, reworded, in its order."""
    lists = _ITEMS.sub(lambda items: f" {'|'.join(items[1].split())} ", text)
    flat = " ".join(
        re.sub(r"\{[^}]*\}", "", lists).split()
    )  # no markers; uv wraps its lines
    found = [fact for premise in _PREMISES.findall(flat) for fact in _reworded(premise)]
    if any(" has no wheel for " in fact for fact in found):
        # uv divides the versions by whether a wheel fits, so this would say nothing new.
        found = [fact for fact in found if not fact.startswith("there is only")]
    found += [
        f"{m[1]} {m[2]} was published on {m[3]}, not before the cut-off"
        for m in _LATE.finditer(flat)
    ]
    # Without a cause, the reader would have nothing: then uv's own words.
    return list(dict.fromkeys(found)) or [
        flat.partition("cause: ")[2].partition(" hint:")[0]
    ]


def _reworded(premise: str) -> list[str]:
    found = []
    for pattern, words in _TABLE["facts"]:
        whole = pattern.replace("ALL", _TABLE["all"]).replace("SET", _TABLE["set"])
        for match in re.finditer(whole, premise):
            first, *more = match.expand(words).split("|")
            shown = [first, *(["…", more[-1]] if len(more) > 2 else more)]
            found.append((match.start(), " or ".join(shown)))
    return [words for _, words in sorted(found)]


def _judged(
    target: Target,
    conflict: Sequence[str],
    text: str,
    engine: UvResolver,
    catalog: Mapping[str, Sequence[Wheel]],
) -> tuple[list[str], str]:
    """Return the facts of a fault, and its remedy."""
    spec, facts = f"envs/{target.name}.toml", stated_facts(text)
    assigned = {target.pip.index_of(requirement_name(r)) for r in conflict}
    updates = [
        f"`provision update {index}`" for index in sorted(assigned - {"default"})
    ]
    remedy = " or ".join([*updates, f"change what is asked for in {spec}"])
    lacking = [
        f"the catalog lists {wheel.filename}, but {wheel.lacks}"
        for index in target.pip.index
        for wheel in catalog[index]
        if wheel.lacks and _matches(conflict[0], wheel)
    ]
    if len(conflict) == 1 and lacking:
        facts += lacking
        remedy = "`provision update` gets what is missing from the index, or hashes the file itself"
    elif late := _LATE.search(" ".join(text.split())):
        remedy = f"`provision lock {target.name} --upgrade {late[1]}`, or ask for another version"
    elif day := _hiding_cutoff(target, conflict, engine):
        facts.append(f"the cut-off {day} hides what is newer: with today's, they fit")
        remedy = f"`provision lock {target.name} --upgrade` moves the cut-off to today"
    else:
        missing = [m[1] for fact in facts if (m := _ABSENT.fullmatch(fact))]
        homes = {
            r: index for r in missing if (index := _other_index(target, r, catalog))
        }
        if homes:
            facts += [f"{wanted} is in {index}" for wanted, index in homes.items()]
            lines = [
                f'`{i} = ["{Requirement(wanted).name}"]`' for wanted, i in homes.items()
            ]
            remedy = f"assign it: {', '.join(lines)} in [pip.index] of {spec}"
        elif len(conflict) == 1:
            facts += _nearest(target, Requirement(conflict[0]), engine)
    return facts, remedy


def _hiding_cutoff(
    target: Target, conflict: Sequence[str], engine: UvResolver
) -> dt.date | None:
    today = dt.datetime.now(dt.UTC).date()
    oldest = min(today, target.pip.cutoff, *target.pip.cutoffs.values())
    later = target.with_pip(requirements=(*conflict,), cutoff=today, cutoffs={})
    return oldest if oldest < today and isinstance(engine.pins(later), dict) else None


def _matches(text: str, wheel: Wheel) -> bool:
    wanted = Requirement(text)
    named = canonicalize_name(wanted.name) == wheel.name
    return named and wanted.specifier.contains(wheel.version, prereleases=True)


def _other_index(
    target: Target, asked: str, catalog: Mapping[str, Sequence[Wheel]]
) -> str:
    """Return an index that has what is asked for, for this accelerator or by its local version."""
    assigned = target.pip.index_of(requirement_name(asked))
    for index, wheels in catalog.items():
        for wheel in wheels if index != assigned else ():
            local = Version(wheel.version).local or ""
            ours = not local or local.startswith(ACCELERATORS[target.accelerator].build)
            if (ours or f"+{local}" in asked) and (
                _matches(asked, wheel)
                and not wheel.lacks
                and best_wheel([wheel.filename], target.platform, target.python)
            ):
                return index
    return ""


def _nearest(target: Target, wanted: Requirement, engine: UvResolver) -> list[str]:
    bounds = sorted(
        Version(each.version.removesuffix(".*"))
        for each in wanted.specifier
        if each.operator != "==="
    )
    near = engine.nearest(target, wanted.name, bounds[0], bounds[-1]) if bounds else []
    return (
        [f"the nearest versions of {wanted.name} that fit: {', '.join(near)}"]
        if near
        else []
    )


def _subject(conflicts: Sequence[Sequence[str]]) -> str:
    *others, last = conflicts[0]
    more = (
        f", and {plural(len(conflicts) - 1, 'more fault')}"
        if len(conflicts) > 1
        else ""
    )
    if not others:
        return f"{last} is not available{more}"
    return f"{', '.join(others)} and {last} cannot be installed together{more}"
