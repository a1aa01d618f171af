from __future__ import annotations

import logging
import sys
import time
import tomllib
from pathlib import Path

import pytest

from provision.core.errors import ToolError
from provision.core.privacy import anonymize, holds_secret, redact
from provision.core.process import run
from provision.core.text import harmless

LIST = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8").replace("¤", "")
)
REDACTED = {
    "https://me:s%40cret@host/simple/": "https://***@host/simple/",
    "https://token@host/": "https://***@host/",
    "http://me:p@ss@host:8080/x": "http://***@host:8080/x",
    "'https://a:b@one/' or https://c:d@two": "'https://***@one/' or https://***@two",
    "https://conda.example/t/abc-123/channel": "https://conda.example/t/***/channel",
    "https://host/a?x=1&token=s3cr3t&y=2": "https://host/a?x=1&token=***&y=2",
    "/simple/?X-Amz-Signature=ab%2Fc'": "/simple/?X-Amz-Signature=***'",
    "https://host/?sv=1&sig=abc#part": "https://host/?sv=1&sig=***#part",
    "{'Authorization': 'Basic bWU6c2VjcmV0'}": "{'Authorization': '***'}",
    "authorization: Bearer abc.def": "authorization: ***",
    "X-JFrog-Api-Key: abc": "X-JFrog-Api-Key: ***",
}
HARMLESS = [
    "https://host/simple/@scope/x",
    "no address: me:secret@host",
    "https://host/a/t/$TOKEN/b",
    "the token of a monkey=banana",
]
# Parts of patterns, each of which could begin again at every place of a line.
REPEATED = (
    "://|x-a-key|x-token-|authorization: |?a=b&|token=|a|a.|a-|A_|1.|fe80:|ab:/a|a://@|/home|/mnt/|"
    '/data/|\\|"|ssh |ssh-rsa |curl |curl -u|mysql |password |password: |"token":|login |cookie:|'
    "--token |connect to |on node |a@|a@b.|a@a: |x_KEY |NODELIST=|LICENSE_FILE|Private-Lines: 1|"
    "-----BEGIN A PRIVATE KEY-----|\n| "
)


def test_credentials_in_urls_are_not_shown() -> None:
    for text, shown in (REDACTED | dict(zip(HARMLESS, HARMLESS, strict=True))).items():
        assert redact(text) == shown
        assert redact(shown) == shown


def test_no_error_holds_a_password() -> None:
    words = dict.fromkeys(
        ("evidence", "cause", "remedy"), "see https://me:secret@host/"
    )
    error = ToolError("cannot reach https://me:secret@host/", **words)
    told = [str(error), error.what, error.evidence, error.cause, error.remedy]
    assert not [text for text in told if "secret" in text]
    assert all("https://***@host/" in text for text in told)


@pytest.mark.machine
def test_an_echoed_command_holds_no_password(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        run([sys.executable, "-c", "pass", "https://me:secret@host/"])
    assert "https://***@host/" in caplog.text
    assert "secret" not in caplog.text


def test_a_secret_is_told_from_the_name_of_a_variable() -> None:
    for secret, name in (
        ("https://me:secret@host/channel", "https://me:$PASSWORD@host/channel"),
        ("https://host/t/abc/channel", "https://host/t/$TOKEN/channel"),
        ("https://host/channel?sig=abc", "https://host/channel?sig=$SIGNATURE"),
    ):
        assert holds_secret(secret)
        assert not holds_secret(name)
    assert not holds_secret("https://me@host/channel")


def for_others(text: str) -> str:
    return anonymize(harmless(text), None, "nobody")


@pytest.mark.parametrize("kind", ["secret", "place"])
def test_attack_nothing_private_is_in_a_text_for_others(kind: str) -> None:
    """A log holds each kind of secret, and of names of people and machines: none is in a report."""
    shown = []
    for name, (text, *parts) in LIST[kind].items():
        assert all(part in text for part in parts), name
        shown += [f"{name}: {p}" for p in parts if p in for_others(text)]
    assert not shown


def test_what_tells_of_a_failure_stays() -> None:
    changed = {text: for_others(text) for text in LIST["telling"]["texts"]}
    assert not {text: new for text, new in changed.items() if new != text}


def seconds(text: str) -> tuple[float, float]:
    """Return the processor time of what all output passes, and of a text for others."""
    begin = time.process_time()
    redact(text)
    middle = time.process_time()
    anonymize(text, None, "nobody")
    return middle - begin, time.process_time() - middle


@pytest.mark.parametrize("part", REPEATED.split("|"))
def test_attack_a_line_of_one_part_takes_time_by_its_length(part: str) -> None:
    """A requirement or a log repeats what a pattern begins with: it takes no quadratic time."""
    short, long = (seconds((part * size)[:size]) for size in (15_000, 60_000))
    # Linear is 4 times, quadratic 16; between them is room for a busy machine.
    for few, many in zip(short, long, strict=True):
        assert many < 0.2 or many < 9 * few
