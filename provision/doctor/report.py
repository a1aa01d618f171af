"""A diagnosis as one text to paste into an issue: what decides, and nothing that is private."""

import os
import platform
import re
from pathlib import Path

from provision import __version__
from provision.core.findings import Diagnosis
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


def report(
    result: Diagnosis,
    host: Host | None = None,
    prefix: Path | None = None,
    log: Log | None = None,
) -> str:
    """Return the facts of a machine and of an environment, the findings, and a log's excerpt."""
    env = read_environment(prefix) if prefix else None
    facts = (
        (_machine(host) if host else {})
        | result.facts
        | (_environment(env) if env else {})
    )
    lines = [
        f"provision {__version__}: doctor",
        *(f"{name}: {facts[name]}" for name in facts),
    ]
    for found in result.findings:
        evidence = [
            f"  {line}" for text in found.evidence for line in text.splitlines()
        ]
        lines += ["", f"{found.level}: {found.symptom} [{found.code}]", *evidence]
        lines += [f"  cause: {found.cause}", f"  remedy: {found.remedy}"]
    lines += [] if result.findings else ["", "no known fault was found"]
    if log and (telling := excerpt(log, result.findings)):
        lines += ["", _ASKED.format(count=plural(log.raw[-1].number, "line")), *telling]
    return private("\n".join(lines), env.prefix if env else None) + "\n"


def private(text: str, prefix: Path | None = None) -> str:
    """Return a text for somebody else: harmless, and without what is private."""
    # Before a part of a password is taken for something else.
    return anonymize(harmless(text), prefix, this_user({}).name)


def _machine(host: Host) -> dict[str, str]:
    named = re.search(
        r'^PRETTY_NAME="?([^"\n]+)', read_text(Path("/etc/os-release")), re.MULTILINE
    )
    system = named[1] if named else f"{platform.system()} {platform.release()}"
    model = re.search(r"model name\s*: (.+)", read_text(Path("/proc/cpuinfo")))
    brief = re.compile(
        r"[\w.,:*;!-]{0,40}"
    )  # a value that is long, or a path, is private
    variables = (
        f"{n}={v}" if brief.fullmatch(v) else n for n, v in host.variables.items()
    )
    return {
        "system": ", ".join(
            (system, " ".join(platform.libc_ver()), *host.surroundings)
        ),
        "processor": f"{model[1] if model else platform.machine()}, {os.cpu_count()} cores",
        "variables": ", ".join(variables) or "none that matter",
    }


def _environment(env: Environment) -> dict[str, str]:
    """Return who installed the environment, and the packages that torch needs or that need it."""
    kind = "virtual environment" if env.virtual else "conda or system"
    torch = env.get("torch")
    near = {*STACK, *map(name_of, torch.requires if torch else ())}
    near |= {dist.name for dist in env.dists if "torch" in map(name_of, dist.requires)}
    near -= set(STACK)
    return {
        "Python": f"{env.markers['python_full_version']}, {kind}",
        "installed by": ", ".join(sorted({dist.installer for dist in env.dists})),
        "near torch": ", ".join(str(d) for d in env.dists if d.name in near)
        or "nothing else",
    }
