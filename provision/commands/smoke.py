"""Run the checks in an environment, with its own Python, and keep the report."""

import functools
import importlib.metadata
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provision.catalog.devices import read_devices, read_peaks
from provision.commands.machine import this_host
from provision.core.errors import ToolError, UsageError
from provision.core.filesystem import write_atomic
from provision.core.process import (
    Run,
    clean_environment,
    describe_exit,
    environment_python,
)
from provision.core.progress import Look, Progress
from provision.core.project import Project
from provision.core.temporary import scratch
from provision.core.text import json_text
from provision.host.model import Host
from provision.lockfile.pip import Lock
from provision.report.history import new_report, suite_digest
from provision.report.model import Report, complete_report, read_report
from provision.spec.model import Target
from provision.spec.parts import hardware_of

# Seconds for one device. The suite ends what hangs by itself; where every kernel is compiled at its
# first use, a healthy device takes most of this.
_TIMEOUT = {"quick": 1800.0, "full": 3600.0, "health": 1800.0}
# What of the full suite asks the hardware itself: areas and checks.
_HEALTH = ("device.ready", "health", "transfer", "collective")
_MOST_DEVICES = 8  # of one machine; only the suite knows how many there are
_VERDICTS = (0, 1)  # exit codes of smoke/run.py: every owed check passed, some failed
# Codes under which the suite reports an exception or a dead process, of which it knows no cause.
_UNEXPLAINED = ("op-fails", "import-fails", "process-died")
_COUNT = "import sys, torch; print(getattr(torch, sys.argv[1]).device_count())"
_LIST = (
    "import importlib.metadata as m, json; "
    "print(json.dumps({d.metadata['Name']: d.version for d in m.distributions()}))"
)


@dataclass(frozen=True, slots=True)
class SmokeRequest:
    """What to check."""

    project: Project
    target: Target
    layers: dict[str, str]  # of this host; see provision.host.model.host_layers()
    suite: str = "quick"  # or `full`, all checks; or `health`, those of the hardware
    soak: float | None = None  # seconds for which the load is held, instead of a few
    device: str = ""  # a number as torch counts, `all`, or the default of the suite
    junit: Path | None = None  # where to write JUnit XML as well


@dataclass(frozen=True, slots=True)
class Subject:
    """An environment to be checked."""

    prefix: Path  # its folder, for variables that name it
    python: Path  # its interpreter
    versions: dict[str, str]  # what must be installed in it, by normalised name
    lock: (
        str | None
    )  # digest of the lock that it was built from; None for a foreign one


def from_generation(prefix: Path, lock: Lock) -> Subject:
    """Return an environment that Provision built, which must be what is locked."""
    return Subject(prefix, environment_python(prefix), lock.versions, lock.digest)


def from_interpreter(python: Path, run: Run) -> Subject:
    """Return somebody else's environment, which a path or a command names, taken as it is."""
    from provision.doctor.sites import locate, prefix_of  # noqa: PLC0415 - for --against only

    found = locate(str(python), run)
    python = environment_python(prefix_of(found)) if found.is_dir() else found
    try:
        listed = run([python, "-I", "-c", _LIST], timeout=60).require("it does not run")
        named = json.loads(listed.stdout)
    except (ToolError, ValueError) as error:
        evidence = str(getattr(error, "evidence", "") or error)
        raise UsageError.of("no-python", evidence, python=python) from error
    versions = {
        str(canonicalize_name(name)): version for name, version in named.items() if name
    }
    return Subject(python.absolute().parent.parent, python.absolute(), versions, None)


