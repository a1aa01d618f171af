"""The table of the options: nothing in it is of no verb, and a wrong entry cannot pass unseen."""

import json
from pathlib import Path

from provision.cli import options
from provision.cli.main import parser, verb_names

TABLE = json.loads(
    Path(options.__file__).with_suffix(".json").read_text(encoding="utf-8")
)


def test_each_entry_is_of_a_verb_or_shared_by_some() -> None:
    shared = {
        words for said in TABLE.values() for words in said if words.startswith("*")
    }
    assert TABLE.keys() - verb_names() == shared | {"every"}


def test_a_verb_has_every_option_of_its_entry_and_of_what_it_shares() -> None:
    (verify,) = (
        each.choices for each in parser(["verify"])._actions if each.dest == "verb"
    )
    assert isinstance(verify, dict)
    known = {
        word for action in verify["verify"]._actions for word in action.option_strings
    }
    named = [TABLE[name] for name in ("verify", "*build", "*wheelhouse", "*contract")]
    words = {word for said in named for key in said for word in key.split()}
    assert {word for word in words if word.startswith("-")} <= known


def test_the_choices_of_schema_hold_every_verb() -> None:
    (verbs,) = (
        each.choices for each in parser(["schema"])._actions if each.dest == "verb"
    )
    assert isinstance(verbs, dict)
    (of,) = (
        action.choices for action in verbs["schema"]._actions if action.dest == "of"
    )
    assert list(of or ()) == ["spec", "verdict", "usage", *verb_names()]
