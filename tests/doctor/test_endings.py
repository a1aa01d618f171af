"""How failures begin and end: behind any prefix, in any language, torn, or after their cause."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from provision.doctor import diagnose_log
from provision.doctor.normalize import normalize_log
from provision.doctor.sampling import sample

DATA = tomllib.loads(
    (Path(__file__).parent / "endings.toml").read_text(encoding="utf-8")
)
CALLED = 'Traceback (most recent call last):\n  File "/w/a.py", line 1, in <module>\n    f()\n'
FAILURES = {
    "oneapi-runtime-missing": f"{CALLED}ImportError: libsycl.so.8: cannot open shared object file",
    "not-environment": f"{CALLED}ZeroDivisionError: division by zero",
}


def first(text: str) -> str:
    return next((found.code for found in diagnose_log(text)), "")


@pytest.mark.parametrize("code", FAILURES)
@pytest.mark.parametrize("prefix", DATA["prefixes"])
def test_what_stands_before_every_line_is_ignored(prefix: str, code: str) -> None:
    assert (
        first("\n".join(prefix + line for line in FAILURES[code].split("\n"))) == code
    )
    whole = first(FAILURES[code].splitlines()[-1])
    if prefix not in {
        "pod-abc main ",
        "ERROR:    ",
    }:  # words, and an ending, of their own
        assert first(prefix + FAILURES[code].splitlines()[-1]) == whole


@pytest.mark.parametrize("code", FAILURES)
@pytest.mark.parametrize("begun", DATA["begun"])
def test_a_failure_begins_in_the_middle_of_a_line(begun: str, code: str) -> None:
    # A progress bar is drawn once more when the program ends.
    assert first(f"{begun}{FAILURES[code]}\n{begun if '%' in begun else ''}") == code
    last = FAILURES[code].splitlines()[-1]
    assert [line.text for line in normalize_log(sample(begun + last))][-1] == last


CAUGHT = {
    "AttributeError": ("not-environment", "'NoneType' object has no attribute 'shape'"),
    "RuntimeError": (
        "not-environment",
        "mat1 and mat2 shapes cannot be multiplied (4x5 and 9x1)",
    ),
    "OutOfMemoryError": (
        "not-environment",
        "CUDA out of memory. Tried to allocate 2.00 GiB",
    ),
    "TypeError": (
        "package-versions-disagree",
        "Linear.forward() got an unexpected keyword argument 'scale'",
    ),
    "ZeroDivisionError": ("not-environment", "float division by zero"),
}


@pytest.mark.parametrize("name", CAUGHT)
@pytest.mark.parametrize("form", DATA["caught"])
def test_an_exception_is_read_without_its_name(form: str, name: str) -> None:
    code, message = CAUGHT[name]
    text = form.replace("{message!r}", repr(message)).format(name=name, message=message)
    assert first(f"{name}: {message}") == first(f"Starting\n{text}\n") == code


@pytest.mark.parametrize("code", FAILURES)
@pytest.mark.parametrize("line", DATA["after"])
def test_what_a_launcher_says_of_a_failure_does_not_hide_it(
    line: str, code: str
) -> None:
    assert first(f"{FAILURES[code]}\n{line}\n") == code
    assert first(line) != ""  # alone it is all that is known of the failure


def test_prefixes_that_differ_in_numbers_and_levels_are_of_one_program() -> None:
    levels = ["INFO", "ERROR", "WARNING", "ERROR"]
    lines = FAILURES["not-environment"].split("\n")
    text = "\n".join(f"<{i}> {levels[i % 4]} ~ {line}" for i, line in enumerate(lines))
    assert [line.text for line in normalize_log(sample(text))] == lines


def test_a_bar_that_goes_on_after_an_error_tells_that_it_was_survived() -> None:
    bar = "  5%|▌         | 5/100 [00:07<00:00,  2.83it/s]"
    full = "100%|██████████| 100/100 [00:47<00:00,  2.83it/s]"
    assert not [
        f
        for f in diagnose_log(f"{bar}{FAILURES['not-environment']}\n{full}\n")
        if f.bad
    ]
    assert first(f"{bar}{FAILURES['not-environment']}\n{full}\n") == ""


@pytest.mark.parametrize(
    "case", DATA["log"], ids=[str(i) for i in range(len(DATA["log"]))]
)
def test_a_failure_in_any_form_is_answered(case: dict[str, str]) -> None:
    (found, *_) = diagnose_log(case["text"]) or [None]
    assert found
    assert found.code == case["code"], found
    assert case.get("remedy", "") in found.remedy


@pytest.mark.parametrize("cut", range(3, 8))
def test_a_torn_traceback_is_a_failure(cut: int) -> None:
    text = (
        CALLED
        + '  File "/v/lib/python3.11/site-packages/quux/core.py", line 40, in start\n'
        * 3
    )
    torn = "\n".join(text.split("\n")[:cut])
    assert first(torn) == first(f"{torn}\nuser@host:~$ ls\n") == "not-recognised"


@pytest.mark.parametrize(
    "case", DATA["quiet"], ids=[str(i) for i in range(len(DATA["quiet"]))]
)
def test_programs_that_work_are_left_alone(case: dict[str, str]) -> None:
    found = diagnose_log(case["text"])
    own = {"not-recognised", "not-environment"}
    assert not [each for each in found if each.bad or each.code in own], found
