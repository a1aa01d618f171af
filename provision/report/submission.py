"""What a statement has to say before it may be in the public matrix, and in which file.

Whoever signs can write anything: nothing here makes a number true. It refuses what contradicts the
target, the lock or the suite, what would harm a reader, and what tells more than the device.
"""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from provision.catalog.devices import Devices
from provision.core.platforms import ACCELERATORS
from provision.core.privacy import anonymize
from provision.host.drivers import DriverVerdict, judge_version
from provision.host.model import is_known
from provision.lockfile.pip import Lock
from provision.report.evidence import SHOWN, Predicate, Statement
from provision.report.excuses import WORDS, is_so
from provision.report.model import utc
from provision.report.suite_checks import Suite
from provision.spec.model import Target

LARGEST = 1_000_000  # bytes of a file; one with 70 checks has 60,000
_CLOCK = dt.timedelta(days=1)  # by which the clock of a machine may be ahead
# Markup, escapes and addresses, which no name of a device or driver has.
_UNSAFE = re.compile(r"[<>`\\&|]|://|www\.|[^\x20-\x7e®™]")
_PATH = re.compile(r"(?<![\w.)])(?:~|[A-Za-z]:)?[/\\][\w.-]+[/\\]")
_SERIAL = re.compile(r"(?i)(?<![\w-])(?:[0-9a-f]{16,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-)")
_LONGEST = 300  # signs of a text; the longest reason of the suite has 180
_VERSION = re.compile(r"[\w.+]{1,60}")
# The layers of a host, as provision.host.model.host_layers() names them.
_LAYERS = re.compile(
    r"platform|kernel|firmware|GPU \d{1,3}|driver [\w-]{1,20}"
    r"|Level Zero loader|compute-runtime|CUDA driver library"
)
# What has no text to be read, or was read already.
_CHECKED = {
    f"predicate.{name}" for name in ("checks_digest", "tree", "report", "started")
}
# Checks that can end with a warning: what else a check finds is a failure.
_CAN_WARN = re.compile(
    r"device\.(family|fallback|driver)|noise\.imports|throughput\.training"
    r"|(health|transfer|group)\.\w+"
)
_IMPORT = "identity.import"  # which the suite runs without a function


def families_of(content: Statement, target: Target, devices: Devices) -> list[str]:
    """Return the families that a statement's device can be of; none if the target has no such one."""
    device = content.predicate.device
    name = str(device.get("name") or "")
    capability = str(device.get("capability") or "")
    match target.accelerator:
        case "xpu":
            families = _xpu_families(name, content.predicate, devices)
            return sorted(families.intersection(target.hardware.families))
        case "cpu" if not (capability or device.get("driver")):
            return ["cpu"]
        case "cuda" if _is_compiled_for(capability, target):
            return [capability]
        case "mps" if "Apple" in name:
            return ["apple"]
    return []


def _xpu_families(name: str, seen: Predicate, devices: Devices) -> set[str]:
    """Return the families of an Intel GPU, by its own name or that in the system's list of GPUs."""
    families = _intel_families(name, devices)
    # Drivers older than a device give it no name.
    for layer, text in seen.stack.items():
        if not families and layer.startswith("GPU "):
            families = _intel_families(text, devices)
    return families


def _is_compiled_for(capability: str, target: Target) -> bool:
    """Whether a target's wheels are for a capability as torch writes it, such as ``sm_89``."""
    digits = re.fullmatch(r"sm_(\d{1,2})(\d)", capability)
    accepted = SpecifierSet(target.hardware.compute_capability or "")
    return digits is not None and accepted.contains(f"{digits[1]}.{digits[2]}")


def _intel_families(name: str, devices: Devices) -> set[str]:
    """Return the families in which an Intel GPU is sold under a name, by its id where it has one."""
    by_id = re.search(r"\[0x([0-9a-f]{4})\]", name, re.IGNORECASE)
    if by_id and (device := devices.find("intel", by_id[1].lower())):
        return {device.family} if device.family else set()
    families = set()
    for device in devices.intel.values():
        if device.family and device.name == name:  # as the host's list names it
            families.add(device.family)
    essence = _essence(name)
    if families or not essence:
        return families
    for family, names in devices.intel_names.items():
        for marketed in names:
            if essence in map(_essence, _models(marketed)):
                families.add(family)
    return families


