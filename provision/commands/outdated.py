"""The verb ``outdated``: what is newer than a lock, and which vulnerabilities pip-audit finds in it."""

import datetime as dt
import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from packaging.requirements import Requirement
from packaging.version import Version

from provision.core.errors import ProvisionError
from provision.core.network import session
from provision.core.process import Run, clean_environment
from provision.core.program import uv_program
from provision.core.project import Project
from provision.core.temporary import scratch
from provision.lockfile.pip import read_lock
from provision.resolver.resolver import Resolver
from provision.resolver.uv import PINS, write_lines
from provision.spec.model import Target, requirement_name

State = Literal["open", "accepted", "expired"]
_OPTIONS = ("--disable-pip", "--no-deps", "-f", "json", "--progress-spinner", "off")


@dataclass(frozen=True, slots=True)
class Newer:
    """A requirement of a spec that has a newer version on its index."""

    name: str
    """The distribution."""
    locked: str
    """Its version in the lock."""
    newest: str
    """The newest version that the target's platform and Python can install."""
    uploaded: str
    """The day of its upload; 1970-01-01 for a file of a catalog."""
    index: str
    """The index that it comes from: a catalog's name, or `default`."""
    requirement: str
    """As the project writes it."""


@dataclass(frozen=True, slots=True)
class Vulnerability:
    """A known vulnerability of a locked version, or a package that nobody could look up."""

    package: str
    """The distribution."""
    version: str
    """Its version in the lock."""
    id: str
    """The package's own name, where the service does not know it."""
    aliases: tuple[str, ...]
    """Other ids of it."""
    fixed: tuple[str, ...]
    """The versions that fix it."""
    state: State
    """Accepted by the spec; or expired, which was accepted until a day."""
    reason: str
    """Why it is accepted, or was not looked up."""


@dataclass(frozen=True, slots=True)
class Outdated:
    """What is newer than the lock of a target, and what is known against it."""

    target: str
    """Name of the target."""
    newer: tuple[Newer, ...] | None = None
    """The requirements with a newer version; null with `--audit`."""
    packages: int = 0
    """How many packages the lock has."""
    vulnerabilities: tuple[Vulnerability, ...] = ()
    """Known vulnerabilities of the locked versions."""
    not_looked_up: str = ""
    """Why they were not looked up; empty if they were."""
    error: ProvisionError | None = None
    """Why it could not be compared."""

    @property
    def bad(self) -> bool:
        """Whether a vulnerability is open; what is newer is no error."""
        return any(entry.state != "accepted" for entry in self.vulnerabilities)


def outdated(
    target: Target, project: Project, resolver: Resolver, *, newer: bool
) -> Outdated:
    """Compare the lock of a target with its indexes, unless only the audit is requested."""
    try:
        versions = read_lock(project.lock(target.name)).versions
        requirements = _newer(target, versions, resolver) if newer else None
    except ProvisionError as error:
        return Outdated(target.name, error=error)
    packages, reason = _audit(versions, resolver.run)
    vulnerabilities = []
    for package in packages:
        # What could not be looked up has no list, and is a separate entry.
        for entry in package.get("vulns", [package]):
            name = package["name"]
            vulnerabilities.append(_vulnerability(target, name, versions[name], entry))
    return Outdated(
        target.name, requirements, len(versions), tuple(vulnerabilities), reason
    )


def _newer(
    target: Target, versions: Mapping[str, str], resolver: Resolver
) -> tuple[Newer, ...]:
    """Return the requirements with a newer version that this target can install."""
    requirements = {}
    for text in target.pip.requirements:
        name = requirement_name(text)
        requirement = Requirement(text)
        if requirement.url or not target.applies(requirement):
            continue
        if name in versions:
            requirements[name] = text
    # Without the cut-off, and without the conda layer, which is slow to resolve.
    today = dt.datetime.now(dt.UTC).date()
    open_ended = target.with_pip(files=(), cutoff=today, cutoffs={})
    open_ended = open_ended.model_copy(update={"conda": None})
    newer = []
    newest = resolver.newest(open_ended, list(requirements))
    for name, (version, day) in newest.items():
        locked = versions[name]
        if Version(version) > Version(locked):
            index = target.pip.index_of(name)
            text = requirements[name]
            newer.append(Newer(name, locked, version, str(day), index, text))
    return tuple(newer)


def _audit(versions: Mapping[str, str], run: Run) -> tuple[list[dict[str, Any]], str]:
    """Return what pip-audit says of each version, or why it says nothing."""
    if not importlib.util.find_spec("pip_audit"):
        command = f"{uv_program()} pip install --python {sys.executable} pip-audit"
        return [], f"pip-audit is not installed beside provision: `{command}`"
    settings = {n: v for n, v in os.environ.items() if n.startswith("PIP_AUDIT_")}
    # A vendor's build, such as 2.13.0+cpu, is known by the release's own version.
    pins = [f"{name}=={Version(value).public}" for name, value in versions.items()]
    with session() as shared, scratch() as folder:
        if shared.verify is not True:
            settings["REQUESTS_CA_BUNDLE"] = str(shared.verify)
        write_lines(folder, {PINS: pins})
        argv = [sys.executable, "-I", "-m", "pip_audit", *_OPTIONS, "-r", PINS]
        done = run(argv, env=clean_environment(extra=settings), cwd=folder)
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        tail = done.stderr[-200:].strip()
        return [], f"pip-audit ended with {done.returncode}: {tail}"
    if all("skip_reason" in package for package in packages):
        return [], "the service knows none of the packages"
    return packages, ""


def _vulnerability(
    target: Target, package: str, version: str, entry: Mapping[str, Any]
) -> Vulnerability:
    """Return one entry of pip-audit, and whether the spec accepts it today."""
    identifier = str(entry.get("id", package))
    aliases = tuple(entry.get("aliases", ()))
    fixed = tuple(entry.get("fix_versions", ()))
    state: State = "open"
    reason = str(entry.get("skip_reason", ""))
    for accepted in target.pip.accepted:
        if accepted.id in {identifier, *aliases}:
            is_valid = dt.datetime.now(dt.UTC).date() <= accepted.until
            state = "accepted" if is_valid else "expired"
            reason = f"{accepted.reason} (until {accepted.until})"
    return Vulnerability(package, version, identifier, aliases, fixed, state, reason)
