"""Rules on the interpreter, packages installed in part or twice, and code from elsewhere."""

import re

from provision.core.findings import Level
from provision.doctor.context import DoctorContext, Findings, case
from provision.doctor.environment import STACK, Environment
from provision.environment.installed import InstalledDistribution


def interpreter(context: DoctorContext) -> Findings:
    """The interpreter of the environment does not start, or is of another version by now."""
    reason = context.env.broken
    if reason.endswith(" is gone"):
        yield case("interpreter-gone", (reason,), env=context.env)
    elif reason:
        yield case("interpreter-replaced", (reason,), env=context.env)


def half_installed(context: DoctorContext) -> Findings:
    """A distribution is installed in part, or twice: an installation was interrupted."""
    env = context.env
    leftovers = [f"leftover {env.site / name}" for name in env.leftovers]
    evidence = _mixed_torch(env)
    for name, dists in env.distributions.items():
        folders = []
        for dist in dists:
            if not dist.folder.name.startswith("~"):
                folders.append(dist.folder)
        if len(folders) > 1:
            names = ", ".join(folder.name for folder in folders)
            evidence[name] = f"{name} is installed more than once: {names}"
        elif folders and _is_incomplete(dists[0]):
            what = "has no readable METADATA or RECORD in"
            evidence[name] = f"{name} {what} {folders[0]}"
    if evidence:
        lines = [*leftovers, *evidence.values()][:5]
        yield case("half-installed", lines, what=" ".join(sorted(evidence)), env=env)
    elif leftovers:
        yield case("leftovers", leftovers[:5], env=env)


def _mixed_torch(env: Environment) -> dict[str, str]:
    """Return, by its name, that torch's files are of another release than its metadata."""
    torch, dist = env.torch, env.get("torch")
    if torch is None or dist is None or dist.folder.parent != env.site:
        return {}
    minor = ".".join(torch.version.split(".")[:2])
    if not (dist.parsed and torch.version) or dist.minor == minor:
        return {}
    return {"torch": f"{dist} is installed, and torch/version.py is of {torch}"}


def _is_incomplete(dist: InstalledDistribution) -> bool:
    if dist.folder.suffix != ".dist-info":
        return False
    # Debian and conda install some packages without RECORD; pip and uv never do.
    recorded = dist.entries or dist.installer not in {"pip", "uv"}
    return not (recorded and (dist.folder / "METADATA").is_file())


def other_python(context: DoctorContext) -> Findings:
    """Compiled packages are for another version of Python."""
    env = context.env
    evidence = []
    for dist in env.dists:
        pythons = _built_for(dist)
        if env.python and pythons and env.python not in pythons:
            evidence.append(f"{dist} was built for Python {', '.join(sorted(pythons))}")
    if evidence:
        yield case("other-python", evidence[:5], own=env.python, env=env)


def _built_for(dist: InstalledDistribution) -> frozenset[str]:
    """Return the Python versions that its modules are for; none for stable-ABI and pure wheels."""
    if any("abi3" in tag for tag in dist.tags):
        return frozenset()  # torchao names a module of the stable ABI after one Python
    if dist.compiled_for:
        return dist.compiled_for
    minors = re.findall(r"\bcp3(\d+)-cp3\d+-", " ".join(dist.tags))
    return frozenset(f"3.{minor}" for minor in minors)


def shadowed(context: DoctorContext) -> Findings:
    """PYTHONPATH or PYTHONHOME makes Python import packages from elsewhere."""
    for variable in ("PYTHONHOME", "PYTHONPATH"):
        value = context.host.variables.get(variable)
        if not value:
            continue
        evidence = [f"{variable}={value}"]
        level = Level.ERROR
        if variable == "PYTHONPATH" and context.shadows:
            evidence = list(context.shadows[:5])
        elif variable == "PYTHONPATH":
            level = Level.NOTE
        yield case("shadowed", evidence, level=level, variable=variable)


def user_site(context: DoctorContext) -> Findings:
    """Packages of the per-user site-packages are imported instead of the environment's."""
    env = context.env
    if env.virtual or context.host.variables.get("PYTHONNOUSERSITE"):
        return
    evidence = {}
    for name in STACK:
        hidden = env.get(name)
        users = env.user_site.get(name)
        if hidden and users and str(hidden) != str(users[0]):
            evidence[name] = f"per-user {users[0]} hides {hidden}"
    if evidence:
        lines = [*evidence.values()][:5]
        yield case("user-site", lines, names=" ".join(evidence))
