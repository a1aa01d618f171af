"""Explain why the requirements of a spec cannot be resolved, in terms of the spec."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provision.core.errors import SpecError, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from provision.catalog.snapshot import Wheel
    from provision.core.process import Completed
    from provision.spec.model import Target

# One step of uv's derivation: "because <premises>, we can conclude that <conclusion>". Conclusions
# only repeat the premises in longer words, so premises alone are shown.
_PREMISES = re.compile(r"[Bb]ecause (.*?), we can conclude that")
_SET = r"([^\s,]+(?:,[<>=!~][^\s,]*)*)"
# Wording of uv 0.13 -> wording of the error. What no pattern matches is left out: the whole message
# is the evidence that --debug shows.
_FACTS = (
    (rf"all versions of (\S+) depend on {_SET}", r"every \1 needs \2"),
    (rf"{_SET} depends on {_SET}", r"\1 needs \2"),
    (r"there (?:is|are) no versions? of (\S+)", r"there is no \1"),
    (r"only (?:the following versions of )?(.+?) (?:is|are) available(?:: (.+?))?(?= and |$)",
     r"there is only \1 \2"),
    (r"(\S+) was not found in the package registry", r"no index has a package \1"),
    (r"(\S+) has no wheels with a matching [^`]+`([^`]+)`", r"\1 has no wheel for \2"),
    (r"(\S+) has no usable wheels", r"\1 exists as source only, and only wheels are locked"),
)  # fmt: skip
_LATE = re.compile(
    r"`(\S+)` was filtered by `exclude-newer`.*?version, v(\S+), was published at (\d{4}-\d\d-\d\d)"
)
_NO_SOLUTION = "No solution found"


def explain_conflict(
    target: Target,
    failed: Completed,
    resolve: Callable[[Sequence[str]], Completed | None],
    unusable: Sequence[Wheel],
) -> SpecError | ToolError:
    """Return the error that explains why resolving failed.

    Args:
        target: The spec.
        failed: The failed run of the resolver.
        resolve: Resolves a part of the requirements; returns the failed run, None on success.
        unusable: Wheels of the catalog that lack a hash or metadata and so were not offered.
    """
    whole = ToolError(f"uv on {target.name}", evidence=failed.stderr.strip())
    if _NO_SOLUTION not in failed.stderr:
        return ToolError(
            f"could not resolve {target.name}",
            evidence="\n".join(failed.stderr.strip().splitlines()[-12:]),
            remedy="check the network, or set pip's index-url to a mirror that answers",
        )
    conflict, failed = smallest_conflict(target.pip.requirements, failed, resolve)
    lacking = [f"the catalog lists {wheel.filename}, but {wheel.lacks}"
            for wheel in unusable if any(_matches(text, wheel) for text in conflict)]  # fmt: skip
    error = SpecError(
        f"{target.name}: {_subject(conflict)}",
        evidence="\n".join(f"envs/{target.name}.toml asks for {line}" for line in conflict),
        cause="\n".join([*stated_facts(failed.stderr), *lacking]),
        remedy=_remedy(target, failed.stderr, lacking),
    )
    error.__cause__ = whole  # shown with --debug
    return error


def _matches(text: str, wheel: Wheel) -> bool:
    requirement = Requirement(text)
    return canonicalize_name(requirement.name) == wheel.name and requirement.specifier.contains(
        wheel.version, prereleases=True
    )


def smallest_conflict(
    requirements: Sequence[str],
    failed: Completed,
    resolve: Callable[[Sequence[str]], Completed | None],
) -> tuple[list[str], Completed]:
    """Return a minimal set of requirements that conflict, and the failed run on them alone.

    Each requirement is left out in turn: if the others still conflict, it has no part in it. One
    run takes a fraction of a second, because the first one has cached all metadata. A run that
    fails for another reason, such as the network, proves nothing and the requirement stays.
    """
    remaining = list(requirements)
    for requirement in requirements:
        others = [other for other in remaining if other != requirement]
        if others and (run := resolve(others)) and _NO_SOLUTION in run.stderr:
            remaining, failed = others, run
    return remaining, failed


def stated_facts(text: str) -> list[str]:
    """Return the facts that uv's explanation rests on, reworded, in its order."""
    flat = " ".join(text.split())  # uv wraps its lines
    found = [fact for premise in _PREMISES.findall(flat) for fact in _reworded(premise)]
    found += [f"{m[1]} {m[2]} was published on {m[3]}, not before the cut-off"
              for m in _LATE.finditer(flat)]  # fmt: skip
    return list(dict.fromkeys(found))


def _reworded(premise: str) -> list[str]:
    found = [
        (match.start(), match.expand(words).strip())
        for pattern, words in _FACTS
        for match in re.finditer(pattern, premise)
    ]
    return [words for _, words in sorted(found)]


def _subject(conflict: Sequence[str]) -> str:
    if len(conflict) == 1:
        return f"{conflict[0]} is not available"
    return f"{', '.join(conflict[:-1])} and {conflict[-1]} cannot be installed together"


def _remedy(target: Target, text: str, lacking: Sequence[str]) -> str:
    if lacking:
        return "`provision update` gets what is missing from the index, or hashes the file itself"
    if late := _LATE.search(" ".join(text.split())):
        return f"`provision lock {target.name} --upgrade {late[1]}`, or ask for another version"
    return f"change one of these in envs/{target.name}.toml"