def _models(name: str) -> list[str]:
    """Return both names of ``Arc Pro A40/A50``, which one id stands for."""
    head, space, models = name.rpartition(" ")
    return [head + space + model for model in models.split("/")]


def _essence(name: str) -> str:
    """Return what all spellings share: ``arc 140v`` of ``Intel(R) Arc(TM) 140V GPU (16GB)``."""
    words = re.sub(r"\(.*?\)|\[.*?\]", " ", name.lower()).split()
    return " ".join(word for word in words if word not in {"intel", "gpu", "graphics"})


def place_of(content: Statement, families: Iterable[str]) -> str:
    """Return the path of a statement's file below the folder of evidence: one run has one path."""
    seen = content.predicate
    parts = (
        f"torch-{seen.torch}",
        "-".join(families),
        str(seen.device.get("driver") or "no-driver"),
        seen.report[:16],
    )
    name = "_".join(re.sub(r"[^a-z0-9.+]+", "-", part.lower()) for part in parts)
    return f"{content.subject[0].name}/{name}.json"


def objections(
    content: Statement, target: Target, devices: Devices, names: Iterable[str] = ()
) -> Iterator[str]:
    """Yield, each in a sentence, what keeps a statement out of the matrix whatever was locked.

    ``names`` are those of this machine and of its user, where the statement was made here.
    """
    seen = content.predicate
    words = _words(seen)
    telling = [name for name in names if name.casefold() not in words]
    for place, text in _texts(seen.model_dump(mode="json"), "predicate"):
        yield from _unfit(place, text, telling)
    yield from _unknown_fields(seen)
    if not families_of(content, target, devices):
        device = seen.device.get("name") or "its device"
        yield f"{device} is no device that {target.name} is for"
    platform = seen.stack.get("platform")
    if platform != target.platform:
        yield f"it was made on {platform}, and {target.name} is for {target.platform}"
    if utc(seen.started) > dt.datetime.now(dt.UTC) + _CLOCK:
        yield f"it was made on {seen.started}, which is in the future"


def of_driver(content: Statement, target: Target, devices: Devices) -> Iterator[str]:
    """Yield why the driver of a statement is none that the target's spec allows now."""
    seen, required = content.predicate, target.hardware.driver
    vendor = ACCELERATORS[target.accelerator].vendor
    if not vendor or not required:
        return
    versions = []
    is_unknown = True
    for version in (str(seen.device.get("driver") or ""), _installed(seen)):
        if version:
            versions.append(version)
            judged = judge_version(version, required, vendor, devices)
            is_unknown &= judged.verdict is DriverVerdict.UNKNOWN
            if judged.verdict is DriverVerdict.TOO_OLD:
                yield judged.reason
    # A container can hide the version: the check says so with a warning.
    warned = {check.id for check in seen.checks if check.outcome == "warned"}
    if is_unknown and "device.driver" not in warned:
        driver = " and ".join(versions) or "none"
        yield f"it has driver {driver}, and {target.name} needs one {required}"


def _installed(seen: Predicate) -> str:
    """Return the version of the driver that is installed, which torch may number otherwise."""
    stack = seen.stack
    runtime = stack.get("compute-runtime", "")
    if is_known(runtime):
        return runtime
    for layer, version in stack.items():
        if layer.startswith("driver ") and version != stack.get("kernel"):
            return version
    library = stack.get("CUDA driver library", "")
    return library if is_known(library) else ""


def _unknown_fields(seen: Predicate) -> Iterator[str]:
    """Yield the fields of device and host that no evidence has: their names could say anything."""
    fields = set(seen.device).union(*seen.devices)
    for name in fields.difference(SHOWN):
        yield f"evidence has no {name!r} of a device"
    for layer in seen.stack:
        if not _LAYERS.fullmatch(layer):
            yield f"{layer!r} is no layer of a host"


