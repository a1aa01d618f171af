"""Each reader of what others wrote, and thousands of hostile inputs made from real samples.

``PROVISION_READERS`` is how many for each reader; ``nox -s attacks`` tries 10,000, the normal tests
a sample. Each case is made from the reader and the number that a failure shows.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import faulthandler
import io
import json
import os
import random
import shutil
import signal
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.core.errors import ProvisionError
from provision.core.privacy import redact
from provision.core.text import json_text
from provision.core.yaml import load_yaml
from provision.doctor.logs import findings_of
from provision.doctor.reading import read_log
from provision.doctor.report import private
from provision.doctor.repository import read_repository
from provision.report.evidence import trusted_keys, verified
from provision.report.fleet import report_fleet
from provision.spec.reader import load_spec
from provision.spec.requirement_files import RequirementFiles
from tests.attacks.mutations import HOSTILE, damaged, damaged_json
from tests.attacks.test_fuzz import Stuck
from tests.attacks.test_repositories import SPEC, watched
from tests.report.fleets import verdict
from tests.report.test_evidence import make_key, report, signed_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COUNT = int(os.environ.get("PROVISION_READERS", "60"))
LONGEST = 5  # seconds of the processor for one input
TESTS = Path(__file__).parents[1]
NOW = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
ENVIRONMENT = b"""name: x
channels: [conda-forge, nodefaults]
dependencies:
  - python=3.11
  - &torch pytorch::pytorch>=2.1  # a comment
  - "cuda-version=12.8"
  - pip:
      - -r requirements.txt
      - transformers==4.37.0; python_version < "3.12"
      - --extra-index-url https://example.org/simple
      - git+https://example.org/acme/Clip.git@main
      - -e .[dev]
variables: {A: "1", B: |-
    two
    lines}
