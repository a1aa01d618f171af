"""Why the requirements of a spec cannot be met, in the words of the spec."""

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

# One step of uv's reasoning: what it rests on comes before what it concludes.
_PREMISES = re.compile(r"[Bb]ecause (.*?), we can conclude that")
_SET = r"([^\s,]+(?:,[<>=!~][^\s,]*)*)"
# What uv 0.13 says -> what it means for the reader.
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
    said: Completed,
    again: Callable[[Sequence[str]], Completed | None],
    unusable: Sequence[Wheel],
) -> SpecError | ToolError:
    """Return the error that tells why resolving failed.

    Args:
        target: The spec.
        said: What the resolver said.
        again: Resolves a part of the requirements; None where that works.
        unusable: Files of the catalogs that could not be offered for want of hash or metadata.
    """
    whole = ToolError(f"the resolver on {target.name}", evidence=said.stderr.strip())
    if _NO_SOLUTION not in said.stderr:
        return ToolError(
            f"could not resolve {target.name}",
            evidence="\n".join(said.stderr.strip().splitlines()[-12:]),
            remedy="check the network, or set pip's index-url to a mirror that answers",
        )
    clashing, said = smallest_conflict(target.pip.requirements, said, again)
    held = [f"the catalog lists {wheel.filename}, but {wheel.lacks}"
            for wheel in unusable if any(_asks_for(text, wheel) for text in clashing)]  # fmt: skip
    error = SpecError(
        f"{target.name}: {_subject(clashing)}",
        evidence="\n".join(f"envs/{target.name}.toml asks for {line}" for line in clashing),
        cause="\n".join([*premises(said.stderr), *held]),
        remedy=_remedy(target, said.stderr, held),
    )
    error.__cause__ = whole  # shown with --debug
    return error


def _asks_for(text: str, wheel: Wheel) -> bool:
    requirement = Requirement(text)
    return canonicalize_name(requirement.name) == wheel.name and requirement.specifier.contains(
        wheel.version, prereleases=True
    )


def smallest_conflict(
    requirements: Sequence[str], said: Completed, again: Callable[[Sequence[str]], Completed | None]
) -> tuple[list[str], Completed]:
    """Return the fewest requirements that still clash, and what the resolver says to them alone.

    Each is left out in turn: if the rest still clashes, it had no part in it. One attempt takes
    a fraction of a second, because all metadata is at hand after the first.
    """
    left = list(requirements)
    for requirement in requirements:
        fewer = [other for other in left if other != requirement]
        if fewer and (failed := again(fewer)) and _NO_SOLUTION in failed.stderr:
            left, said = fewer, failed
    return left, said


def premises(text: str) -> list[str]:
    """Return the facts that a resolver's reasoning rests on, in its order and in plain words."""
    flat = " ".join(text.split())
    found = [fact for premise in _PREMISES.findall(flat) for fact in _in_words(premise)]
    found += [f"{m[1]} {m[2]} was published on {m[3]}, not before the cut-off"
              for m in _LATE.finditer(flat)]  # fmt: skip
    return list(dict.fromkeys(found))


def _in_words(premise: str) -> list[str]:
    found = [
        (match.start(), match.expand(words).strip())
        for pattern, words in _FACTS
        for match in re.finditer(pattern, premise)
    ]
    return [words for _, words in sorted(found)]


def _subject(clashing: Sequence[str]) -> str:
    if len(clashing) == 1:
        return f"{clashing[0]} cannot be had"
    return f"{', '.join(clashing[:-1])} and {clashing[-1]} cannot be installed together"


def _remedy(target: Target, text: str, held: Sequence[str]) -> str:
    if held:
        return "`provision update` asks the index for what is missing, or hashes the file itself"
    if late := _LATE.search(" ".join(text.split())):
        return f"`provision lock {target.name} --upgrade {late[1]}`, or ask for another version"
    return f"change one of these in envs/{target.name}.toml"
