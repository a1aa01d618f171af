"""The verb ``doctor``: choose what is examined, and gather what its rules need."""

import re
import sys
from dataclasses import replace
from pathlib import Path

from provision.catalog.devices import read_devices
from provision.commands.current import require_current
from provision.core.errors import UsageError
from provision.core.findings import Diagnosis, worst_first
from provision.core.home import home_folder
from provision.core.process import run
from provision.core.project import Project
from provision.doctor.diagnosis import diagnose_environment, diagnose_machine
from provision.doctor.environment import built_for
from provision.doctor.logs import findings_of
from provision.doctor.reading import Log, read_log
from provision.doctor.repository import FORMATS, read_repository
from provision.doctor.rules.locks import judge
from provision.doctor.sites import locate
from provision.doctor.targets import in_own_verbs
from provision.host.model import Host
from provision.host.probe import read_host
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_target


def read_log_file(name: str) -> Log:
    """Read a log, which ``-`` takes from standard input; UsageError if it is no text."""
    try:
        if name == "-":
            log = read_log(sys.stdin.buffer)
        else:
            with Path(name).open("rb") as stream:
                log = read_log(stream)
    except OSError as error:
        raise UsageError(f"cannot read {name}", evidence=str(error)) from error
    control = re.compile(r"[\x00-\x06\x0e-\x1a]")
    odd = [line for line in log.raw if control.search(line.text)]
    if 2 * len(odd) > len(log.raw):  # Ctrl-C and the like may be in a few
        raise UsageError(
            f"{name} is no text",
            cause="it is packed, a program, or another file of bytes",
            remedy="unpack it, or name the file that has what the program printed",
        )
    return log


def with_log(
    result: Diagnosis | None, name: str, log: Log | None, prefix: Path | None = None
) -> Diagnosis:
    """Return what a log tells, and with it what was found in the environment that it is of."""
    findings = findings_of(log) if log else []
    target = built_for(prefix) if prefix else ""
    if target:
        for place, finding in enumerate(findings):
            remedy = in_own_verbs(finding.remedy, target)
            findings[place] = replace(finding, remedy=remedy)
    if not result:
        return Diagnosis(name, tuple(findings))
    findings += result.findings
    return replace(result, findings=tuple(worst_first(findings)))


def diagnose_repository(folder: Path, project: Project) -> Diagnosis | None:
    """Return the findings about a folder's lock files; None if it has only specs."""
    files = read_repository(folder)
    if files:
        devices = read_devices(project.catalog)
        findings = judge(files, read_host(devices), devices)
        facts = {file.name: f"{len(file.packages)} packages" for file in files}
        return Diagnosis(str(folder), tuple(findings), facts)
    if (folder / "envs").is_dir():
        return None
    names = ", ".join(FORMATS["file"])
    raise UsageError(
        f"no lock or requirement file in {folder}", remedy=f"it reads {names}"
    )


def diagnose(
    project: Project, *, python: str | None, target: str | None
) -> tuple[Diagnosis, Host, Path | None]:
    """Return the findings about an environment, or about this machine where none is named."""
    devices = read_devices(project.catalog)
    host = read_host(devices)
    spec = load_target(project.specs, target) if target else None
    if python:
        prefix = locate(python, run)
    elif spec:
        prefix = require_current(project, spec.name).folder
    else:
        return diagnose_machine(host, devices), host, None
    lock = read_lock(project.lock(spec.name)) if spec else None
    diagnosis = diagnose_environment(
        prefix, host, devices, target=spec, lock=lock, home=home_folder()
    )
    return diagnosis, host, prefix
