"""A log gets the same answer in each form in which users paste it: each example in one of them."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from provision.doctor import diagnose_log

HERE = Path(__file__).parent
FILES = ("families", "logs", "evidence", "endings")
DATA = {
    name: tomllib.loads((HERE / f"{name}.toml").read_text("utf-8")) for name in FILES
}
FORMS = tomllib.loads((HERE / "forms.toml").read_text("utf-8"))["form"]
FAMILIES = DATA["families"]["family"]
EXAMPLES = [(each["code"], text) for each in FAMILIES for text in each["positive"]]
EXAMPLES += [
    (case["code"], case["text"])
    for name in ("logs", "endings", "evidence")
    for case in DATA[name]["log"]
    if "alone" not in case
]
HEALTHY = [text for each in FAMILIES for text in each["innocent"]]
HEALTHY += [case["text"] for case in DATA["endings"]["quiet"]]
_KEPT = 0.96  # of the examples of a form: some are told by where a line begins, or ends


def _formed(form: str, text: str) -> str:
    text = text.strip("\n")
    rows = text.split("\n") if "line}" in form else [text]
    names = re.compile(r"\{(text|line|json_line|json)\}")
    return "\n".join(
        names.sub(
            lambda name, row=row: json.dumps(row) if "json" in name[1] else row, form
        )
        for row in rows
    )


@pytest.mark.parametrize(
    "number", range(len(FORMS)), ids=[form["text"] for form in FORMS]
)
def test_a_form_changes_no_answer(number: int) -> None:
    examples = EXAMPLES[number :: len(FORMS)]
    logs = [(code, _formed(FORMS[number]["text"], text)) for code, text in examples]
    found = [
        (code, [each.code for each in diagnose_log(log)], log) for code, log in logs
    ]
    lost = [each for each in found if each[1][:1] != [each[0]]]
    assert len(lost) <= (1 - _KEPT) * len(examples), lost


HARMLESS = [form["text"] for form in FORMS if "fails" not in form]


@pytest.mark.parametrize("number", range(len(HARMLESS)), ids=HARMLESS)
def test_a_form_accuses_no_program_that_works(number: int) -> None:
    for text in HEALTHY[number :: len(HARMLESS)]:
        log = _formed(HARMLESS[number], text)
        assert not [found for found in diagnose_log(log) if found.bad], log
