"""Signed evidence: an in-toto statement about one report, in a DSSE envelope.

The subject is the lock; the predicate says on which device and driver it was proven. Beside the
envelope's own fields is the public key: who reads it sees which files are of one key. The formats:
https://github.com/in-toto/attestation/tree/main/spec/v1, https://github.com/secure-systems-lab/dsse
"""

import base64
import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from pydantic import AfterValidator, Field, ValidationError, model_validator
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import FormatError, VerificationError
from securesystemslib.signer import CryptoSigner, Key, SSlibKey  # type: ignore[attr-defined]

from provision.core.errors import SpecError, ToolError, UsageError, os_errors
from provision.core.limits import read_bytes
from provision.report.model import Report, moment
from provision.spec.tables import Table, faults_of

_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_LINE = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
_KEY = "publicKey"  # a field that other readers of DSSE ignore
_LONGEST = 300  # signs of a text; a name of a device has 60
_LEAST_RSA = 2048  # bits
# Of a device: no serial number, no UUID.
SHOWN = ("name", "count", "memory", "driver", "capability", "threads")
_VARIED = "its bytes are not those that `provision evidence emit` writes"
# What reading a file raises that is damaged, or signed by nobody.
_FAULTS = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    FormatError,
    UnsupportedAlgorithm,
)
_Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def _one_cell(text: str) -> str:
    """Return a text that fits a cell of a table; ValueError if it could forge another row."""
    if not text.isprintable() or "|" in text or len(text) > _LONGEST:
        raise ValueError(f"has to be one line of at most {_LONGEST} signs without |")
    return text


_Cell = Annotated[str, AfterValidator(_one_cell)]
_Count = Annotated[int, Field(ge=0, lt=2**63)]  # of bytes, too
# As the suite writes it, and with a zone: what has none is another moment for each reader.
_MOMENT = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"


