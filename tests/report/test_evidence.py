"""Signed evidence: what was proven is in it, nothing of its owner; any change is refused."""

from __future__ import annotations

import base64
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner

from provision.commands.evidence import judge
from provision.core.errors import SpecError, ToolError, UsageError
from provision.core.project import Project
from provision.lockfile.pip import read_lock
from provision.report.evidence import (
    Statement,
    new_key,
    sign,
    statement,
    trusted_keys,
    verified,
)
from provision.report.history import suite_digest
from provision.report.model import Report
from tests.test_docs import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = Project(ROOT)
DEVICE = {
    "name": "A770",
    "driver": "1.6",
    "uuid": "GPU-SERIAL",
    "count": 2,
    "memory": 16642998272,
}
LOCK = read_lock(PROJECT.lock("cpu-linux")).digest


def report(**changes: object) -> Report:
    common = {
        "outcome": "passed",
        "title": "t",
        "stands_for": "s",
        "seconds": 0.1,
        "finding": None,
    }
    error = {"value": 1e-7, "unit": "1", "limit": 1e-5}
    check = common | {"id": "device.matmul", "numbers": {"float32": error}}
    count = {"value": 2, "unit": "count"}
    memory = {"value": 15.5, "unit": "GiB"}
    measured = {"count": count, "memory": memory}
    ready = common | {"id": "device.ready", "numbers": measured}
    document = {
        "schema_version": 2,
        "suite": "full",
        "target": "cpu-linux",
        "python": "3.11.7",
        "torch": "2.13.0",
        "started": "2026-11-22T01:02:03Z",
        "seconds": 9.0,
        "lock": LOCK,
        "device": DEVICE,
        "stack": {"kernel": "6.1", "GPU 0000:03:00.0": "A770", "GPU serial-7": "A770"},
        "checks": [check, ready],
        "files": suite_digest(PROJECT),
        "tree": "a" * 64,
        "seal": "b" * 64,
        "not_run": [
            {"id": "x.y", "title": "t", "required": False, "reason": "no float64"}
        ],
    }
    return Report.model_validate(document | changes)


def make_key(folder: Path, name: str, passphrase: bytes | None = None) -> Path:
    """Write a key pair as ssh-keygen does; the public one into ``keys``."""
    private = ed25519.Ed25519PrivateKey.generate()
    how = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    content = private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, how)
    path = folder / name
    path.write_bytes(content)
    keys = folder / "keys"
    keys.mkdir(exist_ok=True)
    line = public_line(private) + b" me@host\n"
    (keys / f"{name}.pub").write_bytes(line)
    return path


def public_line(private: ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey) -> bytes:
    public = private.public_key()
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)


def no_passphrase() -> str:
    pytest.fail("the key has no passphrase")


def signed_by(key: Path, proven: Report) -> str:
    return sign(statement(proven), key, no_passphrase)


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    file = tmp_path / "evidence.json"
    key = make_key(tmp_path, "owner")
    file.write_text(signed_by(key, report()), encoding="utf-8")
    return file


