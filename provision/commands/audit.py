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
from provision.resolver.uv import PINS, write_lines
from provision.spec.model import Target

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Vulnerability:
    """A known vulnerability of a locked version, or a package that nobody could look up."""

    package: str
    version: str
    id: str  # the package's own name, where the service does not know it
    aliases: tuple[str, ...]
    fixed: tuple[str, ...]  # the versions that are without it
    state: str  # open; accepted, by the spec; or expired, which was accepted until a day
    reason: str  # why it is accepted, or was not looked up


def audit(
    target: Target, versions: Mapping[str, str], run: Run
) -> tuple[tuple[Vulnerability, ...], str]:
    """Return what is known against locked versions, and why nothing could be looked up, or ""."""
    if not importlib.util.find_spec("pip_audit"):
        return (), "pip-audit is not installed beside provision"
    own = {name: value for name, value in os.environ.items() if name.startswith("PIP_AUDIT_")}
    own |= {"REQUESTS_CA_BUNDLE": bundle} if (bundle := ca_bundle()) else {}
    # A vendor's build of a release, such as 2.13.0+cpu, is known by the release's own version.
    pins = [f"{name}=={Version(version).public}" for name, version in versions.items()]
    with scratch() as folder:
        write_lines(folder, {PINS: pins})
        done = run([sys.executable, "-I", "-m", "pip_audit", "--disable-pip", "--no-deps", "-f",
                    "json", "--progress-spinner", "off", "-r", PINS],
                   env=clean_environment(extra=own), cwd=folder)  # fmt: skip
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return (), f"pip-audit ended with {done.returncode}: {done.stderr.strip()[-200:]}"
    if all("skip_reason" in package for package in found):
        return (), "the service knows none of the packages"
    return tuple(_judged(target, versions, package, vulnerability) for package in found
                 for vulnerability in package.get("vulns", [package])), ""  # fmt: skip


def _judged(
    target: Target, versions: Mapping[str, str], package: Data, found: Data
) -> Vulnerability:
    name, known = package["name"], found.get("id", package["name"])
    aliases, fixed = tuple(found.get("aliases", ())), tuple(found.get("fix_versions", ()))
    entry = next((each for each in target.pip.accepted if each.id in {known, *aliases}), None)
    state, reason = "open", str(found.get("skip_reason", ""))
    if entry:
        state = "accepted" if dt.datetime.now(dt.UTC).date() <= entry.until else "expired"
        reason = f"{entry.reason} (until {entry.until})"
    return Vulnerability(name, versions[name], known, aliases, fixed, state, reason)