class Subject(Table):
    """The lock that was proven."""

    name: Annotated[str, Field(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
    digest: Annotated[dict[Literal["sha256"], _Sha256], Field(min_length=1)]


class CheckResult(Table):
    """How one check ended, and what it measured."""

    id: str
    outcome: Literal["passed", "warned"]
    numbers: dict[str, dict[str, float | str]]


class Excused(Table):
    """A check that was not run, and why."""

    id: str
    reason: str


class Predicate(Table):
    """What was seen: the parts of a report that name no serial number and no address."""

    suite: Literal["full"]
    checks_digest: _Sha256  # of the suite as it ran
    tree: (
        _Sha256  # of the environment's files: equal on each machine that built the lock
    )
    report: _Sha256  # of the report: one run is one piece of evidence
    device: dict[str, _Cell | _Count | None]
    devices: tuple[dict[str, _Cell | _Count | None], ...]
    stack: dict[str, str]
    python: str
    torch: str | None
    started: Annotated[str, Field(pattern=_MOMENT), AfterValidator(moment)]
    checks: Annotated[tuple[CheckResult, ...], Field(min_length=1)]
    not_run: tuple[Excused, ...]

    @model_validator(mode="after")
    def _is_as_measured(self) -> Self:
        """Raise ValueError for a device that is not the one which the checks measured."""
        devices = self.devices or (self.device,)
        if devices[0] != self.device:
            raise ValueError("the first of its devices is another than its device")
        numbers = {check.id: check.numbers for check in self.checks}
        for index, device in enumerate(devices):
            check = "device.ready"
            if index:
                check = f"device.ready@{index}"
                if check not in numbers:
                    raise ValueError(f"it names device {index}, and has no {check}")
            for name, unit in (("count", 1), ("memory", 2**30)):  # in GiB
                size = device.get(name)
                number = numbers.get(check, {}).get(name, {})
                measured = number.get("value")
                if size is not None and measured != float(size) / unit:
                    text = f"its {name} is {size}, and {check} measured {measured}"
                    raise ValueError(text)
        return self


# What the predicate takes from a report as it is.
_TAKEN: Any = {
    "suite": True,
    "tree": True,
    "python": True,
    "torch": True,
    "started": True,
    "checks": {
        "__all__": {
            "id": True,
            "outcome": True,
            "numbers": {"__all__": {"value", "unit"}},
        }
    },
    "not_run": {"__all__": {"id", "reason"}},
}


class Statement(Table):
    """An in-toto statement, version 1."""

    type_: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")]
    subject: Annotated[tuple[Subject, ...], Field(min_length=1, max_length=1)]
    predicate_type: Annotated[
        Literal["urn:provision:smoke-evidence:v2"], Field(alias="predicateType")
    ]
    predicate: Predicate


def require_proof(report: Report) -> None:
    """Raise UsageError, with the reason, if a report proves nothing."""
    bad = [check.id for check in report.failed]
    bad += [entry.id for entry in report.missing]
    if report.suite != "full" or report.lock is None or bad or report.shortfall:
        suite = f"it is of the {report.suite} suite"
        raise UsageError(
            f"the last report of {report.target} proves nothing",
            evidence=", ".join(bad) or report.shortfall or suite,
            remedy=f"`provision smoke {report.target} --full` on the device makes one",
        )


def statement(report: Report) -> Statement:
    """Say what a report proves, and with what; UsageError if it proves nothing."""
    require_proof(report)
    stack = {}
    gpus = 0  # by number: an address can hold a serial number on Windows
    for layer, version in report.stack.items():
        if layer.startswith("GPU "):
            stack[f"GPU {gpus}"] = version
            gpus += 1
        else:
            stack[layer] = version
    predicate = report.model_dump(mode="json", include=_TAKEN) | {
        "checks_digest": report.files,
        "report": report.seal,
        "device": _shown(report.device),
        "devices": [_shown(device) for device in report.devices],
        "stack": stack,
    }
    document = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": report.target, "digest": {"sha256": report.lock}}],
        # No address is behind it: in-toto asks for a URI as a name only.
        "predicateType": "urn:provision:smoke-evidence:v2",
        "predicate": predicate,
    }
    try:
        return Statement.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise UsageError(
            f"the last report of {report.target} is no evidence",
            evidence="\n".join(faults_of(error, Statement)),
            remedy=f"`provision smoke {report.target} --full` makes one that is",
        ) from error


def _shown(device: Mapping[str, Any]) -> dict[str, Any]:
    return {key: device[key] for key in SHOWN if key in device}


def sign(content: Statement, key: Path, passphrase: Callable[[], str]) -> str:
    """Sign a statement with an OpenSSH or PEM key, and return the envelope; else UsageError.

    The passphrase is asked for only where the key has one.
    """
    private = load_key(key, passphrase)
    payload = content.model_dump_json(by_alias=True).encode()
    envelope = Envelope(payload, _PAYLOAD_TYPE, {})
    envelope.sign(CryptoSigner(private))
    return _render(envelope, private.public_key().public_bytes(*_LINE).decode())


def load_key(key: Path, passphrase: Callable[[], str]) -> Any:  # noqa: ANN401 - of several kinds
    """Return a private key that can sign; UsageError for a file with none."""
    try:
        data = key.read_bytes()
        load = serialization.load_pem_private_key
        if b"OPENSSH" in data[:64]:
            load = serialization.load_ssh_private_key
        try:
            private = load(data, None)
        except TypeError:  # the documented answer to a key with a passphrase
            private = load(data, passphrase().encode())
        _require_long(private)
        CryptoSigner(private)  # it refuses other kinds itself
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(
            f"cannot sign with {key}",
            evidence=str(error),
            remedy="name one of ed25519 with --key; `ssh-keygen -t ed25519 -f FILE` makes one",
        ) from error
    return private


def new_key(file: Path) -> None:
    """Write a new private key without a passphrase, which only its owner may read."""
    private = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    with os_errors(f"cannot make the key {file}", "name a key with --key"):
        file.parent.mkdir(parents=True, exist_ok=True)
        # Under another name first: killed, this leaves no part of a key under its own.
        fresh = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
        try:
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as stream:
                stream.write(private)
            os.link(fresh, file)  # unlike a rename, never over another key
        finally:
            fresh.unlink(missing_ok=True)


# The first line of an envelope with a statement, which begins with `{"_type":`.
MARK = ' "payload": "eyJfdHlwZSI6'


def _render(envelope: Envelope, key: str) -> str:
    document = envelope.to_dict()
    if key:  # files of earlier versions name none
        document[_KEY] = key
    return json.dumps(document, indent=1) + "\n"


def _require_long(key: object) -> None:
    """Raise ValueError for a key of RSA that is too short to sign with (NIST SP 800-131A)."""
    bits = getattr(key, "key_size", _LEAST_RSA)
    if isinstance(key, RSAPublicKey | RSAPrivateKey) and bits < _LEAST_RSA:
        raise ValueError(
            f"RSA with {bits} bits is forged too easily: {_LEAST_RSA} are the least"
        )


def trusted_keys(folder: Path) -> dict[str, tuple[str, Key]]:
    """Read the public keys (OpenSSH format) of a folder: key id -> name of the file, key."""
    keys: dict[str, tuple[str, Key]] = {}
    for path in sorted(folder.glob("*.pub")):
        try:
            public = serialization.load_ssh_public_key(read_bytes(path))
            _require_long(public)
            key = SSlibKey.from_crypto(public)
        except (OSError, ValueError, UnsupportedAlgorithm) as error:
            raise SpecError(
                f"{path} is no public key in the format of OpenSSH",
                evidence=str(error),
                remedy="put the line of the owner's .pub file there, or remove it",
            ) from error
        keys[key.keyid] = (path.stem, key)
    return keys


def verified(file: Path, keys: Mapping[str, tuple[str, Key]]) -> tuple[str, Statement]:
    """Return whose key signed a file, and its statement; ToolError if it is no evidence."""
    with _refusing(file):
        envelope, _ = _read(file)
        (keyid,) = envelope.signatures
        if keyid not in keys:
            raise ValueError(f"the key {keyid} is not known here")
        name, key = keys[keyid]
        return name, _signed_with(key, envelope, file)


class Signer(NamedTuple):
    """A key that signed a file and that the file names."""

    keyid: str
    fingerprint: str  # as `ssh-keygen -l` prints it


def self_signed(file: Path) -> tuple[Signer, Statement]:
    """Return the key that a file names and that signed it, and its statement.

    ToolError if it is no evidence. Anybody can make a key: it tells which files are of one signer.
    """
    with _refusing(file):
        envelope, line = _read(file)
        if not line:
            raise ValueError(
                "it names no public key: it was written by an earlier version, emit it again"
            )
        key = _public_key(line)
        digest = hashlib.sha256(base64.b64decode(line.split()[1])).digest()
        fingerprint = "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
        return Signer(key.keyid, fingerprint), _signed_with(key, envelope, file)


def _read(file: Path) -> tuple[Envelope, str]:
    """Return an envelope with one signature, and the public key beside it, "" without any."""
    data = read_bytes(file)
    try:
        document = json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    line = document.pop(_KEY, "")
    envelope = Envelope.from_dict(document)
    # What the signature does not cover (spaces, further fields, padding) must not vary either.
    if _render(envelope, line).encode() != data:
        raise ValueError(_VARIED)
    if envelope.payload_type != _PAYLOAD_TYPE or len(envelope.signatures) != 1:
        raise ValueError("it is not one signed in-toto statement")
    if line and list(envelope.signatures) != [_public_key(line).keyid]:
        raise ValueError("it was signed with another key than the one that it names")
    return envelope, line


def _public_key(line: str) -> Key:
    """Return a public key in the format of OpenSSH; ValueError for a comment, too."""
    public = serialization.load_ssh_public_key(line.encode())
    _require_long(public)
    if public.public_bytes(*_LINE).decode() != line:
        raise ValueError(_VARIED)
    return SSlibKey.from_crypto(public)


def _signed_with(key: Key, envelope: Envelope, file: Path) -> Statement:
    try:
        envelope.verify([key], 1)
    except VerificationError as error:
        raise ValueError("it was changed after it was signed") from error
    # One of an earlier version says less of what was run.
    if (
        json.loads(envelope.payload)["predicateType"]
        == "urn:provision:smoke-evidence:v1"
    ):
        raise ToolError(
            f"{file} is no evidence",
            evidence="it was written by an earlier version of Provision; its author has to emit it"
            " again",
            cause="that version did not sign what the checks were made with",
            remedy="ask its author for `provision evidence emit` with this version",
        )
    return Statement.model_validate_json(envelope.payload)


@contextlib.contextmanager
def _refusing(file: Path) -> Iterator[None]:
    """Raise what reading a damaged or forged file raises as one ToolError."""
    try:
        yield
    except _FAULTS as error:
        raise ToolError(
            f"{file} is no evidence",
            evidence="\n".join(faults_of(error, Statement)),
            cause="it was changed, was not written by Provision, or its key is not known here",
            remedy="ask its author for the file again, or put their public key among the known",
        ) from error
