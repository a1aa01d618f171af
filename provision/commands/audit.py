"""Known vulnerabilities of a lock, as pip-audit's service tells, and what its spec accepts."""

import datetime as dt
import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from provision.core.network import ca_bundle
from provision.core.process import Run, clean_environment
from provision.core.temporary import scratch
from provision.spec.model import Target


@dataclass(frozen=True, slots=True)
class Vulnerability:
    """A known vulnerability of a locked version, or a package that nobody could look up."""

    package: str
    version: str
    id: str  # the package's own name, where the service does not know it
    aliases: tuple[str, ...]
    fixed: tuple[str, ...]  # the versions that are without it
    state: str  # open; accepted, by the spec; or expired, which it was accepted until
    reason: str  # why the spec accepts it, or why it was not looked up

    @property
    def bad(self) -> bool:
        """Whether a person has to decide."""
        return self.state != "accepted"


@dataclass(frozen=True, slots=True)
class Audit:
    """What is known against a lock."""

    vulnerabilities: tuple[Vulnerability, ...] = ()
    not_looked_up: str = ""  # why nothing is known; "" where it was looked up


def audit(target: Target, versions: Mapping[str, str], run: Run) -> Audit:
    """Look up the known vulnerabilities of locked versions; changes nothing."""
    if not importlib.util.find_spec("pip_audit"):
        return Audit(not_looked_up="pip-audit is not installed beside provision")
    # A vendor's build of a release, such as 2.13.0+cpu, is known by the release's own version.
    lines = (f"{name}=={Version(version).public}\n" for name, version in versions.items())
    own = {name: value for name, value in os.environ.items() if name.startswith("PIP_AUDIT_")}
    own |= {"REQUESTS_CA_BUNDLE": bundle} if (bundle := ca_bundle()) else {}
    with scratch() as folder:
        (folder / "pins.txt").write_text("".join(lines), encoding="utf-8")
        done = run([sys.executable, "-I", "-m", "pip_audit", "--disable-pip", "--no-deps",
                    "--progress-spinner", "off", "--format", "json", "-r", "pins.txt"],
                   env=clean_environment(extra=own), cwd=folder)  # fmt: skip
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
        return Audit(not_looked_up=f"pip-audit: {last[0]}")
    if all("skip_reason" in package for package in found):
        return Audit(not_looked_up="the service knows none of the packages")
    today = dt.datetime.now(dt.UTC).date()
    every = (_judged(target, today, versions, package, vulnerability)
             for package in found for vulnerability in _of(package))  # fmt: skip
    return Audit(tuple(every))


def _of(package: dict[str, Any]) -> list[dict[str, Any]]:
    if why := package.get("skip_reason"):
        return [{"id": package["name"], "aliases": [], "fix_versions": [], "reason": why}]
    return list(package["vulns"])


def _judged(
    target: Target, today: dt.date, versions: Mapping[str, str],
    package: dict[str, Any], found: dict[str, Any],
) -> Vulnerability:  # fmt: skip
    ids = {found["id"], *found["aliases"]}
    entry = next((entry for entry in target.pip.accepted if entry.id in ids), None)
    state = "open" if not entry else "accepted" if today <= entry.until else "expired"
    name = package["name"]
    reason = f"{entry.reason} (until {entry.until})" if entry else found.get("reason", "")
    return Vulnerability(
        name, versions[name], found["id"], tuple(found["aliases"]), tuple(found["fix_versions"]),
        state, reason,
    )  # fmt: skip
