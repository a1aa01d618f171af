"""The verdict on one node: whether a scheduler keeps it, removes it, or has learnt nothing."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError
from pydantic_core import from_json

from provision import __version__
from provision.core.filesystem import write_atomic
from provision.core.findings import Finding, Level
from provision.core.limits import read_bytes
from provision.core.text import harmless, json_text
from provision.report.measures import number_of
from provision.report.model import Measurement, Part, Report, moment, upgraded
from provision.report.speeds import Speed, continued

# Codes of failed checks that say nothing about the node; docker/bin/verdict has them, too.
OUTSIDE = {"network-failure", "device-busy", "port-in-use", "driver-not-mounted"}
# It tells of a new suite or lock, which all nodes get on one day; of a device that is gone,
# `fewer-devices` tells.
_HARMLESS = {"check-vanished"}
_FEWER = "fewer-devices"
_HOW_MANY = (
    "`provision doctor` says what is wrong with the device that is gone; if the change is intended, "
    "remove the file of this verdict: it is the standard"
)
_OF_REPORT: Any = {"suite", "lock", "torch", "python", "stack", "counts"}
_MOST_LAYERS = 300  # of a host; a machine with 16 GPUs has 60
_LINE = 300  # characters
_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,252}$"  # a part of the name of a file


def short(text: str) -> str:
    """Return a text as a line of at most 300 characters: it is one in a scheduler's state."""
    return _kept(text) if len(text) <= _LINE else _line(text)


def _line(text: str) -> str:
    return " ".join(harmless(text).split())[:_LINE]


# Nodes of a fleet share most texts, such as versions; a longer one could take all memory.
_kept = lru_cache(maxsize=4096)(_line)


Short = Annotated[str, AfterValidator(short)]


class Problem(Part):
    """A failed check; without ``check`` a difference from the lock, or a regression."""

    check: Short
    """Id of the check; empty for a difference from the lock, and for a regression."""
    code: Short
    """Of the finding."""
    symptom: Short
    """At most 300 characters, in one line."""
    remedy: Short
    """At most 300 characters, in one line."""


class Verdict(Part):
    """One verdict; of ``none`` the facts are empty."""

    schema_version: Annotated[Literal[2], Field(alias="schema")]
    """Version of the format."""
    node: Annotated[str, Field(pattern=_NAME)]
    """Name of the node."""
    target: Annotated[str, Field(pattern=_NAME)]
    """Name of the target."""
    suite: Literal["quick", "full", "health", "gate", "group", "verify"]
    """`verify` compares with the lock, the others are checks."""
    verdict: Literal["keep", "remove", "none"]
    """`none`: nothing was learnt about the node."""
    code: Short = ""
    """Code of a finding, or `busy`, `time-limit`, `interrupted`, `usage`, `tool`; empty of `keep`."""
    reason: Short = ""
    """At most 300 characters, in one line."""
    remedy: Short = ""
    """At most 300 characters, in one line."""
    time: Annotated[str, AfterValidator(moment)]
    """When it was reached, ISO 8601, UTC."""
    seconds: float
    """How long that took, in seconds."""
    provision: Short = __version__
    """Version of the toolkit."""
    lock: Short | None = None
    """Digest of the environment's lock."""
    torch: Short | None = None
    """Version in the environment."""
    python: Short | None = None
    """Version in the environment."""
    device: Short | None = None
    """Name of the first device."""
    devices: int = 0
    """How many devices were checked."""
    stack: dict[Short, Short] = Field({}, max_length=_MOST_LAYERS)
    """Layers of the host, as in a report."""
    counts: dict[str, int] = Field({})
    """How many checks were required, and how they ended, as in a report."""
    failed: tuple[Problem, ...] = ()
    """Failed checks, or differences from the lock."""
    regressions: tuple[Problem, ...] = ()
    """What this node did better before; of a `gate`, what warned, such as a slow link."""
    numbers: dict[str, dict[str, Measurement]] = Field({})
    """By check, and by name."""
    since: Annotated[str, AfterValidator(moment)] | None = None
    """Of `none`: when the first run was that learnt nothing, with none since that did; else null."""
    unchanged_since: Annotated[str, AfterValidator(moment)] | None = None
    """With `--if-driver-changed`, where no check ran because nothing changed: when they last ran."""
    speeds: tuple[Speed, ...] = ()
    """Of a `gate`: bandwidths beside earlier ones, those too that were measured before only."""
    most_devices: int = 0
    """Of a `gate`: the most devices that this node had; with fewer it is removed."""

    @property
    def file_name(self) -> str:
        """The name of its file, which ``fleet report`` compares with what it says."""
        return f"{self.node}.{self.target}.{self.suite}.json"

    def store(self, folder: Path) -> None:
        """Write it where ``fleet report`` reads it."""
        path = folder / self.file_name
        write_atomic(path, json_text(self.document(), None))

    def after(self, earlier: "Verdict | None") -> "Verdict":
        """Return it with what it continues: how long nothing is learnt, speeds, number of devices."""
        is_none = self.verdict == "none"
        changes: dict[str, Any] = {"since": self.time if is_none else None}
        if earlier:
            if is_none and earlier.verdict == "none":
                changes["since"] = earlier.since or earlier.time
            changes["speeds"] = continued(self.speeds, earlier.speeds)
            changes |= self._with_devices(earlier)
        return self.model_copy(update=changes)

    def _with_devices(self, earlier: "Verdict") -> dict[str, Any]:
        """Return what follows from the devices that a node had: with fewer it is removed."""
        if self.suite != "gate":
            return {}
        now = self.most_devices
        had = earlier.most_devices or earlier.devices  # an earlier version wrote it
        changes: dict[str, Any] = {"most_devices": max(now, had)}
        if self.verdict == "none" or not now or now >= had:
            return changes
        symptom = f"the number of devices fell from {had} to {now}"
        lost = Problem(check="", code=_FEWER, symptom=symptom, remedy=_HOW_MANY)
        changes["regressions"] = (lost, *self.regressions)
        if self.verdict == "keep":
            decisive = {"code": _FEWER, "reason": symptom, "remedy": _HOW_MANY}
            changes |= {"verdict": "remove"} | decisive
        return changes

    def hides(self, earlier: "Verdict") -> bool:
        """Whether it would replace a removal without having learnt anything."""
        return self.verdict == "none" and earlier.verdict == "remove"

    def document(self) -> dict[str, Any]:
        """Return it as it is written: without the course of each number."""
        course: Any = {"numbers": {"__all__": {"__all__": {"rounds", "every"}}}}
        return self.model_dump(mode="json", by_alias=True, exclude=course)


