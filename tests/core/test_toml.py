"""Faults of TOML files, and where values stand, as a person looks them up."""

from __future__ import annotations

import pytest

from provision.core.toml import parse_toml, place_of

SPEC = """\
# python = "of a comment"
summary = "x"
"python" = "3.11"

[pip]   # the packages
requirements = [
    "torch==2.13",  # [pip]
    "numpy",
]
index.vendor = ["torch"]
[[pip.overrides]]
requirement = "a"

[[pip.overrides]]
requirement = "b"
"""


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        (("summary",), 'line 2, column 1: summary = "x"'),
        (("python",), 'line 3, column 2: "python" = "3.11"'),
        (("pip",), "line 5, column 2: [pip]   # the packages"),
        (("pip", "requirements"), "line 6, column 1: requirements = ["),
        (("pip", "requirements", 0), 'line 7, column 5: "torch==2.13",  # [pip]'),
        (("pip", "requirements", 1), 'line 8, column 5: "numpy",'),
        (("pip", "index", "vendor", 0), 'line 10, column 7: index.vendor = ["torch"]'),
        (("pip", "overrides", 1), "line 14, column 7: [[pip.overrides]]"),
        (
            ("pip", "overrides", 1, "requirement"),
            'line 15, column 1: requirement = "b"',
        ),
        (("pip", "overrides", 0, "reason"), "line 11, column 7: [[pip.overrides]]"),
        (("pip", "cutoff"), "line 5, column 2: [pip]   # the packages"),
        (("platform",), ""),
    ],
)
def test_a_value_or_the_table_that_lacks_it_has_a_place(
    keys: tuple[int | str, ...], place: str
) -> None:
    assert place_of(SPEC, keys) == place
    assert place_of(SPEC + "\n" * 600, keys) == "", "a long file is not read so often"


@pytest.mark.parametrize(
    ("text", "said", "place"),
    [
        ("a = 1\nb = cpu", "text has to be in quotes", "line 2, column 5: b = cpu"),
        ("a = 3.11.9", "something follows the value", "line 1, column 9: a = 3.11.9"),
        ("[a]\nb = [\n 1,\n", "or the `]` of a list", "line 2, column 1: b = ["),
        ("a = [1,\n2", "a `]` is missing", "line 1, column 1: a = [1,"),
        ("a = 1\nb =", "a value is missing", "line 2, column 1: b ="),
        ('a = 1\nb = "x\nc = 2', "closing quote", 'line 2, column 7: b = "x'),
        ('a = 1\nb = "x', "closing quote", 'line 2, column 1: b = "x'),
        ("a = 1\n\na = 2", "there twice", "line 3, column 1: a = 2"),
        ("a = 1\n[b", "Expected ']'", "line 2, column 1: [b"),
        (f"a = {'x' * 99}", "in quotes", f"line 1, column 5: a = {'x' * 76} …"),
        ("", "", ""),
    ],
)
def test_a_fault_has_its_line(text: str, said: str, place: str) -> None:
    if not said:
        assert parse_toml(text) == {}
        return
    with pytest.raises(ValueError, match="\n  line ") as caught:
        parse_toml(text)
    message, line = str(caught.value).splitlines()
    assert said in message
    assert line == f"  {place}"
