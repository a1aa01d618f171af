"""Rules on the interpreter, and on code that it imports from outside the environment."""

import re
from contextlib import suppress

from provision.core.findings import Level
from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.data import data
from provision.doctor.elf import BROKEN, Elf
from provision.doctor.rules.requirements import meets, requirements
from provision.environment.installed import EggInfo, InstalledDistribution
from provision.environment.reading import list_names


def interpreter(context: DoctorContext) -> Findings:
    """The interpreter of the environment does not start, or is of another version by now."""
    if why := context.env.broken:
        name = (
            "interpreter-gone" if why.endswith(" is gone") else "interpreter-replaced"
        )
        yield case(name, (why,), env=context.env)


def incomplete_python(context: DoctorContext) -> Findings:
    """The interpreter was built without parts of its standard library."""
    env, lib = context.env, context.env.program.parent.parent / "lib"
    there = {
        n.partition(".")[0] for n in list_names(lib / f"python{env.python}/lib-dynload")
    }
    absent = {*data("packages")["stdlib"]} - there if "_json" in there else ()
    with suppress(*BROKEN):  # Debian has zlib in the program
        own = [
            Elf(path) for path in (env.program, *lib.glob("libpython3*.so*")) if absent
        ]
        names = [
            n
            for n in absent
            if not any(elf.defines(f"PyInit_{n}".encode()) for elf in own)
        ]
        if names:
            # torch itself loads two of them, torchvision bz2 and lzma; else few programs do.
            level = Level.WARNING if env.get("torchvision") else Level.NOTE
            level = Level.ERROR if {"_ctypes", "zlib"}.intersection(names) else level
            yield case("incomplete-python", sorted(names), level=level, env=env)


def half_installed(context: DoctorContext) -> Findings:
    """A distribution is installed in part, or twice: an installation was interrupted."""
    evidence = [f"leftover {context.env.site / name}" for name in context.env.leftovers]
    for name, each in context.env.distributions.items():
        several = [dist for dist in each if not dist.folder.name.startswith("~")]
        if len(several) > 1:
            versions = ", ".join(dist.folder.name for dist in several)
            evidence.append(f"{name} is installed more than once: {versions}")
        evidence += [line for dist in several if (line := _incomplete(dist))]
    if evidence:
        names = sorted(
            {line.split()[0] for line in evidence if not line.startswith("leftover")}
        )
        name = "half-installed" if names else "leftovers"
        yield case(name, evidence[:5], what=" ".join(names), env=context.env)


def _incomplete(dist: InstalledDistribution) -> str:
    # Debian and conda install some packages without RECORD; pip and uv never do.
    recorded = dist.entries or dist.installer not in {"pip", "uv"}
    if isinstance(dist, EggInfo) or (recorded and (dist.folder / "METADATA").is_file()):
        return ""
    return f"{dist.name} has no readable METADATA or RECORD in {dist.folder}"


def other_python(context: DoctorContext) -> Findings:
    """Compiled packages are for another Python version, system or processor."""
    own = context.env.python
    built = ((dist, _built_for(dist)) for dist in context.env.dists if own)
    wrong = [(dist, minors) for dist, minors in built if minors and own not in minors]
    foreign = [
        f"{dist} was built for Python {', '.join(sorted(minors))}"
        for dist, minors in wrong
    ]
    table, key = (
        data("packages")["foreign_tags"],
        "{platform_system}-{platform_machine}",
    )
    other, module = (
        re.compile(table[k]) for k in (key.format(**context.env.markers), "module")
    )
    signs = (
        (dist, dist.tags or [e.path for e in dist.entries if module.search(e.path)])
        for dist in context.env.dists
    )
    alien = [
        (dist, names[0])
        for dist, names in signs
        if names and all(map(other.search, names))
    ]
    foreign += [f"{dist} was built for {name}" for dist, name in alien]
    if foreign:
        yield case("other-python", foreign[:30], own=own, env=context.env)