def verdict_of(data: bytes) -> Verdict:
    """Return a stored verdict, also of schema 1; ValueError if the bytes are none."""
    try:
        return Verdict.model_validate_json(data)  # without an object for each part
    except ValidationError:
        return Verdict.model_validate(upgraded(from_json(data)))


def read_verdict(path: Path) -> Verdict | None:
    """Return a stored verdict; None where there is no usable one."""
    try:
        return verdict_of(read_bytes(path, follow=False))
    except (OSError, ValueError):
        return None


def judge(
    found: Iterable[tuple[str, Any]], worse: Iterable[Finding] = ()
) -> dict[str, Any]:
    """Return the parts of a verdict that follow from findings, each with its check, and regressions."""
    failed = []
    regressions = []
    grave = []
    for check, finding in found:
        if finding.level == Level.ERROR:
            failed.append(_problem(check, finding))
    for regression in worse:
        if regression.bad:
            regressions.append(_problem("", regression))
        if regression.level is Level.ERROR and regression.code not in _HARMLESS:
            grave.append(regressions[-1])
    decisive = failed or grave
    causes = [problem for problem in decisive if problem.code not in OUTSIDE]
    parts: dict[str, Any] = {"failed": failed, "regressions": regressions}
    if not decisive:
        return parts | {"verdict": "keep"}
    first = (causes or decisive)[0]
    return parts | {
        "verdict": "remove" if causes else "none",
        "code": first.code,
        "reason": f"{first.check}: {first.symptom}".removeprefix(": "),
        "remedy": first.remedy,
    }


def facts_of(report: Report) -> dict[str, Any]:
    """Collect the parts of a verdict that a smoke run tells of the node."""
    numbers: dict[str, dict[str, Measurement]] = {}
    for check in report.checks:
        numbers[check.id] = {}
        for name, number in check.numbers.items():
            if number.comparable:
                numbers[check.id][name] = number
    return report.model_dump(include=_OF_REPORT) | {
        "device": report.device.get("name"),
        "devices": len(report.all_devices),
        "numbers": numbers,
    }


def most_devices(report: Report) -> int:
    """Return how many devices a node has, of which a run may have checked one."""
    most = len(report.all_devices)
    for check in report.checks:
        count = number_of(check, "count", "count")
        if count:
            most = max(most, int(count.value))
    return most


def _problem(check: str, finding: Any) -> Problem:  # noqa: ANN401 - of the suite or the toolkit
    return Problem(
        check=check,
        code=finding.code,
        symptom=finding.symptom,
        remedy=finding.remedy,
    )
