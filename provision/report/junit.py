"""A report as JUnit XML, for build servers.

The form that Jenkins, GitLab and pytest share:
https://github.com/testmoapp/junitxml
"""

from xml.etree import ElementTree as ET

from provision.report.model import Check, NotRun, Report

# The line by which a later run knows such a file as Provision's.
MARK = '<testsuite name="smoke '


def junit_xml(report: Report) -> str:
    """Write a report as JUnit XML: the run's facts, and each check with its numbers."""
    checks = (*report.checks, *report.reused)
    broken = 1 if report.broken else 0
    errors = len(report.missing) + broken
    skipped = len(report.not_run) - len(report.missing)
    suite = ET.Element(
        "testsuite",
        name=f"smoke {report.target}",
        tests=str(len(checks) + skipped + errors),
        failures=str(len(report.failed)),
        errors=str(errors),
        skipped=str(skipped),
        time=f"{report.seconds:.3f}",
        timestamp=report.started.removesuffix("Z"),
        hostname=report.host,
    )
    _add_properties(suite, report.facts)
    if report.broken:  # without its own case the file would read as passed
        case = _case(suite, "suite.end", 0.0)
        ET.SubElement(case, "error", message=report.broken)
    for entry in report.not_run:
        _add_not_run(suite, entry)
    for check in checks:
        _add_check(suite, check)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, identifier: str, seconds: float) -> ET.Element:
    area, _, name = identifier.partition(".")
    time = f"{seconds:.3f}"
    return ET.SubElement(suite, "testcase", classname=area, name=name, time=time)


def _add_properties(parent: ET.Element, texts: dict[str, str]) -> None:
    if texts:
        properties = ET.SubElement(parent, "properties")
        for name, text in texts.items():
            ET.SubElement(properties, "property", name=name, value=text)


def _add_not_run(suite: ET.Element, entry: NotRun) -> None:
    case = _case(suite, entry.id, 0.0)
    kind = "error" if entry.required else "skipped"
    ET.SubElement(case, kind, message=entry.why)


def _add_check(suite: ET.Element, check: Check) -> None:
    case = _case(suite, check.id, check.seconds)
    texts = {}
    for name, number in check.numbers.items():
        texts[name] = f"{number.value:.6g}{number.dimension}"
    for why, names in check.gaps.items():
        texts |= dict.fromkeys(names, why)
    _add_properties(case, texts)
    finding = check.finding
    if finding is None:
        return
    message = f"{finding.code}: {finding.symptom}"
    lines = [finding.cause, finding.remedy, *finding.evidence]
    if check.outcome == "failed":
        failure = ET.SubElement(case, "failure", type=finding.code, message=message)
        failure.text = "\n".join(lines)
    else:  # JUnit has no warning
        output = ET.SubElement(case, "system-out")
        output.text = "\n".join([message, *lines])