def _unfit(place: str, text: str, names: Iterable[str]) -> Iterator[str]:
    """Yield why a text must not be published; its content is not repeated."""
    if _UNSAFE.search(text) or len(text) > _LONGEST:
        yield f"{place} has markup, an address, signs that no name has, or is too long"
    elif _PATH.search(text) or anonymize(text, None, "") != text:
        yield f"{place} has a path, a name, an address or a token"
    elif _SERIAL.search(text):
        yield f"{place} has what looks like a serial number"
    for name in names:
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text):
            yield f"{place} has {name!r}, the name of this machine or of its user"


def _words(seen: Predicate) -> set[str]:
    """Return the words that evidence has whoever made it: of its fields, checks and devices."""
    texts = [*Predicate.model_fields, *SHOWN, *seen.stack, *WORDS]
    for device in (seen.device, *seen.devices):
        texts.append(str(device.get("name")))
    for layer, text in seen.stack.items():
        if layer.startswith("GPU "):
            texts.append(text)
    for check in seen.checks:
        texts += [check.id, *check.numbers]
    return set(re.findall(r"[^\W_]+", " ".join(texts).casefold()))


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - of JSON
    """Yield each text of a document with its place."""
    if isinstance(value, str):
        if place not in _CHECKED:
            yield place, value
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _texts(part, f"{place}[{number}]")
    elif isinstance(value, dict):
        for name, part in value.items():
            yield f"a name in {place}", name
            yield from _texts(part, f"{place}.{name}")


def contradictions(content: Statement, lock: Lock) -> Iterator[str]:
    """Yield what a statement says of its environment that its own lock does not have."""
    locked = lock.versions.get("torch", "")
    torch = content.predicate.torch or ""
    release = torch
    # The default index names no local part, which the torch of such a wheel has nevertheless.
    if "+" not in locked:
        release = torch.partition("+")[0]
    if release != locked or (torch and not _VERSION.fullmatch(torch)):
        yield f"it was made with torch {torch or 'none'}, and its lock has {locked or 'none'}"


def unchecked(
    content: Statement, target: Target, lock: Lock, suite: Suite
) -> Iterator[str]:
    """Yield what a statement says of the checks that the suite, run on the target, cannot say.

    Each check that the target requires of its first device has a result with its numbers.
    """
    yield from _misfits(content.predicate, suite)
    ran = {check.id for check in content.predicate.checks}
    reasons = {entry.id: entry.reason for entry in content.predicate.not_run}
    known = suite.known.get(target.accelerator, {})
    conditional = {check.id: check.conditional for check in suite.checks}
    for name in conditional | reasons:
        reason = reasons.get(name)
        first = name.partition("@")[0]
        if name in ran or (reason and known.get(first) == reason):
            continue
        if reason is None:
            yield f"the check {name} is missing, which the suite has"
        elif first == name and not conditional.get(name):
            yield f"the check {name} was not run, and every target requires it"
        elif not is_so(name, reason, target, lock):
            yield f"the check {name} was not run, and {reason!r} is not so of {target.name}"


def _misfits(seen: Predicate, suite: Suite) -> Iterator[str]:
    """Yield the results that no run of the suite has."""
    by_id = {check.id: check for check in suite.checks}
    counts = Counter(result.id for result in seen.checks)
    counts.update(entry.id for entry in seen.not_run)
    for name, count in counts.items():
        first = _of_first(name)
        if first not in by_id and first != _IMPORT:
            yield f"the suite has no check {name}"
        if count > 1:
            yield f"the check {name} is there {count} times"
    for check in seen.checks:
        name = _of_first(check.id)
        if name in by_id and by_id[name].measures and not check.numbers:
            yield f"the check {check.id} has no numbers, and each run of it records some"
        if check.outcome == "warned" and not _CAN_WARN.fullmatch(name):
            yield f"the check {check.id} warned, and it can only pass or fail"


def _of_first(check: str) -> str:
    """Return the id of a check, without the number of a further device."""
    return re.sub(r"@[1-9]\d{0,2}$", "", check)


def is_publishable(file: Path) -> bool:
    """Whether a file is no link and not larger than evidence is."""
    return file.is_file() and not file.is_symlink() and file.stat().st_size <= LARGEST
