"""The report of one smoke run."""

import datetime as dt
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, FiniteFloat, computed_field

from provision.core.errors import ToolError
from provision.core.findings import Finding, Level
from provision.core.hashing import sha256_bytes
from provision.core.limits import read_parsed
from provision.core.text import json_text
from provision.spec.tables import faults_of

# The two words for what has no result: the device has it not, by the committed list of its
# release; or it could not be tried. The suite marks the first in the name.
NOT_OFFERED = "not offered: "
NOT_EVALUATED = "not evaluated: "
SCHEMA = 2  # of reports and verdicts
_RENAMED = {"owed": "required", "carried": "reused"}  # since schema 1
Word = Literal["passed", "slower", "worse", "failed", "incomplete"]


class Part(BaseModel):
    """The base of what is read of a report or a verdict."""

    # Written by the suite inside the environment, which may know more than this reader.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Measurement(Part):
    """One measured value with its unit; ``spread``, ``limit`` and ``rounds`` share the unit."""

    value: float
    """The median where it was measured repeatedly."""
    again: float | None = None
    """The least of several measurements of a speed, of which the best is `value`; null where it was
    measured once.
    """
    unit: str
    """Such as `s`, `images/s`, `GB/s`; `1` for ratios and relative errors."""
    spread: float | None = None
    """Largest minus smallest of the rounds."""
    limit: float | None = None
    """The largest error that passes; only errors have one."""
    rounds: tuple[float, ...] = ()
    """Value of each round, in order; absent in a verdict."""
    every: float | None = None
    """Seconds from one round to the next, in the course of a load; absent in a verdict."""

    @property
    def dimension(self) -> str:
        """The unit as it is written after a value; "" of ratios, errors and counts, which have none."""
        return "" if self.unit in {"1", "count"} else f" {self.unit}"

    @property
    def comparable(self) -> bool:
        """Whether it can be drawn and compared: an operation that fails may give NaN."""
        spread, limit = self.spread, self.limit
        return (
            abs(self.value) < 1e100
            and (not spread or abs(spread) < 1e100)
            and (not limit or 1e-100 < limit < 1e100)
            and (not self.rounds or all(abs(each) < 1e100 for each in self.rounds))
        )


class Check(Part):
    """One check with its outcome."""

    id: str
    """Stable identifier."""
    outcome: Literal["passed", "failed", "warned"]
    """A check that warned failed in a way that stops nothing."""
    title: str
    """What it proves."""
    stands_for: str
    """The failure that users met."""
    seconds: FiniteFloat
    """How long it took, in seconds."""
    numbers: dict[str, Measurement]
    """What was measured, by name."""
    finding: Finding | None
    """Why it failed or warned; null where it passed."""
    not_measured: dict[str, str] = {}
    """Numbers that could not be read, by name, and why."""
    on_cpu: tuple[str, ...] = ()
    """Operators that the CPU computed for the device, as torch names them."""

    @property
    def gaps(self) -> dict[str, list[str]]:
        """Names of what has no result, by ``not offered: why`` and ``not evaluated: why``."""
        gaps: dict[str, list[str]] = {}
        for name, reason in self.not_measured.items():
            why = NOT_EVALUATED + reason
            if name.startswith(NOT_OFFERED):
                why = NOT_OFFERED + reason
            gaps.setdefault(why, []).append(name.removeprefix(NOT_OFFERED))
        return gaps

    @property
    def blocked(self) -> bool:
        """Whether it could not run because a check before it failed; that counts as failed."""
        return self.finding is not None and self.finding.level is Level.NOTE


class Reused(Check):
    """The result of an earlier run, still valid because nothing that it depends on has changed."""

    ran: str
    """When that run was started, ISO 8601, UTC."""


class NotRun(Part):
    """One check without a result."""

    id: str
    """Stable identifier."""
    title: str
    """What it proves."""
    required: bool
    """Whether the run required it: then nothing is proven."""
    reason: str
    """Why it was not run."""

    @property
    def why(self) -> str:
        """The reason in the words of screen, page and JUnit."""
        if self.required:
            return f"required, {NOT_EVALUATED}{self.reason}"
        return f"not required: {self.reason}"


def utc(moment: str) -> dt.datetime:
    """Return the time that a text in ISO 8601 names."""
    return dt.datetime.fromisoformat(moment).astimezone(dt.UTC)


def moment(text: str) -> str:
    """Return a text that is a time in ISO 8601; ValueError if it is none."""
    try:
        utc(text)
    except OverflowError as error:  # before year 1 or after 9999 in UTC
        raise ValueError("it is no time that has a place in UTC") from error
    if not text.isprintable():  # any sign may separate day and hour, a line end too
        raise ValueError("it is no time in one line")
    return text


