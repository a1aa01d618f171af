"""Messages of uv 0.13, and the errors that are made of them."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from provision.core.errors import SpecError, ToolError
from provision.core.process import Completed
from provision.resolver.conflicts import explain_conflict, smallest_conflict, stated_facts
from provision.spec.model import Pip, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = "error: No solution found when resolving dependencies\n  cause: "
END = "we can conclude that your requirements are unsatisfiable."


def failed_run(text: str) -> Completed:
    return Completed(("uv",), 1, "", text, 0.1)


def target(*requirements: str) -> Target:
    pip = Pip(cutoff=dt.date(2026, 11, 1), requirements=requirements)
    return Target(
        name="thing", summary="s", accelerator="cpu", platform="win-64", python="3.11", pip=pip
    )


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            (
                "Because transformers==4.37.0 depends on tokenizers>=0.14,<0.19 and you require "
                "transformers==4.37.0, we can conclude that you require tokenizers>=0.14,<0.19.\n"
                f"         And because you require tokenizers>=0.20, {END}"
            ),
            ["transformers==4.37.0 needs tokenizers>=0.14,<0.19"],
        ),
        (
            (
                "Because all versions of b depend on numpy<2 and a<=1.0 depends on b, "
                f"we can conclude that a<=1.0 depends on numpy<2.\n And because "
                f"you require a and numpy>=2, {END}"
            ),
            ["every b needs numpy<2", "a<=1.0 needs b"],
        ),
        (
            f"Because there is no version of torch==99 and you require torch==99, {END}",
            ["there is no torch==99"],
        ),
        (
            f"Because only a<=2.0 is available and you require a>=3, {END}",
            ["there is only a<=2.0"],
        ),
        (
            (
                "Because triton==3.6.0 has no wheels with a matching platform tag "
                f"(e.g., `win_amd64`) and you require triton==3.6.0, {END}\n\nhint: Wheels are"
            ),
            ["triton==3.6.0 has no wheel for win_amd64"],
        ),
        (
            f"Because nosuch was not found in the package registry and you require nosuch, {END}",
            ["no index has a package nosuch"],
        ),
        (
            f"Because fire==0.4.0 has no usable wheels and you require fire==0.4.0, {END}",
            ["fire==0.4.0 exists as source only, and only wheels are locked"],
        ),
    ],
)
def test_facts_are_reported_in_plain_words(text: str, facts: list[str]) -> None:
    assert stated_facts(HEAD + text) == facts


def test_a_version_after_the_cutoff_is_reported_with_the_command_that_moves_it() -> None:
    text = (
        f"{HEAD}Because there is no version of transformers==5.22.2 and you require "
        f"transformers==5.22.2, {END}\n\nhint: `transformers` was filtered by `exclude-newer` to "
        "only include packages uploaded before 2026-11-01T00:00:00Z. The requested version, "
        "v5.22.2, was published at 2026-11-06T15:42:54Z. Consider using `exclude-newer-package`"
    )
    error = explain_conflict(target("transformers==5.22.2"), failed_run(text), lambda _: None, ())
    assert isinstance(error, SpecError)
    assert "published on 2026-11-06" in error.cause
    assert "provision lock thing --upgrade transformers" in error.remedy


def test_the_smallest_conflict_is_found_among_many() -> None:
    tried: list[Sequence[str]] = []

    def resolve(requirements: Sequence[str]) -> Completed | None:
        tried.append(requirements)
        return failed_run(HEAD + "clash") if {"b", "d"} <= set(requirements) else None

    remaining, last = smallest_conflict(
        ["a", "b", "c", "d", "e"], failed_run(HEAD + "first"), resolve
    )
    assert remaining == ["b", "d"]
    assert "clash" in last.stderr
    assert len(tried) == 5


def test_a_network_that_fails_is_no_conflict() -> None:
    text = "error: Failed to fetch: `https://mirror.example/simple/numpy/`\n  cause: refused"
    error = explain_conflict(target("numpy"), failed_run(text), lambda _: None, ())
    assert isinstance(error, ToolError)
    assert "refused" in error.evidence


def test_a_network_that_fails_on_the_way_does_not_count_as_a_conflict() -> None:
    failing = failed_run("error: Failed to fetch")
    remaining, _ = smallest_conflict(["a", "b"], failed_run(HEAD + "first"), lambda _: failing)
    assert remaining == ["a", "b"]
