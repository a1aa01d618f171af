"""Foreign text: what reaches a terminal, a JSON document and a Dockerfile is harmless."""

from __future__ import annotations

import json
import math
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from provision.core.text import harmless, json_text

# Title and clipboard of the terminal, DCS, CSI, C1, overwriting, reordering, undecodable bytes.
NASTY = [
    "\x1b]0;owned\x07",
    "\x1b]52;c;cm0gLXJm\x1b\\",
    "\x1bP1$r\x1b\\",
    "\x1b[2J\x1b[1;31m",
    "\x9b31m",
    "\x90q\x9c",
    "good\rerror",
    "\x08\x08",
    "\u202efdp.exe\u202c",
    "\u2066x\u2069",
    "file-\udcff",
    "a\u2028b",
    "\ufeff",
    "\U000e0041",
    "\x00",
    "\x7f",
    "\u200b",
]
text = st.one_of(st.text(), st.text(st.sampled_from("".join(NASTY) + "ab\n\t")))


@given(text)
@example("\n\t plain, ünïcode, 日本語, 🙂, नि‍")
def test_attack_no_control_character_reaches_the_terminal(dirty: str) -> None:
    shown = harmless(dirty)
    kinds = {unicodedata.category(sign) for sign in shown if sign not in "\n\t"}
    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}
    turning = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
    assert turning.isdisjoint(map(unicodedata.bidirectional, shown))
    shown.encode()
    assert harmless(shown) == shown
    assert shown.count("\n") == dirty.count("\n")


documents = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), text),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(text, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(documents)
def test_attack_json_is_valid_whatever_is_in_it(document: object) -> None:
    def refuse(word: str) -> None:
        pytest.fail(f"{word} is not JSON")

    written = json_text(document)
    read = json.loads(written.encode(), parse_constant=refuse)
    json.dumps(read, ensure_ascii=False).encode()  # has no lone surrogates
    assert json_text(read) == written


def test_numbers_that_json_lacks_can_be_read_again() -> None:
    read = json.loads(json_text({"all": [math.nan, math.inf, -math.inf, 1.5]}))["all"]
    assert [str(float(value)) for value in read] == ["nan", "inf", "-inf", "1.5"]
