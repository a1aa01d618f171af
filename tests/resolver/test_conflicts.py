"""Messages of uv 0.13, and the errors that are made of them."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from provision.catalog.snapshot import Wheel
from provision.core.errors import SpecError, ToolError
from provision.core.process import Completed
from provision.resolver.conflicts import explain_conflict
from provision.resolver.derivation import Fact, shortest_proof, stated_facts
from provision.resolver.uv import UvResolver
from provision.spec.model import Target
from provision.spec.places import Line, Places
from tests.small import target_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HEAD = "error: No solution found when resolving dependencies\n  cause: "
END = "we can conclude that your requirements are unsatisfiable."


def failed_run(text: str) -> Completed:
    return Completed(("uv",), 1, "", text, 0.1)


def target(*requirements: str, **index: tuple[str, ...]) -> Target:
    latest = dt.date(9999, 1, 1)
    return target_of("win-64", cutoff=latest, requirements=requirements, index=index)


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
            ["fire==0.4.0 has no wheel for this platform and Python, only source"],
        ),
        (
            f"Because you require numpy>=2 and numpy==1.26.4, {END}",
            ["numpy>=2 and numpy==1.26.4 exclude each other"],
        ),
        (  # uv divides the versions by whether a wheel fits; the second premise only repeats it
            (
                "Because test-tube==0.7.5 has no usable wheels and only test-tube<=0.7.5 is "
                "available, we can conclude that test-tube>=0.7.5 cannot be used.\n         And "
                f"because you require test-tube>=0.7.5, {END}"
            ),
            ["test-tube==0.7.5 has no wheel for this platform and Python, only source"],
        ),
        (  # a list ends without a comma, and the next sentence is no part of it
            (
                "Because antlr>=4.9,<=4.9.3 has no usable wheels and only the following versions "
                "of antlr are available:\n             antlr<4.9.dev0\n             "
                "antlr>=4.9,<=4.9.3\n         we can conclude that antlr==4.9.* cannot be used.\n"
                "         And because omegaconf==2.2.3 depends on antlr==4.9.* and you require "
                f"omegaconf==2.2.3, {END}"
            ),
            [
                "antlr>=4.9,<=4.9.3 has no wheel for this platform and Python, only source",
                "omegaconf==2.2.3 needs antlr==4.9.*",
            ],
        ),
        (
            (
                "Because fastapi==0.94 depends on one of:\n             c<1.7\n             "
                "c>1.7,<1.8\n             c>1.8,<2\n             c>2,<2.1\n         and you "
                f"require c>=3, {END}"
            ),
            ["fastapi==0.94 needs c<1.7 or … or c>2,<2.1"],
        ),
        (
            (
                "Because triton{sys_platform != 'darwin'}>=3.4.0 has no wheels with a matching "
                "platform tag (e.g., `win_amd64`) and you require "
                f"triton{{sys_platform != 'darwin'}}>=3.4.0, {END}"
            ),
            ["triton>=3.4.0 has no wheel for win_amd64"],
        ),
    ],
)
def test_facts_are_reported_in_plain_words(text: str, facts: list[str]) -> None:
    assert [fact.words for fact in stated_facts(HEAD + text)] == facts


def chain_of(versions: int) -> str:
    """What uv says of a package with many versions, each of which needs an own one of another."""
    steps = [
        f"Because a==1.{n} depends on b>=1.{n},<1.{n + 1} and b==1.{n} depends on c>=2.{n}, "
        f"we can conclude that a<=1.{n} depends on c>=2.0.\n"
        for n in range(versions)
    ]
    return " And ".join([*steps, f"because you require a and c<2, {END}"])


def test_a_long_chain_is_proved_in_a_few_lines_and_shown_in_one_meanwhile() -> None:
    steps = Steps()
    error = explain(target("a", "c<2", "d"), Clashes({"a", "c<2"}), chain_of(90), steps)
    assert error.cause.splitlines() == [
        "a needs b>=1.0,<1.1 or … or b>=1.89,<1.90, by its version",
        "b needs c>=2.0 or … or c>=2.89, by its version",
    ]
    assert all(len(step) < 140 and "\n" not in step for step in steps)


def test_a_chain_to_what_is_absent_ends_there() -> None:
    facts = [
        Fact("a needs b", "a", "b", "b"),
        Fact("b needs c>=2", "b", "c", "c>=2"),
        Fact("a needs x", "a", "x", "x"),
        Fact("x needs y", "x", "y", "y"),
        Fact("there is no c>=2", "c"),
        Fact("there is only b<9", "b"),
    ]
    assert shortest_proof(facts, ["a"]) == [
        "a needs b",
        "b needs c>=2",
        "there is no c>=2",
    ]


def needs(user: str, wanted: str) -> Fact:
    return Fact(f"{user} needs {wanted}", user[0], wanted[0], wanted)


@pytest.mark.parametrize(
    ("facts", "roots", "shown"),
    [
        (  # two that meet, whoever needs whom
            [
                needs("a", "c<2"),
                needs("x", "y"),
                needs("d", "c>=2"),
                needs("b", "d"),
                Fact("there is no c==9", "c"),
            ],
            ["a", "b"],
            ["a needs c<2", "d needs c>=2", "b needs d"],
        ),
        (  # two that do not, of which one is not there
            [
                needs("a", "x"),
                needs("x", "y"),
                Fact("there is no b>=2", "b"),
                Fact("there is no z", "z"),
            ],
            ["a", "b"],
            ["there is no b>=2"],
        ),
        (  # neither of them
            [needs(*pair) for pair in ("ab", "cd", "ef", "gh")],
            ["q"],
            ["a needs b", "c needs d", "e needs f"],
        ),
        (  # versions that all need the same
            [
                needs("a==1", "b<2"),
                needs("a==2", "b<2"),
                needs("c==1", "b>1"),
                needs("c==2", "b>2"),
            ],
            ["a", "c"],
            [
                "every a that can be chosen needs b<2",
                "c needs b>1 or … or b>2, by its version",
            ],
        ),
        (  # few are all shown
            [needs(*pair) for pair in ("ab", "cd", "ef")],
            ["a"],
            ["a needs b", "c needs d", "e needs f"],
        ),
    ],
)
def test_a_proof_has_the_facts_between_what_is_required(
    facts: list[Fact], roots: list[str], shown: list[str]
) -> None:
    assert shortest_proof(facts, roots) == shown


def test_facts_are_in_the_order_of_uv_and_long_lists_are_cut() -> None:
    def said(number: int) -> list[str]:
        items = "".join(f"         b=={each}\n" for each in range(number))
        text = (
            f"Because there is no version of c==2 and a==1 depends on one of:\n{items}"
        )
        return [fact.words for fact in stated_facts(f"{text}, {END}")]

    absent = "there is no c==2"
    assert said(3) == [absent, "a==1 needs b==0 or b==1 or b==2"]
    assert said(4) == [absent, "a==1 needs b==0 or … or b==3"]


class Clashes:
    """A uv that fails wherever a set of requirements is asked for together, and counts."""

    def __init__(self, *clashes: set[str]) -> None:
        self.clashes, self.asked = clashes, 0

    def __call__(
        self, argv: Sequence[str | Path], *, cwd: Path, **_: object
    ) -> Completed:
        self.asked += 1
        lines = (cwd / "requirements.in").read_text().splitlines()
        for clash in self.clashes:
            if clash <= {*lines}:
                words = " and ".join(sorted(clash))
                return failed_run(f"{HEAD}Because {words} clash, {END}")
        return Completed(("uv",), 0, "", "", 0.1)


def engine_of(run: object) -> UvResolver:
    return UvResolver({}, None, run)  # type: ignore[arg-type]


class Steps(list[str]):
    step = note = list.append


def explain(
    target: Target,
    run: object,
    text: str,
    steps: Steps | None = None,
    catalog: dict[str, list[Wheel]] | None = None,
) -> SpecError | ToolError:
    failed = failed_run(HEAD + text)
    places = Places("envs/thing.toml")
    return explain_conflict(
        target,
        failed,
        engine_of(run),
        catalog or {},
        places=places,
        progress=Steps() if steps is None else steps,
    )


def test_a_version_after_the_cutoff_is_reported_with_the_command_that_moves_it() -> (
    None
):
    text = (
        "Because there is no version of transformers==5.22.2 and you require "
        f"transformers==5.22.2, {END}\n\nhint: `transformers` was filtered by `exclude-newer` to "
        "only include packages uploaded before 2026-11-01T00:00:00Z. The requested version, "
        "v5.22.2, was published at 2026-11-06T15:42:54Z. Consider using `exclude-newer-package`"
    )
    error = explain(target("transformers==5.22.2"), Clashes(), text)
    assert "published on 2026-11-06" in error.cause
    assert "provision lock thing --upgrade transformers" in error.remedy


@pytest.mark.parametrize(
    ("cutoff", "single"), [("2025-01-01", {}), ("9999-01-01", {"a": "2025-01-01"})]
)
def test_a_cutoff_that_hides_what_fits_is_the_cause_and_no_other_is(
    cutoff: str, single: dict[str, str]
) -> None:
    def run(argv: Sequence[str | Path], *, cwd: Path, **_: object) -> Completed:
        late = "2025-01-01T" not in " ".join(map(str, argv))
        lines = (cwd / "requirements.in").read_text().split()
        clashes = Clashes({"b==99"}) if late else Clashes({"a>=2"}, {"b==99"})
        return clashes(lines, cwd=cwd)

    wanted = target("a>=2", "b==99")
    wanted = wanted.with_pip(
        cutoff=dt.date.fromisoformat(cutoff),
        cutoffs={name: dt.date.fromisoformat(day) for name, day in single.items()},
    )
    error = explain(
        wanted, run, f"Because only a<=1.5 is available and you require a>=2, {END}"
    )
    assert error.what == "thing: a>=2 is not available, and 1 more error"
    assert error.cause.splitlines()[:2] == [
        "there is only a<=1.5",
        "the cut-off 2025-01-01 hides what is newer: with today's, they fit",
    ]
    assert error.remedy.splitlines() == [
        "`provision lock thing --upgrade` moves the cut-off to today",
        "change envs/thing.toml",
    ]


def test_the_smallest_conflict_is_found_among_those_that_are_named() -> None:
    run = Clashes({"b", "d"})
    text = f"Because b and c and d clash, {END}"
    error = explain(target("a", "b", "c", "d", "e"), run, text)
    assert error.what == "thing: b and d cannot be installed together"
    assert (
        run.asked == 4
    )  # once without each that is named, and once without the conflict


def test_of_an_assigned_index_an_update_is_proposed() -> None:
    text = f"Because there is no version of torch==2.13.9 and you require torch==2.13.9, {END}"
    error = explain(
        target("torch==2.13.9", vendor=("torch",)),
        Clashes(),
        text,
        catalog={"vendor": []},
    )
    assert error.remedy.startswith("`provision update vendor` or change")


def test_a_network_that_fails_is_no_conflict() -> None:
    text = "error: Failed to fetch: `https://mirror.example/simple/numpy/`\n  cause: refused"
    with pytest.raises(ToolError) as caught:
        explain_conflict(
            target("numpy"),
            failed_run(text),
            engine_of(Clashes()),
            {},
            places=Places("envs/thing.toml"),
            progress=Steps(),
        )
    assert "refused" in caught.value.evidence
    assert "network" in caught.value.remedy


def test_a_conflict_of_an_own_package_whose_folder_has_a_plus_is_explained(
    tmp_path: Path,
) -> None:
    folder = (tmp_path / "pkg+1").as_uri()
    line = Line("local", "-e ./pkg+1", "envs/thing.toml, line 9", "spec")
    text = f"Because nosuch was not found in the package registry and pkg depends on nosuch, {END}"
    error = explain_conflict(
        target("numpy").with_pip(local=(f"-e {folder}",)),
        failed_run(HEAD + text),
        engine_of(Clashes({f"-e {folder}"})),
        {},
        places=Places("envs/thing.toml", (line,)),
        progress=Steps(),
    )
    assert error.evidence == "envs/thing.toml, line 9 requires -e ./pkg+1"
    assert error.remedy == "change envs/thing.toml, line 9"