def test_a_new_key_is_there_as_a_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And never over one that is there already."""
    file = tmp_path / "state" / "evidence-key"
    new_key(file)
    first = file.read_bytes()
    with pytest.raises(ToolError, match="cannot make the key"):
        new_key(file)
    assert file.read_bytes() == first
    file.unlink()

    def killed(*_: object) -> None:
        assert not file.exists()
        raise KeyboardInterrupt

    monkeypatch.setattr("os.link", killed)
    with pytest.raises(KeyboardInterrupt):
        new_key(file)
    assert list(file.parent.iterdir()) == []


def read(file: Path) -> tuple[str, Statement]:
    return verified(file, trusted_keys(file.parent / "keys"))


def refusal(file: Path) -> str:
    with pytest.raises(ToolError, match="is no evidence") as failed:
        read(file)
    return failed.value.evidence


def test_it_says_what_was_proven_and_by_whom_and_nothing_of_its_owner(
    signed: Path,
) -> None:
    name, content = read(signed)
    assert name == "owner"
    (lock,) = content.subject
    assert lock.digest["sha256"] == LOCK
    proven = content.predicate
    assert proven.checks_digest == suite_digest(PROJECT)
    assert proven.tree == "a" * 64
    assert proven.report == "b" * 64
    check, _ = proven.checks
    assert check.numbers == {"float32": {"value": 1e-7, "unit": "1"}}
    assert proven.stack == {"kernel": "6.1", "GPU 0": "A770", "GPU 1": "A770"}
    text = content.model_dump_json()
    for private in ("SERIAL", "serial", "0000:03", "me@host"):
        assert private not in text


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 11])
def test_every_changed_byte_is_refused(signed: Path, every: int) -> None:
    keys = trusted_keys(signed.parent / "keys")
    good = signed.read_bytes()
    for place in range(0, len(good), every):
        changed = bytearray(good)
        changed[place] ^= 1
        signed.write_bytes(changed)
        with pytest.raises(ToolError, match="is no evidence"):
            verified(signed, keys)


def test_what_the_signature_does_not_cover_is_refused_too(signed: Path) -> None:
    good = signed.read_bytes()
    more = good.replace(b'"payload":', b'"more": 1,\n "payload":')
    padded = (good + b" ", b"\n" + good, good[:-1], more)
    for content in (*padded, b"[" * 100_000, b"{}", b""):
        signed.write_bytes(content)
        assert refusal(signed)


def test_an_unknown_key_is_refused(signed: Path) -> None:
    (signed.parent / "keys" / "owner.pub").unlink()
    make_key(signed.parent, "stranger")
    assert "not known here" in refusal(signed)


def read_key(path: Path) -> Any:  # noqa: ANN401 - of whatever kind it is
    return load_ssh_private_key(path.read_bytes(), None)


def envelope_of(payload: bytes, key: Path) -> Envelope:
    envelope = Envelope(payload, "application/vnd.in-toto+json", {})
    signer = CryptoSigner(read_key(key))
    envelope.sign(signer)
    return envelope


def write_signed(file: Path, payload: bytes) -> None:
    """Let the owner sign what the product does not write."""
    envelope = envelope_of(payload, file.parent / "owner")
    text = json.dumps(envelope.to_dict(), indent=1)
    file.write_text(text + "\n")


def test_what_an_earlier_version_signed_is_said_to_be_that(signed: Path) -> None:
    content = json.loads(statement(report()).model_dump_json(by_alias=True))
    content["predicateType"] = "urn:provision:smoke-evidence:v1"
    for name in ("tree", "report", "devices"):
        del content["predicate"][name]
    write_signed(signed, json.dumps(content).encode())
    assert refusal(signed) == (
        "it was written by an earlier version of Provision; its author has to emit it again"
    )
    (found,) = judge(PROJECT, [signed], signed.parent / "keys")
    assert found.state == "refused"
    assert "earlier version" in found.reason
    with pytest.raises(ToolError) as failed:
        read(signed)
    assert "changed" not in failed.value.cause


@pytest.mark.parametrize("payload", [b"[]", b'"x"', b"{}", b"[" * 100_000])
def test_a_signed_payload_that_is_no_statement_is_refused(
    signed: Path, payload: bytes
) -> None:
    write_signed(signed, payload)
    assert refusal(signed)


def test_another_key_under_the_known_id_is_refused(signed: Path) -> None:
    stranger = make_key(signed.parent, "stranger")
    forged = json.loads(signed_by(stranger, report(torch="9")))
    (signature,) = json.loads(signed.read_text())["signatures"]
    forged["signatures"][0]["keyid"] = signature["keyid"]
    text = json.dumps(forged, indent=1)
    signed.write_text(text + "\n")
    assert refusal(signed)


def test_attack_another_lock_or_suite_makes_it_stale(
    signed: Path, tmp_path: Path
) -> None:
    key = make_key(tmp_path, "other")
    old = tmp_path / "old.json"
    of_old_lock = report(lock="1" * 64, seal="d" * 64)
    old.write_text(signed_by(key, of_old_lock))
    suite = tmp_path / "suite.json"
    hollow = report(files="2" * 64, seal="c" * 64)
    suite.write_text(signed_by(key, hollow))
    files = [signed, old, suite]
    valid, other_lock, other_suite = judge(PROJECT, files, tmp_path / "keys")
    assert valid.state == "valid"
    assert other_lock.state == "stale"
    assert "another lock" in other_lock.reason
    assert other_suite.state == "stale"
    assert "another suite" in other_suite.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"suite": "quick"},
        {"lock": None},
        {"not_run": [{"id": "x", "title": "t", "required": True, "reason": "died"}]},
        {"compared": "worse"},
    ],
)
def test_what_proves_nothing_is_not_signed(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="proves nothing"):
        statement(report(**changes))


def test_a_passphrase_is_asked_for(tmp_path: Path) -> None:
    key = make_key(tmp_path, "locked", b"open sesame")
    content = statement(report())
    assert sign(content, key, lambda: "open sesame")
    with pytest.raises(UsageError, match="cannot sign"):
        sign(content, key, lambda: "wrong")


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"-----BEGIN NONSENSE-----")
    with pytest.raises(UsageError, match="cannot sign") as failed:
        signed_by(path, report())
    assert "ssh-keygen" in failed.value.remedy


def test_attack_one_run_counts_once(signed: Path, tmp_path: Path) -> None:
    """Under a second name, and signed by a second key."""
    copy = tmp_path / "copy.json"
    copy.write_bytes(signed.read_bytes())
    again = tmp_path / "again.json"
    key = make_key(tmp_path, "second")
    again.write_text(signed_by(key, report()))
    files = [signed, copy, again]
    first, copied, signed_again = judge(PROJECT, files, tmp_path / "keys")
    assert first.state == "valid"
    assert copied.state == "refused"
    assert str(signed) in copied.reason
    assert signed_again.state == "refused"


OTHER = DEVICE | {"name": "B580"}
A_ROW = DEVICE | {"name": "A770 |\n| max-linux | Max 1550"}
A_COLUMN = DEVICE | {"driver": "1.6 | 2026"}
FORGED: dict[str, dict[str, Any]] = {
    "more memory": {"device": DEVICE | {"memory": 99 << 30}},
    "more devices": {"device": DEVICE | {"count": 8}},
    "another first device": {"devices": [OTHER]},
    "a row": {"device": A_ROW},
    "a column": {"device": A_COLUMN},
    "a time of two lines": {"started": "2026-11-22\n01:02:03Z"},
    "another file": {"target": "../../etc/x"},
    "NUL": {"target": "cpu-linux\0"},
}


def forged(content: dict[str, Any], key: Path) -> str:
    """Sign what the model of a statement would not let through."""
    payload = json.dumps(content, separators=(",", ":")).encode()
    document = envelope_of(payload, key).to_dict()
    document["publicKey"] = public_line(read_key(key)).decode()
    text = json.dumps(document, indent=1)
    return text + "\n"


def test_attack_a_device_that_was_not_measured_and_names_that_forge(
    signed: Path,
) -> None:
    """By whoever signs: such a statement is refused when it is made, and when it is read."""
    key = signed.parent / "owner"
    keys = signed.parent / "keys"
    envelope = json.loads(signed.read_text())
    text = base64.b64decode(envelope["payload"])
    signed.write_text(forged(json.loads(text), key))
    (found,) = judge(PROJECT, [signed], keys)
    assert found.state == "valid"
    for what, changes in FORGED.items():
        with pytest.raises(UsageError, match="is no evidence"):
            statement(report().model_copy(update=changes))
        content = json.loads(text)
        for name, value in changes.items():
            if name == "target":
                content["subject"][0]["name"] = value
            else:
                content["predicate"][name] = value
        signed.write_text(forged(content, key))
        (found,) = judge(PROJECT, [signed], keys)
        assert found.state == "refused", what


def test_attack_keys_that_are_none(signed: Path) -> None:
    """A pipe, which has no end, and RSA that is short enough to be factored."""
    keys = signed.parent / "keys"
    pipe = keys / "pipe.pub"
    os.mkfifo(pipe)
    with pytest.raises(SpecError, match=r"pipe\.pub"):
        trusted_keys(keys)
    pipe.unlink()
    short = rsa.generate_private_key(65537, 1024)  # noqa: S505 - it has to be refused
    (keys / "short.pub").write_bytes(public_line(short))
    with pytest.raises(SpecError, match=r"short\.pub") as caught:
        trusted_keys(keys)
    assert "1024" in caught.value.evidence
    path = signed.parent / "short"
    plain = NoEncryption()
    content = short.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, plain)
    path.write_bytes(content)
    with pytest.raises(UsageError, match="cannot sign"):
        signed_by(path, report())
