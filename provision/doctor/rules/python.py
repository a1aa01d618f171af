"""Rules on the interpreter, and on code that it imports from outside the environment."""

import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from provision.core.findings import Level
from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.environment import STACK
from provision.environment.installed import EggInfo, InstalledDistribution

_NEWEST_PYTHON = 14  # the newest minor that torch 2.14's wheels are built for


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
    names: set[str] = set()
    evidence: list[str] = []
    for name, several in env.distributions.items():
        whole = [dist for dist in several if not dist.folder.name.startswith("~")]
        if len(whole) > 1:
            versions = ", ".join(dist.folder.name for dist in whole)
            evidence.append(f"{name} is installed more than once: {versions}")
            names.add(name)
        for dist in whole:
            if _is_incomplete(dist):
                what = "has no readable METADATA or RECORD in"
                evidence.append(f"{dist.name} {what} {dist.folder}")
                names.add(dist.name)
    if evidence:
        what = " ".join(sorted(names))
        yield case("half-installed", [*leftovers, *evidence][:5], what=what, env=env)
    elif leftovers:
        yield case("leftovers", leftovers[:5])


def _is_incomplete(dist: InstalledDistribution) -> bool:
    # Debian and conda install some packages without RECORD; pip and uv never do.
    recorded = dist.entries or dist.installer not in {"pip", "uv"}
    readable = recorded and (dist.folder / "METADATA").is_file()
    return not (isinstance(dist, EggInfo) or readable)


def other_python(context: DoctorContext) -> Findings:
    """Compiled packages are for another version of Python, or for another system."""
    env = context.env
    evidence = []
    for dist in env.dists:
        pythons = _built_for(dist)
        if env.python and pythons and env.python not in pythons:
            minors = ", ".join(sorted(pythons))
            evidence.append(f"{dist} was built for Python {minors}")
        elif _is_of_other_system(dist, windows=env.windows):
            evidence.append(f"{dist} was built for {dist.tags[0]}")
    if evidence:
        yield case("other-python", evidence[:5], own=env.python, env=env)


def _built_for(dist: InstalledDistribution) -> frozenset[str]:
    """Return the Python versions that its modules are for; none for stable-ABI and pure wheels."""
    if any("abi3" in tag for tag in dist.tags):
        return frozenset()  # torchao names a module of the stable ABI after one Python
    tagged = [re.match(r"cp3(\d+)-cp3\d+-", tag) for tag in dist.tags]
    return dist.compiled_for or frozenset(f"3.{match[1]}" for match in tagged if match)


def _is_of_other_system(dist: InstalledDistribution, *, windows: bool) -> bool:
    """Whether all tags of its wheel are for Windows in an environment of Linux, or the reverse."""
    other = r"-(many|musl)?linux\w*$|-macosx\w*$" if windows else r"-win\w*$"
    return bool(dist.tags) and all(re.search(other, tag) for tag in dist.tags)


def shadowed(context: DoctorContext) -> Findings:
    """PYTHONPATH, PYTHONHOME or a .pth file makes Python import packages from elsewhere."""
    variables = context.host.variables
    if home := variables.get("PYTHONHOME"):
        yield case("shadowed", (f"PYTHONHOME={home}",), variable="PYTHONHOME")
    for source, places in context.elsewhere.items():
        name = "shadowed" if source == "PYTHONPATH" else "shadowed-by-file"
        evidence = [f"{source}: {place}" for place in places[:5]]
        yield case(name, evidence, variable=source)
    path = variables.get("PYTHONPATH")
    if path and not context.elsewhere:
        evidence = [f"PYTHONPATH={path}"]
        yield case("shadowed", evidence, level=Level.NOTE, variable="PYTHONPATH")


def user_site(context: DoctorContext) -> Findings:
    """Packages of the per-user site-packages are imported instead of the environment's."""
    env = context.env
    if env.virtual or context.host.variables.get("PYTHONNOUSERSITE"):
        return
    evidence, names = [], []
    for name in STACK:
        hidden = env.get(name)
        user = env.user_site.get(name)
        if hidden and user and str(hidden) != str(user[0]):
            evidence.append(f"per-user {user[0]} hides {hidden}")
            names.append(name)
    if evidence:
        yield case("user-site", evidence[:5], names=" ".join(names))


@unless("wrong-interpreter-site-packages")
def no_wheels(context: DoctorContext) -> Findings:
    """A package, or the target, is for another version of Python."""
    env, target = context.env, context.target
    if not env.python:
        return
    evidence = [
        f"{dist} requires Python {dist.requires_python}"
        for dist in env.dists
        if not _takes(dist, env.python)
    ]
    if target is not None and target.python != env.python:
        evidence = [f"target {target.name} is for Python {target.python}"]
    elif env.torch is None and int(env.python.partition(".")[2] or 0) > _NEWEST_PYTHON:
        evidence.append(f"torch has no wheels for Python {env.python} yet")
    if evidence:
        yield case("python-unsupported", evidence[:5], own=env.python)


def _takes(dist: InstalledDistribution, python: str) -> bool:
    try:
        allowed = SpecifierSet(dist.requires_python)
    except InvalidSpecifier:
        return True
    return any(
        allowed.contains(f"{python}.{patch}", prereleases=True) for patch in (99, 0)
    )