def _built_for(dist: InstalledDistribution) -> frozenset[str]:
    """Return the Python versions that its modules are for; none for stable-ABI and pure wheels."""
    if any("abi3" in tag for tag in dist.tags):
        return frozenset()  # torchao names a module of the stable ABI after one Python
    tagged = (re.match(r"cp3(\d+)-cp3\d+-", tag) for tag in dist.tags)
    return dist.compiled_for or frozenset(f"3.{match[1]}" for match in tagged if match)


def shadowed(context: DoctorContext) -> Findings:
    """PYTHONPATH, PYTHONHOME or a .pth file makes Python import packages from elsewhere."""
    if home := context.host.variables.get("PYTHONHOME"):
        yield case("shadowed", (f"PYTHONHOME={home}",), variable="PYTHONHOME")
    for who, places in context.elsewhere.items():
        name = "shadowed" if who == "PYTHONPATH" else "shadowed-by-file"
        yield case(name, [f"{who}: {place}" for place in places[:5]], variable=who)
    if not context.elsewhere and (path := context.host.variables.get("PYTHONPATH")):
        yield case(
            "shadowed", (f"PYTHONPATH={path}",), level=Level.NOTE, variable="PYTHONPATH"
        )


def user_site(context: DoctorContext) -> Findings:
    """Packages of the per-user site-packages are imported instead of the environment's."""
    if context.env.virtual or context.host.variables.get("PYTHONNOUSERSITE"):
        return
    env, user = (
        context.env,
        {name: dists[0] for name, dists in context.env.user_site.items()},
    )
    both = {name: own for name in user if (own := env.get(name))}
    seen = {dist.name: dist for dist in env.dists} | user if both else {}
    asked = [
        (d, w) for d in seen.values() for w in requirements(d, env) if w.name in both
    ]
    why = {
        w.name: f"; {d} requires {w}"
        for d, w in asked
        if user[w.name].parsed and meets(both[w.name], w) and not meets(user[w.name], w)
    }
    stack = [
        n
        for n in data("packages")["stack"]
        if n in both and str(both[n]) != str(user[n])
    ]
    level = Level.ERROR if why else Level.WARNING if stack and env.torch else Level.NOTE
    if names := [*dict.fromkeys((*why, *stack, *both))][:5]:
        shown = [f"per-user {user[n]} hides {both[n]}{why.get(n, '')}" for n in names]
        yield case("user-site", shown, level=level, names=" ".join(names))


def startup(context: DoctorContext) -> Findings:
    """A .pth file or a sitecustomize module runs code at every start of Python."""
    bad = {n: None for n, line in context.env.pth if "\0" in line or "\ufffd" in line}
    if (
        bad and not context.env.windows
    ):  # whose paths may be in the encoding of the system
        yield case(
            "unreadable-pth",
            [f"{n} is not text" for n in bad][:5],
            site=context.env.site,
        )
    runs = [
        f"{n}: {line[:120]}" for n, line in context.env.pth if line.startswith("import")
    ]
    runs += [
        f"{name} in {context.env.site} runs at every start"
        for name in context.env.customize
    ]
    if runs:
        yield case("code-at-start", runs[:5])


@unless("wrong-interpreter-site-packages")
def no_wheels(context: DoctorContext) -> Findings:
    """A package, or the target, is for another version of Python."""
    own = context.env.python
    if not own:
        return
    refused = (d for d in context.env.dists if not _takes(d, own))
    refusing = [f"{dist} requires Python {dist.requires_python}" for dist in refused]
    target, newest = context.target, data("packages")["newest_python"]
    if target is not None and target.python != own:
        refusing = [f"target {target.name} is for Python {target.python}"]
    elif context.env.torch is None and int(own.partition(".")[2] or 0) > newest:
        refusing = refusing or [f"torch has no wheels for Python {own} yet"]
    if refusing:
        yield case("python-unsupported", refusing[:5], own=own)


def _takes(dist: InstalledDistribution, python: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415

    try:
        allowed = SpecifierSet(dist.requires_python)
        return any(allowed.contains(f"{python}.{n}", prereleases=True) for n in (99, 0))
    except InvalidSpecifier:
        return True