class Report(Part):
    """One run of the suite in one environment; ``device.matmul@1`` is of its second device.

    Only a build writes ``reused``, ``basis``, ``parts``, ``closures`` and ``imported``; see
    provision.commands.reuse.
    """

    schema_version: Literal[2]
    """Version of the format; the file calls it `schema`."""
    suite: Literal["quick", "full", "health", "gate", "group"]
    """`health` and `gate` prove no lock; reports of a `gate` are not stored."""
    target: str
    """Name of the target."""
    python: str
    """Version in the environment."""
    torch: str | None
    """Version in the environment; null without torch."""
    device: dict[str, Any]
    """The first device, as the environment's torch describes it."""
    started: Annotated[str, AfterValidator(moment)]
    """When it was started, ISO 8601, UTC."""
    seconds: FiniteFloat
    """Duration of the whole run, in seconds."""
    checks: tuple[Check, ...]
    """The checks that ran."""
    not_run: tuple[NotRun, ...] = ()
    """The checks without a result; reports of earlier suites have none."""
    devices: tuple[dict[str, Any], ...] = ()
    """Every device that was checked."""
    asked: str = ""
    """Number of the requested device, or `all`; empty in reports of an earlier version."""
    reused: tuple[Reused, ...] = ()
    """Required checks whose earlier result is still valid."""
    basis: str = ""
    """Digest of what all checks depend on; only reports of builds have one."""
    parts: dict[str, str] = {}
    """Digest of each part of `basis`, by its name; reports of an earlier version have none."""
    closures: dict[str, str] = {}
    """What was installed of each distribution, with its modules if it is pure Python; only reports
    of builds have it."""
    imported: tuple[str, ...] = ()
    """Requirements of the spec whose import passed, then or before; only of builds."""
    stack: dict[str, str] = {}
    """Layers of the host, by name, each with its version."""
    accelerator: str = ""
    """Accelerator of the target; empty in reports of an earlier version."""
    host: str = ""
    """Name of the machine; empty in reports of an earlier version."""
    node: str = ""
    """Its name in a scheduler; empty where there is none."""
    load: dict[str, float] = {}
    """Load of the machine during the run, as far as it can be read; `steal` and pressures as parts
    of the time.
    """
    broken: str = ""
    """Why the suite ended early; empty if it did not."""
    compared: Literal["", "passed", "slower", "worse"] = ""
    """How the run compares with earlier ones; empty if it was not compared."""
    lock: str | None = None
    """Digest of the environment's lock; null for a foreign one."""
    files: str = ""
    """Digest of the suite's own files as they ran; empty if they changed meanwhile, and of an
    earlier suite."""
    tree: str = ""
    """Digest of the environment's files, as its build recorded it; empty if a file had another size,
    time or inode when the checks began, of other suites than the full one, and of an earlier
    version."""
    stamp: str = ""
    """Digest of the sizes, times and inodes of the environment's files; empty if they changed
    meanwhile, and where `tree` is."""
    seal: str = ""
    """SHA-256 of the rest of the file, without a key: it tells an edit; empty of an earlier
    version."""

    @property
    def all_devices(self) -> tuple[dict[str, Any], ...]:
        """Every device that was checked; of an earlier version the first."""
        return self.devices or (self.device,)

    @property
    def scope(self) -> str:
        """The number of the device that was to be checked, or `all`."""
        return self.asked or ("0" if self.suite == "quick" else "all")

    @property
    def age(self) -> float:
        """Seconds since it was started."""
        return (dt.datetime.now(dt.UTC) - utc(self.started)).total_seconds()

    @property
    def word(self) -> Word:
        """The one word for the run, which screen, page, `targets` and exit code share."""
        if self.broken or (self.missing and not self.failed):
            return "incomplete"
        if self.failed:
            return "failed"
        return self.compared or "passed"

    @property
    def shortfall(self) -> str:
        """When and why the run proves nothing; "" where it proves its environment."""
        if self.word in ("passed", "slower"):
            return ""
        required = self.counts["required"]
        reasons = []
        if self.broken:
            reasons.append(self.broken.partition("\n")[0])
        if self.failed:
            reasons.append(f"{len(self.failed)} of {required} failed")
        if self.missing:
            reasons.append(f"{len(self.missing)} of {required} not run")
        why = ", ".join(reasons) or "see its comparison with earlier runs"
        return f"{self.word} on {self.started}: {why}"

    @property
    def facts(self) -> dict[str, str]:
        """Where and under which load the run was made, and what the CPU computed; as texts."""
        texts = {"host": self.host, "node": self.node}
        texts |= self._device_facts
        texts["started"] = self.started
        for name, value in self.load.items():
            texts[name] = f"{value:.2f}"
            if name == "steal" or name.endswith("pressure"):  # parts of the time
                texts[name] = f"{value:.1%}"
        operators: set[str] = set()
        for check in self.checks:
            operators.update(check.on_cpu)
        texts["computed by the CPU"] = ", ".join(sorted(operators))
        return {name: text for name, text in texts.items() if text}

    @property
    def _device_facts(self) -> dict[str, str]:
        """The names and addresses of the devices, as texts."""
        names = []
        addresses = []
        for device in self.all_devices:
            if device.get("name"):
                names.append(str(device["name"]))
            if "address" in device:
                addresses.append(str(device["address"]))
        # Without an address of torch's, the GPUs of the host with theirs.
        for layer, text in self.stack.items():
            if layer.startswith("GPU ") and not addresses:
                names.append(f"{text} at {layer.removeprefix('GPU ')}")
        device_names = ", ".join(dict.fromkeys(names))
        return {"device": device_names, "address": ", ".join(addresses)}

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.outcome == "failed")

    @property
    def missing(self) -> tuple[NotRun, ...]:
        """The checks that are required and have no result."""
        return tuple(entry for entry in self.not_run if entry.required)

    @computed_field  # type: ignore[prop-decorator]  # pydantic's own advice, mypy#1362
    @property
    def counts(self) -> dict[str, int]:
        """`required`, `passed`, `failed`, `warned`, `not_run` and `reused`: how many checks."""
        ends = Counter(check.outcome for check in self.checks)
        return {
            "required": len(self.checks) + len(self.reused) + len(self.missing),
            "passed": ends["passed"],
            "failed": ends["failed"],
            "warned": ends["warned"],  # they failed, and stop nothing
            "not_run": len(self.missing),
            "reused": len(self.reused),
        }

    @property
    def proves(self) -> bool:
        """Whether every required check has a result, of this run or reused, and none failed."""
        return not self.failed and not self.missing and not self.broken


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a report with its seal."""
    content = {name: document[name] for name in document if name != "seal"}
    # As a reader finds it: NaN is a text in the file.
    found = json.loads(json_text(content))
    return content | {"seal": sha256_bytes(json_text(found).encode())}


def is_sealed(path: Path) -> bool:
    """Whether a report is as a run wrote it."""
    try:
        document = dict(read_parsed(path, json.loads))
    except (OSError, ValueError, TypeError):
        return False
    return bool(document.get("seal") == sealed(document)["seal"])


def upgraded(document: Any) -> Any:  # noqa: ANN401 - not validated yet
    """Return a report or verdict as it is, one of schema 1 with the names of `SCHEMA`."""
    if isinstance(document, dict) and document.get("schema") == 1:
        return _renamed(document) | {"schema": SCHEMA}
    return document


def _renamed(part: Any) -> Any:  # noqa: ANN401 - any of JSON
    if isinstance(part, list):
        return [*map(_renamed, part)]
    if isinstance(part, dict):
        return {_RENAMED.get(n, n): _renamed(value) for n, value in part.items()}
    return part


def read_report(path: Path) -> Report:
    """Read a report, also of schema 1; ToolError if it is absent, truncated or of another one."""
    try:
        data = upgraded(read_parsed(path, json.loads))
        return Report.model_validate(
            {"schema_version": data.pop("schema", None)} | data
        )
    except (
        OSError,
        ValueError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ToolError(
            f"no usable smoke report at {path}",
            evidence="\n".join(faults_of(error, Report)),
            cause="the suite ended before it could write one",
        ) from error


def comparable(reports: Sequence[Report], after: Report) -> list[Report]:
    """The reports of the same target and a device in common: their results compare."""
    names = _names(after)
    alike = []
    for report in reports:
        asked = report.scope == after.scope or "all" in (report.scope, after.scope)
        others = _names(report)
        # One that could not name its device is comparable with any: a driver that broke is what
        # comparison is for.
        common = not names or not others or names & others
        if report.target == after.target and asked and common:
            alike.append(report)
    return alike


def _names(report: Report) -> set[tuple[int, str]]:
    """The number and name of each device that could tell its name."""
    names = set()
    for device in report.all_devices:
        if device.get("name"):
            names.add((device.get("index", 0), device["name"]))
    return names
