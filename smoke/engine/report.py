"""The report's parts, and its form for build servers; it is written atomically."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from smoke.engine.finding import Finding
    from smoke.engine.journal import Journal, Running


def devices(journal: Journal) -> list[dict[str, Any]]:
    """Return the facts of each device that computes, by its number."""
    found = {
        event["device"]["index"]: event["device"]
        for event in journal.events()
        if "device" in event
    }
    return [found[index] for index in sorted(found)]


def failed(running: Running, finding: Finding) -> dict[str, Any]:
    """Return the result of a check whose worker died or hung before it wrote one."""
    verdict = {"outcome": "failed", "seconds": round(running.seconds, 3), "numbers": {}}
    return {**running.check, **verdict, "finding": finding.as_json()}


def line(result: dict[str, Any]) -> str:
    """Return one result as a line of progress for the terminal."""
    finding = result["finding"]
    numbers = ", ".join(
        _number(name, entry) for name, entry in result["numbers"].items()
    )
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
    suite = ET.Element("testsuite", name=f"smoke {document['target']}")
    for entry in (*document["not_run"], *document["checks"]):
        area, _, name = entry["id"].partition(".")
        seconds = str(entry.get("seconds", 0))
        case = ET.SubElement(suite, "testcase", classname=area, name=name, time=seconds)
        if "owed" in entry:
            ET.SubElement(
                case, "error" if entry["owed"] else "skipped", message=entry["reason"]
            )
        elif finding := entry["finding"]:
            text = "\n".join(
                [finding["cause"], finding["remedy"], *finding["evidence"]]
            )
            message = f"{finding['code']}: {finding['symptom']}"
            if entry["outcome"] == "failed":
                ET.SubElement(
                    case, "failure", type=finding["code"], message=message
                ).text = text
            else:  # JUnit knows no warning
                ET.SubElement(case, "system-out").text = f"{message}\n{text}"
    kinds = {
        "tests": "",
        "failures": "/failure",
        "errors": "/error",
        "skipped": "/skipped",
    }
    for key, kind in kinds.items():
        suite.set(key, str(len(suite.findall(f"testcase{kind}"))))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