def expectation(
    target: Target, versions: dict[str, str], catalog: Path, host: Host | None = None
) -> dict[str, Any]:
    """Return the content of ``expect.json``: what the suite has to find."""
    intel, judged = target.accelerator == "xpu", None
    if host:
        from provision.host.drivers import smoke_expectation  # noqa: PLC0415 - rarely judged

        judged = smoke_expectation(
            hardware_of(target.model_dump()), host, read_devices(catalog)
        )
    return {
        "schema": 3,
        "target": target.name,
        "accelerator": target.accelerator,
        "python": target.python,
        "packages": versions,
        "requirements": _requirements(target, versions),
        "forbid": [asdict(entry) for entry in target.pip.forbid],
        "driver": target.hardware.driver,
        "families": list(target.hardware.families),
        "intel_devices": read_devices(catalog).intel_families() if intel else {},
        "fused_ops": list(target.smoke.fused_ops),
        "rotary": list(target.smoke.rotary),
        "speedup_over_cpu": target.smoke.speedup_over_cpu,
        "environment": target.environment,
        "driver_judgement": judged,
    }


def _requirements(target: Target, versions: dict[str, str]) -> list[str]:
    """Return the normalised names of what a spec requires on its platform."""
    named = {
        canonicalize_name(r.name): r for r in map(Requirement, target.pip.requirements)
    }
    # A marker can exclude the platform of the target: what the lock holds decides then.
    return sorted(
        name for name, each in named.items() if each.marker is None or name in versions
    )


def runner_folder() -> Path:
    """Return the folder of the toolkit's own pytest, which the suite imports from there."""
    return Path(str(importlib.metadata.distribution("pytest").locate_file("")))


def smoke(
    request: SmokeRequest,
    subject: Subject,
    run: Run,
    progress: Progress,
    verified: Lock | None = None,
) -> Report:
    """Run the suite in an environment; the report of one of ours is kept, below its target.

    ``verified`` is the lock that every file has just been found equal to: results of the last
    build stand then where nothing changed; see :mod:`provision.commands.carry`.

    ToolError: the suite did not come to an end; a failed check is no error.
    """
    project, target, layers = request.project, request.target, request.layers
    suite = request.suite
    device = request.device or ("0" if suite == "quick" else "all")
    with scratch() as folder:
        expect, written, xml = (
            folder / n for n in ("expect.json", "report.json", "j.xml")
        )
        host = this_host(project) if target.hardware.driver else None
        expected = expectation(target, subject.versions, project.catalog, host)
        if subject.lock:  # the spec may have got others since it was built
            expected["requirements"] = sorted(
                subject.versions.keys() & expected["requirements"]
            )
        if suite != "quick":  # which measures no share of a peak
            expected["peaks"] = read_peaks(project.catalog)
        expected |= {"soak": request.soak} if request.soak else {}
        variables = target.variables(subject.prefix) | {"PYTHONDONTWRITEBYTECODE": "1"}
        variables |= {
            "TMPDIR": str(folder)
        }  # what a killed suite leaves goes with the folder
        environment = clean_environment(prefix=subject.prefix, extra=variables)
        if device not in ("0", "all"):
            _require_device(
                device, target, subject.python, functools.partial(run, env=environment)
            )
        known = before = None
        if verified:
            from provision.commands.carry import earlier, facts  # noqa: PLC0415 - only builds do

            known = facts(
                subject.prefix, verified, project, expected, layers | environment
            )
            before = earlier(project, target.name, known)
        carry = {"earlier": before.request(known)} if known and before else {}
        expect.write_text(json.dumps(expected | carry), encoding="utf-8")
        argv = [str(subject.python), "-I", str(project.smoke / "run.py"), str(expect)]
        journal = folder / "journal.jsonl"
        argv += [
            str(written),
            *([] if suite == "quick" else ["--full"]),
            "--junit",
            str(xml),
        ]
        argv += [
            part for name in _HEALTH if suite == "health" for part in ("--only", name)
        ]
        argv += [
            "--runner",
            str(runner_folder()),
            "--device",
            device,
            "--journal",
            str(journal),
        ]
        timeout = _TIMEOUT[suite] + (request.soak or 0.0)
        timeout *= _MOST_DEVICES if device == "all" else 1
        progress.step(f"the {suite} checks of {target.name}", _following(journal))
        finished = run(argv, env=environment, cwd=folder, timeout=timeout)
        progress.step("")
        if finished.returncode not in _VERDICTS or not written.is_file():
            lines = (finished.stderr or finished.stdout).strip().splitlines()[-12:]
            end, python = describe_exit(finished.returncode), subject.python
            raise ToolError.of(
                "suite-ended", *lines, end=end, target=target.name, python=python
            )
        document = json.loads(complete_report(written, layers, subject.lock))
        document |= {
            "suite": suite,
            "asked": device,
            "checks": with_causes(document["checks"]),
        }
        document |= {"files": suite_digest(project)} | (
            known._asdict() if known else {}
        )
        document = before.complete(document) if before else document
        if request.junit:
            _write_junit(xml, request.junit, document["checks"])
        path = (
            new_report(project, target.name, suite)
            if subject.lock
            else folder / "foreign.json"
        )
        write_atomic(path, json_text(document))
        return read_report(path)


