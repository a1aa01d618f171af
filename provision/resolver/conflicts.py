"""Explain why requirements cannot be resolved, by the lines that say them; what is source only."""

import re
from collections.abc import Iterator, Sequence
from textwrap import shorten

from provision.core.errors import SpecError, ToolError
from provision.core.process import Completed
from provision.core.progress import Progress
from provision.core.text import plural
from provision.resolver.derivation import NO_SOLUTION, shortest_proof, stated_facts
from provision.resolver.judge import Catalog, Judge, Judged
from provision.resolver.search import Search
from provision.resolver.uv import UvResolver
from provision.resolver.ways_out import Fault, Way
from provision.spec.model import Target
from provision.spec.places import Line, Places

_BUILD = re.compile(r"build backend|Failed to build")
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
_STEP = 100  # columns of a step of the progress, which is one line


def explain_conflict(
    target: Target,
    failed: Completed,
    engine: UvResolver,
    catalog: Catalog,
    *,
    places: Places,
    progress: Progress,
) -> SpecError:
    """Return the error that explains why resolving failed: each error, not only the first.

    ToolError: uv itself failed.

    The requirements that are part of an error are left out, and the others are resolved again, until
    they can be. Of what lacks nothing but a build, only what would be built is left out.
    """
    if NO_SOLUTION not in failed.stderr:
        _refuse_tool(target, failed, places)
    search = Search(target, engine, places)
    run: Completed | None = failed
    while run and NO_SOLUTION in run.stderr:
        first, *_ = stated_facts(run.stderr)
        words = shorten(first.words, _STEP, placeholder=" …")
        progress.step(f"{target.name}: {words}; looking for more")
        run = search.go_on(run)
    progress.step(f"{target.name}: looking for a fix")
    judge = Judge(target, engine, catalog, places, search.rest)
    error = _error(search, judge)
    # For --debug.
    error.__cause__ = ToolError(f"uv on {target.name}", evidence=failed.stderr)
    return error


def _refuse_tool(target: Target, failed: Completed, places: Places) -> None:
    """Raise the ToolError of a run that did not come to resolve, such as without a network."""
    own = [line for line in places.lines if line.key == "local"]
    if own and _BUILD.search(failed.stderr):
        which = " or ".join(f"{line.text} ({line.place})" for line in own)
        what = f"{target.name}: an own package cannot be read: {which}"
        remedy = "correct its build, which tells what it requires"
        if missing := _MISSING.search(failed.stderr):
            remedy = (
                f"name {missing[1]} in `requires` of [build-system] in its pyproject.toml, because "
                "its build imports that, and runs in an environment of its own"
            )
        failed.require(what, remedy=remedy)
    remedy = f"correct what uv names, or {places.spec}"
    failed.require(f"could not resolve {target.name}", remedy=remedy)


def _error(search: Search, judge: Judge) -> SpecError:
    """Return all that was found as one error."""
    faults = list(search.faults)
    unbuilt = []
    judged = [judge.judge(fault) for fault in faults]
    for fault in search.unbuilt:
        if of_glibc := judge.of_glibc(fault):
            faults.append(fault)
            judged.append(of_glibc)
        else:
            unbuilt.append(fault)
    words = []
    build = set[str]()
    lines = list[Line]()
    for explained in judged:
        words += explained.words
    for fault in unbuilt:
        words += shortest_proof(fault.facts, fault.roots)
        words += judge.with_wheel(fault)
        build.update(fault.build)
    if unbuilt:
        words.append(
            "a build runs the code of a package, so only what the spec names is built"
        )
    for fault in (*faults, *unbuilt):
        lines += fault.lines
    to_build = sorted(build)
    return SpecError(
        f"{judge.target.name}: {_subject(faults, to_build, judge.target)}",
        evidence="\n".join(map(_evidence, dict.fromkeys(lines))),
        cause="\n".join(dict.fromkeys(words)),
        remedy="\n".join(_remedies(judged, to_build, judge)),
    )


def _subject(faults: Sequence[Fault], build: Sequence[str], target: Target) -> str:
    if not faults:
        return f"there is no wheel of {', '.join(build)}, only source"
    first = faults[0]
    *others, last = dict.fromkeys(line.text for line in first.lines)
    text = f"{last} is not available"
    if others:
        text = f"{', '.join(others)} and {last} cannot be installed together"
    for fact in first.facts:
        if fact.needs == "python":
            text = f"{fact.words}, and the target has Python {target.python}"
    more = len(faults) - 1 + bool(build)
    return f"{text}, and {plural(more, 'more error')}" if more else text


def _evidence(line: Line) -> str:
    verbs = {"constraints": "limits", "overrides": "replaces"}
    return f"{line.place} {verbs.get(line.key, 'requires')} {line.text}"


def _remedies(
    judged: Sequence[Judged], build: Sequence[str], judge: Judge
) -> Iterator[str]:
    """Yield what to do about all errors, of lines of the spec each key once."""
    keep = Way()
    follow = Way()
    for explained in judged:
        if explained.ways:
            keep.add(explained.ways[0])
            follow.add(explained.ways[1])
    name = judge.target.name
    places = judge.places
    names = []
    if build:
        names = sorted({*build, *places.own.get("build", ())})
    kept = keep.text(name, places, names)
    if keep != follow:
        yield f"to keep what the project requires: {kept}"
        followed = follow.text(name, places, names)
        yield f"to keep what {places.spec} inherits: {followed}"
    elif kept:
        yield kept
    if build and not judged:
        lock = f"`provision lock {name} --upgrade` moves the cut-off to today"
        yield f"or, if later releases have wheels, {lock}"
    says = [explained.says for explained in judged if explained.says]
    yield from dict.fromkeys(says)
