"""The parts of the report."""

from smoke.engine.finding import Finding
from smoke.engine.journal import Entry, Journal, Running


def devices(journal: Journal) -> dict[int, Entry]:
    """Return the facts of each device that computes, in the order of their numbers."""
    facts = {}
    for event in journal.events():
        if "device" in event:
            facts[event["device"]["index"]] = event["device"]
    return dict(sorted(facts.items()))


def failed(running: Running, finding: Finding) -> Entry:
    """Return the result of a check whose worker died or hung before it wrote one."""
    return {
        **running.check,
        "outcome": "failed",
        "seconds": round(running.seconds, 3),
        "numbers": {},
        "finding": finding.as_json(),
    }


def line(result: Entry) -> str:
    """Return one result as a line of progress for the terminal."""
    if finding := result["finding"]:
        words = f"{finding['code']}: {finding['symptom']}"
    else:
        numbers = []
        for name, entry in result["numbers"].items():
            unit = "" if entry["unit"] in {"1", "count"} else " " + entry["unit"]
            numbers.append(f"{name} {entry['value']:.3g}{unit}")
        words = ", ".join(numbers)
    return f"{result['outcome']:6} {result['id']:24} {words}"[:160].rstrip()
