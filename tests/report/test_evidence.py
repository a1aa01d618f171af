"""Signed evidence: what was proven is in it, nothing of its owner; any change is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from provision.commands.evidence import Evidence, judge
from provision.core.errors import ToolError, UsageError
from provision.core.project import Project
from provision.lockfile.pip import read_lock
from provision.report.evidence import sign, statement, trusted_keys, verified
from provision.report.model import Report
from tests.test_docs import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = Project(ROOT)
LOCK = read_lock(PROJECT.lock("cpu-linux")).digest


def evidence_table(found: list[Evidence]) -> str:
    """Return the table of valid and stale evidence for the documentation, in Markdown."""
    rows = [
        f"| {e.target} | {e.device} | {e.driver} | {e.day} | {e.checks} | {e.key} | {e.state} |"
        for e in sorted(found, key=lambda e: (e.target, e.day))
        if e.state != "refused"
    ]
    head = "| target | device | driver | day | checks | key | state |\n|---|---|---|---|---|---|---|"
    return "\n".join([head, *rows]) + "\n"


def report(**changes: object) -> Report:
    check = {
        "id": "device.matmul",
        "outcome": "passed",
        "title": "t",
        "stands_for": "s",
        "seconds": 0.1,
        "finding": None,
        "numbers": {"float32": {"value": 1e-7, "unit": "1", "limit": 1e-5}},
    }
    document = {
        "schema_version": 1,
        "suite": "full",
        "target": "cpu-linux",
        "python": "3.11.7",
        "torch": "2.13.0",
        "started": "2026-11-22T01:02:03Z",
        "seconds": 9.0,
        "lock": LOCK,
        "device": {"name": "A770", "driver": "1.6", "uuid": "GPU-SERIAL", "count": 2},
        "stack": {"kernel": "6.1", "GPU 0000:03:00.0": "A770", "GPU serial-7": "A770"},
        "checks": [check],
        "not_run": [{"id": "x.y", "title": "t", "owed": False, "reason": "no float64"}],
    }
    return Report.model_validate(document | changes)


def make_key(folder: Path, name: str, passphrase: bytes | None = None) -> Path:
    """Write a key pair as ssh-keygen does; the public one into ``keys``."""
    private = ed25519.Ed25519PrivateKey.generate()
    how = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    path = folder / name
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, how))
    (folder / "keys").mkdir(exist_ok=True)
    public = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    (folder / "keys" / f"{name}.pub").write_bytes(public + b" me@host\n")
    return path


def no_passphrase() -> str:
    pytest.fail("the key has no passphrase")


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    file = tmp_path / "evidence.json"
    key = make_key(tmp_path, "owner")
    file.write_text(
        sign(statement(report(), "0" * 64), key, no_passphrase), encoding="utf-8"
    )
    return file


def test_it_says_what_was_proven_and_by_whom(signed: Path) -> None:
    name, content = verified(signed, trusted_keys(signed.parent / "keys"))
    assert name == "owner"
    assert content.subject[0].digest["sha256"] == LOCK
    assert content.predicate.checks[0].numbers == {
        "float32": {"value": 1e-7, "unit": "1"}
    }
    assert content.predicate.stack == {
        "kernel": "6.1",
        "GPU 0": "A770",
        "GPU 1": "A770",
    }


def test_it_names_no_serial_number_address_or_person(signed: Path) -> None:
    _, content = verified(signed, trusted_keys(signed.parent / "keys"))
    text = content.model_dump_json()
    assert not [
        word for word in ("SERIAL", "serial", "0000:03", "me@host") if word in text
    ]


def test_every_changed_byte_is_refused(signed: Path) -> None:
    keys, good = trusted_keys(signed.parent / "keys"), signed.read_bytes()
    for place in range(len(good)):
        signed.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(ToolError, match="is no evidence"):
            verified(signed, keys)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d + b" ",
        lambda d: d[:-1],
        lambda d: b"\n" + d,
        lambda _: b"[" * 100_000,
        lambda _: b"{}",
        lambda _: b"",
        lambda d: d.replace(b'"payload":', b'"more": 1,\n "payload":'),
    ],
)
def test_what_the_signature_does_not_cover_is_refused_too(
    signed: Path,
    change: Any,  # noqa: ANN401
) -> None:
    signed.write_bytes(change(signed.read_bytes()))
    with pytest.raises(ToolError, match="is no evidence"):
        verified(signed, trusted_keys(signed.parent / "keys"))


def test_an_unknown_key_is_refused(signed: Path) -> None:
    (signed.parent / "keys" / "owner.pub").unlink()
    make_key(signed.parent, "stranger")
    with pytest.raises(ToolError) as failed:
        verified(signed, trusted_keys(signed.parent / "keys"))
    assert "not known here" in failed.value.evidence


def test_another_key_under_the_known_id_is_refused(signed: Path) -> None:
    stranger = make_key(signed.parent, "stranger")
    forged = json.loads(
        sign(statement(report(torch="9"), "0" * 64), stranger, no_passphrase)
    )
    good = json.loads(signed.read_text())
    forged["signatures"][0]["keyid"] = good["signatures"][0]["keyid"]
    signed.write_text(json.dumps(forged, indent=1) + "\n")
    with pytest.raises(ToolError, match="is no evidence"):
        verified(signed, trusted_keys(signed.parent / "keys"))


def test_a_lock_that_moved_makes_it_stale(signed: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path, "other")
    old = tmp_path / "old.json"
    old.write_text(sign(statement(report(lock="1" * 64), "0" * 64), key, no_passphrase))
    found = judge(PROJECT, [signed, old], tmp_path / "keys")
    assert [each.state for each in found] == ["valid", "stale"]
    assert "another lock" in found[1].reason
    rows = evidence_table(found).splitlines()[2:]
    assert [row.split("|")[-2].strip() for row in rows] == ["valid", "stale"]


@pytest.mark.parametrize(
    "changes",
    [
        {"suite": "quick"},
        {"lock": None},
        {"not_run": [{"id": "x", "title": "t", "owed": True, "reason": "died"}]},
    ],
)
def test_what_proves_nothing_is_not_signed(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="proves nothing"):
        statement(report(**changes), "0" * 64)


def test_a_passphrase_is_asked_for(tmp_path: Path) -> None:
    key, content = (
        make_key(tmp_path, "locked", b"open sesame"),
        statement(report(), "0" * 64),
    )
    assert sign(content, key, lambda: "open sesame")
    with pytest.raises(UsageError, match="cannot sign"):
        sign(content, key, lambda: "wrong")


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    private = ec.generate_private_key(ec.SECP521R1())
    path = tmp_path / "key"
    path.write_bytes(
        private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    assert sign(
        statement(report(), "0" * 64), path, no_passphrase
    )  # the library knows this one
    path.write_bytes(b"-----BEGIN NONSENSE-----")
    with pytest.raises(UsageError, match="cannot sign") as failed:
        sign(statement(report(), "0" * 64), path, no_passphrase)
    assert "ssh-keygen" in failed.value.remedy


def test_the_page_shows_what_was_proven() -> None:
    files = sorted(PROJECT.evidence.glob("*.json"))
    found = judge(PROJECT, files, PROJECT.evidence / "keys") if files else []
    assert [each.reason for each in found if each.state == "refused"] == []
    assert evidence_table(found) in (ROOT / "docs" / "how-to" / "prove.md").read_text(
        encoding="utf-8"
    )
