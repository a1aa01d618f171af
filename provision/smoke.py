"""Run the checks in an environment, with its own Python, and keep the report."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provision import files, report
from provision.errors import ToolError
from provision.run import clean_environment, describe_exit, environment_python

if TYPE_CHECKING:
    from provision.lockfile import Lock
    from provision.project import Project
    from provision.report import Report
    from provision.run import Run
    from provision.spec import Target

REPORTS = "reports"
_TIMEOUT = {"quick": 300.0, "full": 1800.0}  # seconds; generous, a hang is what it is for


def expectation(target: Target, lock: Lock) -> dict[str, Any]:
    """Return what the suite has to find, from spec and lock."""
    return {
        "schema": 1,
        "target": target.name,
        "accelerator": target.accelerator,
        "python": target.python,
        "packages": lock.versions,
        "forbid": [entry.model_dump() for entry in target.pip.forbid],
        "driver": target.hardware.driver,
        "families": list(target.hardware.families),
        "fused_ops": list(target.smoke.fused_ops),
        "rotary": list(target.smoke.rotary),
        "speedup_over_cpu": target.smoke.speedup_over_cpu,
        "environment": target.environment,
    }


def smoke(
    project: Project,
    target: Target,
    lock: Lock,
    prefix: Path,
    run: Run,
    *,
    full: bool = False,
) -> Report:
    """Run the suite in an environment and keep its report below the target's folder.

    Raises:
        ToolError: The suite itself did not come to an end; a failed check is no error.
    """
    suite = "full" if full else "quick"
    now = dt.datetime.now(dt.UTC)
    kept = project.environments(target.name) / REPORTS / f"{now:%Y%m%dT%H%M%S%fZ}-{suite}.json"
    with tempfile.TemporaryDirectory(prefix="provision-smoke-") as folder:
        expect, written = Path(folder, "expect.json"), Path(folder, "report.json")
        expect.write_text(json.dumps(expectation(target, lock)), encoding="utf-8")
        argv = [str(environment_python(prefix)), "-I", str(project.smoke / "run.py")]
        argv += [str(expect), str(written), *(["--full"] if full else [])]
        variables = target.variables(prefix) | {"PYTHONDONTWRITEBYTECODE": "1"}
        finished = run(
            argv,
            env=clean_environment(prefix=prefix, extra=variables),
            cwd=Path(folder),
            timeout=_TIMEOUT[suite],
        )
        if not written.is_file():
            raise ToolError(
                f"the smoke suite of {target.name} did not come to an end",
                evidence=_tail(finished.stderr or finished.stdout),
                cause=f"its process ended with {describe_exit(finished.returncode)}",
                remedy=f"`provision doctor --target {target.name}` looks for the cause",
            )
        result = report.read(written)
        files.write_atomic(kept, written.read_text(encoding="utf-8"))
    return result


def last_report(project: Project, target: str) -> Report | None:
    """Return the newest report of a target on this host, or None."""
    kept = sorted((project.environments(target) / REPORTS).glob("*.json"))
    return report.read(kept[-1]) if kept else None


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-12:])
