"""The report: composed from the journal, written atomically."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from smoke.expect import Expect
    from smoke.finding import Finding
    from smoke.journal import Journal, Running

SCHEMA = 1


def compose(
    expect: Expect, journal: Journal, *, full: bool, first: int, python: str, started: str,
    seconds: float, not_run: list[dict[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    """Return the report of a finished run; ``first`` is the number of its first device."""
    found = devices(journal)
    return {
        "schema": SCHEMA,
        "suite": "full" if full else "quick",
        "target": expect.target,
        "python": python,
        "torch": journal.last("torch"),
        "device": next((facts for facts in found if facts["index"] == first), {}),
        "started": started,
        "seconds": seconds,
        "checks": journal.results(),
        "not_run": not_run,
        "devices": found,
        "operators": sorted(
            {name for event in journal.events() for name in event.get("operators", ())}
        ),
    }


def devices(journal: Journal) -> list[dict[str, Any]]:
    """Return the facts of each device that computes, by its number."""
    found = {event["device"]["index"]: event["device"] for event in journal.events()
             if "device" in event}  # fmt: skip
    return [found[index] for index in sorted(found)]


def failed(running: Running, finding: Finding) -> dict[str, Any]:
    """Return the result of a check whose worker died or hung before it wrote one."""
    verdict = {"outcome": "failed", "seconds": round(running.seconds, 3), "numbers": {}}
    return {**running.check, **verdict, "finding": finding.as_json()}


def line(result: dict[str, Any]) -> str:
    """Return one result as a line of progress for the terminal."""
    finding = result["finding"]
    numbers = ", ".join(_number(name, entry) for name, entry in result["numbers"].items())
    words = f"{finding['code']}: {finding['symptom']}" if finding else numbers
    return f"{result['outcome']:6} {result['id']:24} {words}"[:160].rstrip()


def _number(name: str, entry: dict[str, Any]) -> str:
    unit = "" if entry["unit"] == "1" else " " + entry["unit"]
    return f"{name} {entry['value']:.3g}{unit}"


def write(path: Path, text: str) -> None:
    """Write a file atomically: a reader sees the old one or the new one, never a part."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def junit(document: dict[str, Any]) -> str:
    """Return the report as JUnit XML, for build servers."""
    checks = document["checks"]
    bad = sum(entry["outcome"] == "failed" for entry in checks)
    missing = [entry["owed"] for entry in document["not_run"]]
    counts = {
        "tests": str(len(checks) + len(missing)),
        "failures": str(bad),
        "errors": str(missing.count(True)),
        "skipped": str(missing.count(False)),
    }
    suite = ET.Element("testsuite", {"name": f"smoke {document['target']}", **counts})
    for entry in document["not_run"]:
        area, _, name = entry["id"].partition(".")
        case = ET.SubElement(suite, "testcase", classname=area, name=name, time="0")
        ET.SubElement(case, "error" if entry["owed"] else "skipped", message=entry["reason"])
    for entry in checks:
        area, _, name = entry["id"].partition(".")
        seconds = str(entry["seconds"])
        case = ET.SubElement(suite, "testcase", classname=area, name=name, time=seconds)
        if finding := entry["finding"]:
            text = "\n".join([finding["cause"], finding["remedy"], *finding["evidence"]])
            message = f"{finding['code']}: {finding['symptom']}"
            if entry["outcome"] == "failed":
                ET.SubElement(case, "failure", type=finding["code"], message=message).text = text
            else:  # JUnit knows no warning
                ET.SubElement(case, "system-out").text = f"{message}\n{text}"
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
