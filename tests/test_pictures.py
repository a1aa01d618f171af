"""The pictures of ``docs/pictures`` show what the code still prints."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.test_docs import PAGES, script, unknown

pytestmark = pytest.mark.pages
ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
PICTURES = sorted(path for path in FOLDER.iterdir() if path.suffix != ".txt")
made = script("record_pictures")
RECORDED = [
    line.split(": ", 1)
    for line in made.PHRASES.read_text(encoding="utf-8").splitlines()
]


def test_what_the_pictures_show_is_still_printed() -> None:
    assert len(RECORDED) > 40
    printed = made.printed()
    gone = [phrase for _, phrase in RECORDED if f" {phrase} " not in printed]
    assert gone == [], "`nox -s pictures` makes them again"


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_small_and_shown_with_its_words(picture: Path) -> None:
    assert picture.stat().st_size < 150_000
    if picture.suffix == ".svg":  # whose frames lie below each other
        rows = re.findall(r' y="(\d+)"', picture.read_text(encoding="utf-8"))
        assert max(map(int, rows)) < 32_767, "a browser draws no more pixels"
    link = re.compile(
        r"!\[([^\]]{30,})\]\((?:[\w./]*/)?pictures/" + re.escape(picture.name)
    )
    assert [page for page, text in PAGES.items() if link.search(text)]


@pytest.mark.parametrize(
    "picture", [p for p in PICTURES if p.suffix == ".svg"], ids=lambda p: p.name
)
def test_a_terminal_shows_its_phrases_and_commands_that_exist(picture: Path) -> None:
    assert ET.parse(picture).getroot().tag.endswith("svg")
    typed = []
    shown = ""
    for line in made.visible(picture):
        words = " ".join(made.words_of(line))
        shown += f" {words} \n"
        if line.startswith("$ "):
            typed.append(line.removeprefix("$ "))
        for private in ("/tmp/", "/root", str(Path.home()), str(ROOT)):  # noqa: S108 - words of a text
            assert private not in line
    phrases = [phrase for name, phrase in RECORDED if name == picture.name]
    assert len(phrases) > 8
    for phrase in phrases:
        assert f" {phrase} " in shown
    _, commands = made.TERMINALS[picture.stem]
    assert set(commands) <= set(typed)
    for command in typed:
        assert unknown(command) == []
