"""Why the requirements of a spec cannot be met, in the words of the spec."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from provision.errors import SpecError, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from provision.run import Completed
    from provision.spec import Target

# What uv 0.13 says about one step of its reasoning -> what it means for the reader.
_FACTS = (
    (re.compile(r"(\S+) depends on ([^\s,]+(?:,[<>=!~][^\s,]*)*)"), r"\1 needs \2"),
    (re.compile(r"there (?:is|are) no versions? of (\S+)"), r"there is no \1"),
    (re.compile(r"(\S+) was not found in the package registry"), r"no index has a package \1"),
    (re.compile(r"(\S+) has no wheels with a matching (\S+(?: ABI)?) tag \(e\.g\., `([^`]+)`\)"),
     r"\1 has no wheel for \3"),
    (re.compile(r"(\S+) has no usable wheels"),
     r"\1 exists as source only, and only wheels are locked"),
    (re.compile(r"requested version, v(\S+), was published at (\d{4}-\d\d-\d\d)"),
     r"version \1 was published on \2, after the cut-off"),
)  # fmt: skip
_NO_SOLUTION = "No solution found"


def explain(
    target: Target, said: Completed, again: Callable[[Sequence[str]], Completed | None]
) -> SpecError | ToolError:
    """Return the error that tells why resolving failed.

    Args:
        target: The spec.
        said: What the resolver said.
        again: Resolves a part of the requirements; None where that works.
    """
    whole = ToolError(f"the resolver on {target.name}", evidence=said.stderr.strip())
    if _NO_SOLUTION not in said.stderr:
        return ToolError(
            f"could not resolve {target.name}",
            evidence="\n".join(said.stderr.strip().splitlines()[-12:]),
            remedy="check the network, or set pip's index-url to a mirror that answers",
        )
    clashing, said = smallest(target.pip.requirements, said, again)
    error = SpecError(
        f"{target.name}: {_subject(clashing)}",
        evidence="\n".join(f"envs/{target.name}.toml asks for {line}" for line in clashing),
        cause="\n".join(facts(said.stderr)),
        remedy=_remedy(target, said.stderr),
    )
    error.__cause__ = whole  # shown with --debug
    return error


def smallest(
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


def facts(text: str) -> list[str]:
    """Return the facts in a resolver's reasoning, in its order and in plain words."""
    flat = " ".join(text.split())
    found = [
        (match.start(), match.expand(words))
        for pattern, words in _FACTS
        for match in pattern.finditer(flat)
    ]
    return list(dict.fromkeys(words.rstrip(".,") for _, words in sorted(found)))


def _subject(clashing: Sequence[str]) -> str:
    if len(clashing) == 1:
        return f"{clashing[0]} cannot be had"
    return f"{', '.join(clashing[:-1])} and {clashing[-1]} cannot be installed together"


def _remedy(target: Target, text: str) -> str:
    if late := re.search(r"`(\S+)` was filtered by `exclude-newer`", text):
        return f"`provision lock {target.name} --upgrade {late[1]}`, or ask for another version"
    return f"change one of these in envs/{target.name}.toml"