"""
WORKSPACE = b"""[project]
name = "a"
dependencies = ["b"]
[tool.uv.sources]
b = { workspace = true }
[tool.uv.workspace]
members = ["packages/*", "**/libs/*"]
exclude = ["packages/old"]
"""


def samples(*patterns: str) -> list[bytes]:
    """Return what public projects have in their files, but for the longest."""
    found = [path for pattern in patterns for path in sorted(TESTS.glob(pattern))]
    return [path.read_bytes() for path in found if path.stat().st_size < 8_000]


def logs() -> list[bytes]:
    text = (TESTS / "doctor" / "logs.toml").read_text("utf-8")
    texts = [log["text"].encode() for log in tomllib.loads(text)["log"]]
    return [text for text in texts if len(text) < 600]


def huge(content: bytes, chance: random.Random) -> bytes:
    """Insert a token that is far longer than any."""
    at = chance.randrange(len(content) + 1)
    sign = chance.choice(
        (b"a", b"9", b"(", b"\\", b" ", b"#", b"\xc3", b"=", b",", b"a.", b"[a]")
    )
    return content[:at] + sign * chance.choice((5_000, 5_000, 20_000)) + content[at:]


def spliced(content: bytes, chance: random.Random) -> bytes:
    """Put one part of a file into the middle of another."""
    first, second, at = (chance.randrange(len(content) + 1) for _ in range(3))
    return (
        content[:at] + content[min(first, second) : max(first, second)] + content[at:]
    )


def encoded(content: bytes, chance: random.Random) -> bytes:
    """Write it in another encoding, or with bytes that none has."""
    text = content.decode("utf-8", "replace")
    name = chance.choice(
        ("utf-16", "utf-16-le", "utf-32", "utf-7", "cp500", "latin-1", "utf-8-sig")
    )
    return text.encode(name, "replace") + chance.choice(
        (b"", b"\xff\xfe", b"\0\0\0", b"\x80")
    )


def hostile(content: bytes, chance: random.Random) -> bytes:
    """Return a sample with one to three kinds of damage."""
    kinds = (damaged, damaged, huge, spliced, encoded)
    return chance.choice(kinds)(content, chance)


@contextlib.contextmanager
def shown(kind: type[Exception] = ProvisionError) -> Iterator[None]:
    """Show an error of a kind, as the command would."""
    try:
        yield
    except kind as error:
        redact(str(error))


def add(folder: Path, name: str) -> None:
    files = RequirementFiles(folder)
    files.add(name)
    redact("\n".join([*files.faults, *files.ignored]))


def read_requirements(folder: Path, content: bytes) -> None:
    (folder / "requirements.txt").write_bytes(content)
    if len(content) % 2:  # each reader has half of them
        add(folder, "requirements.txt")
        return
    with shown():
        read_repository(folder)


def read_toml(folder: Path, content: bytes) -> None:
    if content.startswith(b"summary"):
        (folder / "envs" / "thing.toml").write_bytes(content)
        with shown():
            load_spec(folder / "envs" / "thing.toml")
        return
    is_lock = b"[[package" in content[:20_000]
    file = folder / ("uv.lock" if is_lock else "pyproject.toml")
    file.write_bytes(content)
    if is_lock or len(content) % 2:
        with shown():
            read_repository(folder)
    else:
        add(folder, file.name)
    file.unlink()


def read_yaml(folder: Path, content: bytes) -> None:
    (folder / "environment.yml").write_bytes(content)
    add(folder, "environment.yml")
    with shown(ValueError):
        load_yaml(content.decode("utf-8", "replace"))


def read_verdicts(folder: Path, content: bytes) -> None:
    (folder / "verdicts").mkdir(exist_ok=True)
    name = "gpu00001-cuda-linux-quick.json"
    (folder / "verdicts" / name).write_bytes(content)
    json_text(report_fleet(folder / "verdicts", ["gpu00001"], NOW).lines)


def read_logs(_: Path, content: bytes) -> None:
    log = read_log(io.BytesIO(content))
    if len(content) % 8 == 0:  # rules and reports take longer than the reading
        for finding in findings_of(log):
            assert finding.code
    elif len(content) % 8 == 1:
        private("\n".join(line.text for line in log.raw)[:1_000])


def read_evidence(folder: Path, content: bytes) -> None:
    (folder / "evidence.json").write_bytes(content)
    with shown():
        verified(folder / "evidence.json", trusted_keys(folder / "keys"))


def toml_samples(_: Path) -> list[bytes]:
    spec = SPEC.format(name="requirements.txt").encode()
    files = samples("projects/*/pyproject.toml", "doctor/repositories/*/*/*.*")
    several = len(files) // 2
    return [*files, *[spec] * several, *[WORKSPACE] * several]


def evidence_samples(folder: Path) -> list[bytes]:
    return [signed_by(make_key(folder, "owner"), report()).encode()]


def verdict_samples(_: Path) -> list[bytes]:
    made = verdict("gpu00001", random.Random(1), NOW)
    made["numbers"] = dict(list(made["numbers"].items())[:3])
    return [
        json.dumps(made | change).encode() for change in ({}, {"verdict": "remove"})
    ]


Reader = tuple["Callable[[Path, bytes], None]", "Callable[[Path], list[bytes]]"]
READERS: dict[str, Reader] = {
    "requirements": (
        read_requirements,
        lambda _: samples("projects/*/requirements*.txt"),
    ),
    "TOML": (
        read_toml,
        toml_samples,
    ),
    "YAML": (read_yaml, lambda _: [ENVIRONMENT]),
    "verdicts": (read_verdicts, verdict_samples),
    "logs": (read_logs, lambda _: logs()),
    "evidence": (read_evidence, evidence_samples),
}


@contextlib.contextmanager
def ends_soon(what: str) -> Iterator[None]:
    """Stop what takes too much of the processor; the whole process, where that cannot be stopped."""

    def stop(*_: object) -> None:
        raise Stuck(f"{what}: no end after {LONGEST} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    faulthandler.dump_traceback_later(120, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def is_json(sample: bytes) -> bool:
    """Whether a sample is a document of JSON; a log may begin with a brace, too."""
    try:
        json.loads(sample)
    except ValueError:
        return False
    return sample.startswith(b"{")


@pytest.mark.attack(
    "requirements, TOML with specs, YAML, verdicts, logs or evidence are hostile",
    promise="an error or a right answer within 5 s: no crash, and no file outside is opened",
)
@pytest.mark.skipif(sys.platform == "win32", reason="it has no timer of the processor")
@pytest.mark.parametrize("name", READERS)
def test_hostile_inputs(
    tmp_path: Path, name: str, record_property: pytest.RecordProperty
) -> None:
    read, of = READERS[name]
    folder = tmp_path / "repository"
    (folder / "envs").mkdir(parents=True)
    (folder / ".git").mkdir()
    known = of(folder)
    for sample in known:  # what is loaded late, and that samples are read at all
        read(folder, sample)
    mine = (
        str(tmp_path),
        str(TESTS.parent),
        sys.prefix,
        sys.base_prefix,
        "/dev/",
        "/proc/self",
    )
    for number in range(COUNT):
        chance = random.Random(f"{name} {number}")
        sample = chance.choice(known)
        damage = damaged_json if is_json(sample) and chance.random() < 0.5 else hostile
        content = damage(sample, chance)
        what = f"{name} {number}"
        with ends_soon(what), watched() as opened:
            try:
                read(folder, content)
            except Exception as error:
                raise AssertionError(f"{what}: {error!r}"[:500]) from error
        for path in opened:
            assert path.startswith(mine), what
    shutil.rmtree(folder)
    record_property("seen", f"{COUNT} of {name}")


def test_the_damage_reaches_what_is_read(tmp_path: Path) -> None:
    chance = random.Random(0)
    made = {hostile(ENVIRONMENT, chance) for _ in range(200)}
    assert len(made) > 150
    assert any(
        text.encode("utf-8", "ignore") in content
        for text in HOSTILE[-5:]
        for content in made
    )
    with pytest.raises(Stuck):
        loop(tmp_path)


def loop(folder: Path) -> None:
    with ends_soon("a loop"):
        signal.setitimer(signal.ITIMER_PROF, 0.05)
        while True:
            folder.exists()
