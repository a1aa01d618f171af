"""A diagnosis as one text to paste into an issue: what decides, and nothing that is private."""

import os
import platform
import re
from pathlib import Path

from provision import __version__
from provision.core.findings import Diagnosis, Finding
from provision.core.privacy import anonymize
from provision.core.text import harmless, plural
from provision.doctor.environment import STACK, Environment, read_environment
from provision.doctor.excerpt import excerpt
from provision.doctor.reading import Log
from provision.environment.installed import name_of
from provision.environment.reading import read_text
from provision.host.model import Host
from provision.host.permissions import this_user

_ASKED = (
    "The question is what is wrong, and what mends it. The findings come from rules, which can be"
    " wrong; the log decides. Of its {count} those that tell most:"
)
_BRIEF = re.compile(r"[\w.,:*;!-]{0,40}")  # a value that is long, or a path, is private


def report(
    result: Diagnosis,
    host: Host | None = None,
    prefix: Path | None = None,
    log: Log | None = None,
) -> str:
    """Return the facts of a machine and of an environment, the findings, and a log's excerpt."""
    facts = dict[str, str]()
    if host:
        facts |= _machine(host)
    facts |= result.facts
    if prefix:
        env = read_environment(prefix)
        prefix = env.prefix
        facts |= _environment(env)
    lines = [f"provision {__version__}: doctor"]
    lines += [f"{name}: {value}" for name, value in facts.items()]
    for finding in result.findings:
        lines += _finding(finding)
    if not result.findings:
        lines += ["", "no known problem was found"]
    telling = excerpt(log, result.findings) if log else []
    if log and telling:
        count = plural(log.raw[-1].number, "line")
        lines += ["", _ASKED.format(count=count), *telling]
    return private("\n".join(lines), prefix) + "\n"


def _finding(finding: Finding) -> list[str]:
    evidence = "\n".join(finding.evidence).splitlines()
    return [
        "",
        f"{finding.level}: {finding.symptom} [{finding.code}]",
        *(f"  {line}" for line in evidence),
        f"  cause: {finding.cause}",
        f"  remedy: {finding.remedy}",
    ]


def private(text: str, prefix: Path | None = None) -> str:
    """Return a text for somebody else: harmless, and without what is private."""
    # Before a part of a password is taken for something else.
    return anonymize(harmless(text), prefix, this_user({}).name)


def _machine(host: Host) -> dict[str, str]:
    release = read_text(Path("/etc/os-release"))
    name = re.search(r'^PRETTY_NAME="?([^"\n]+)', release, re.MULTILINE)
    system = f"{platform.system()} {platform.release()}"
    if name:
        system = name[1]
    model = re.search(r"model name\s*: (.+)", read_text(Path("/proc/cpuinfo")))
    processor = model[1] if model else platform.machine()
    variables = []
    for variable, value in host.variables.items():
        if _BRIEF.fullmatch(value):
            variables.append(f"{variable}={value}")
        else:
            variables.append(variable)
    libc = " ".join(platform.libc_ver())
    return {
        "system": ", ".join((system, libc, *host.surroundings)),
        "processor": f"{processor}, {os.cpu_count()} cores",
        "variables": ", ".join(variables) or "none that matter",
    }


def _environment(env: Environment) -> dict[str, str]:
    """Return who installed the environment, and the packages that torch needs or that need it."""
    kind = "virtual environment" if env.virtual else "conda or system"
    torch = env.get("torch")
    required = set[str]()
    if torch:
        required.update(map(name_of, torch.requires))
    near = []
    for dist in env.dists:
        needs_torch = "torch" in map(name_of, dist.requires)
        if (needs_torch or dist.name in required) and dist.name not in STACK:
            near.append(str(dist))
    return {
        "Python": f"{env.markers['python_full_version']}, {kind}",
        "installed by": ", ".join(sorted({dist.installer for dist in env.dists})),
        "near torch": ", ".join(near) or "nothing else",
    }