def _require_device(device: str, target: Target, python: Path, run: Run) -> None:
    """Raise UsageError if torch counts devices, and none of this number."""
    count = "1"
    if target.accelerator in ("cuda", "xpu"):
        with suppress(
            ToolError
        ):  # why a driver hangs, or there is no device, the suite tells
            count = run(
                [python, "-I", "-c", _COUNT, target.accelerator], timeout=300
            ).stdout
    if count.strip().isdecimal() and 0 < int(count) <= int(device):
        last = "only device 0" if int(count) == 1 else f"devices 0 to {int(count) - 1}"
        raise UsageError.of(
            "no-such-device", device=device, target=target.name, there=last
        )


def _following(journal: Path) -> Look:
    """Return what tells how far a suite is by its journal; see smoke/engine/journal.py."""
    read, now, owed, ended = 0, "", set[str](), set[str]()

    def look() -> dict[str, Any]:
        nonlocal read, now
        new = []
        with suppress(OSError), journal.open("rb") as stream:
            stream.seek(read)
            added = stream.read()
            # In one read, cut at the last line end: what follows is being written.
            complete = added[: added.rfind(b"\n") + 1]
            read += len(complete)
            for line in complete.splitlines():
                try:
                    event = json.loads(line)
                except ValueError:  # a part that a killed worker left
                    continue
                now = event.get("start", {"id": now})["id"]
                new += [event["result"]] if "result" in event else []
                owed.update(head["id"] for head in event.get("owed", ()))
                ended.update(head["id"] for head in (*event.get("excused", ()), *new))
        whole = len(owed | ended) if owed else 0
        return {"completed": len(ended), "total": whole, "now": now, "ended": new}

    return look


def with_causes(checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the checks of a report, each error that the doctor recognises with its cause."""
    return [check | {"finding": _with_cause(check["finding"])} for check in checks]


def _with_cause(finding: dict[str, Any] | None) -> dict[str, Any] | None:
    if not finding or finding["code"] not in _UNEXPLAINED:
        return finding
    # A good report must not load some hundred patterns.
    from provision.doctor import diagnose_evidence  # noqa: PLC0415

    found = diagnose_evidence([finding["symptom"], *finding["evidence"]])
    if not found:
        return finding
    # Symptom and evidence stay as the suite wrote them.
    return finding | {"code": found.code, "cause": found.cause, "remedy": found.remedy}


def _write_junit(written: Path, path: Path, checks: list[dict[str, Any]]) -> None:
    """Write the suite's JUnit file with the findings of the completed report."""
    from xml.etree import ElementTree as ET  # noqa: PLC0415 - for --junit only

    findings = {check["id"]: check["finding"] for check in checks}
    tree = ET.parse(written)  # noqa: S314 - our own suite wrote it
    for case in tree.iter("testcase"):
        failure = case.find("failure")
        finding = findings.get(f"{case.get('classname')}.{case.get('name')}")
        if failure is not None and finding:
            failure.set("type", finding["code"])
            failure.set("message", f"{finding['code']}: {finding['symptom']}")
            failure.text = "\n".join(
                [finding["cause"], finding["remedy"], *finding["evidence"]]
            )
    tree.write(path, encoding="utf-8", xml_declaration=True)
