from __future__ import annotations

import logging
import sys

import pytest

from provision.core.errors import ToolError
from provision.core.network import login_for
from provision.core.privacy import holds_secret, redact
from provision.core.process import run


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:s%40cret@host/simple/", "https://***@host/simple/"),
        ("https://token@host/", "https://***@host/"),
        ("http://me:p@ss@host:8080/x", "http://***@host:8080/x"),
        (
            "get 'https://a:b@one/' or https://c:d@two",
            "get 'https://***@one/' or https://***@two",
        ),
        (
            "https://conda.example/t/abc-123/channel",
            "https://conda.example/t/***/channel",
        ),
        ("https://conda.example/t/abc-123", "https://conda.example/t/***"),
        ("https://host/simple/@scope/x", "https://host/simple/@scope/x"),
        ("no address: me:secret@host", "no address: me:secret@host"),
        ("https://host/a/t/$TOKEN/b", "https://host/a/t/$TOKEN/b"),
        ("https://host/a?x=1&token=s3cr3t&y=2", "https://host/a?x=1&token=***&y=2"),
        ("/simple/?X-Amz-Signature=ab%2Fc'", "/simple/?X-Amz-Signature=***'"),
        ("https://host/?sv=1&sig=abc#part", "https://host/?sv=1&sig=***#part"),
        (
            "https://host/?api_key=s;access_token=t",
            "https://host/?api_key=***;access_token=***",
        ),
        ("{'Authorization': 'Basic bWU6c2VjcmV0'}", "{'Authorization': '***'}"),
        ("authorization: Bearer abc.def", "authorization: ***"),
        ("X-JFrog-Api-Key: abc", "X-JFrog-Api-Key: ***"),
        ("the token of a monkey=banana", "the token of a monkey=banana"),
    ],
)
def test_credentials_in_urls_are_not_shown(text: str, shown: str) -> None:
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


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("https://host/channel", False),
        ("https://me:secret@host/channel", True),
        ("https://me:$PASSWORD@host/channel", False),
        ("https://me@host/channel", False),
        ("https://host/t/abc/channel", True),
        ("https://host/t/$TOKEN/channel", False),
        ("https://host/channel?sig=abc", True),
        ("https://host/channel?sig=$SIGNATURE", False),
    ],
)
def test_a_secret_is_told_from_the_name_of_a_variable(
    url: str, *, secret: bool
) -> None:
    assert holds_secret(url) is secret


def test_a_login_is_for_its_own_host_only() -> None:
    mirror = "https://me:s%40cret@host/simple/"
    assert login_for("https://host/a.whl", mirror) == ("me", "s@cret")
    assert login_for("https://elsewhere/a.whl", mirror) is None
    assert login_for("https://host/a.whl", "https://host/simple/") is None
    assert login_for("https://host/a.whl", None) is None
