"""Rules on the versions that installed packages require, and helpers to read requirements."""

import re
from collections.abc import Iterator

from packaging.requirements import Requirement

from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.data import data
from provision.doctor.environment import Environment
from provision.environment.installed import (
    InstalledDistribution,
    distribution_name,
    name_of,
)
from provision.environment.reading import list_names, read_text

_Asked = dict[
    str, dict[InstalledDistribution, str]
]  # the pin of each package that asks, by name


def numpy2(context: DoctorContext) -> Findings:
    """A package was compiled for NumPy 1 and does not work with the installed NumPy 2."""
    numpy = context.env.get("numpy")
    if numpy is None or not numpy.parsed or numpy.parsed.major < 2:
        return
    tables = data("packages")
    first = tables["numpy2"] | (tables["numpy2-windows"] if context.env.windows else {})
    installed = filter(None, map(context.env.get, first))
    if old := [dist for dist in installed if dist.is_before(first[dist.name])]:
        needs = [f"{dist}: NumPy 2 needs {first[dist.name]}" for dist in old[:5]]
        evidence, names = (f"{numpy} is installed", *needs), ", ".join(map(str, old))
        yield case(
            "numpy2", evidence, first=old[0], numpy=numpy, names=names, env=context.env
        )


def old_protobuf(context: DoctorContext) -> Findings:
    """Modules that an old protoc generated cannot be imported with the compiled protobuf."""
    pure = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION" in context.host.variables
    upb = "" if pure else " ".join(list_names(context.env.site / "google/_upb"))
    # What does not require protobuf has such modules for others, who may not use them.
    asks = re.compile(r"protobuf\b(?!-)(?!.*extra)").match
    using = context.env.dists if re.search(r"\.(so|pyd)\b", upb) else []
    if old := [
        str(d) for d in using if any(map(asks, d.requires)) and _ages(d) == {"old"}
    ]:
        yield case("old-protobuf", old[:5], names=", ".join(old), env=context.env)


def _ages(dist: InstalledDistribution) -> set[str]:
    # Some packages have one set of modules for each protobuf.
    code = data("packages")["generated"]
    texts = (
        read_text(dist.folder.parent / e.path) for e in dist.entries if "_pb2" in e.path
    )
    return {age for text in texts for age in code if re.search(code[age], text)}


@unless(
    "torch-companion-mismatch",
    "triton-missing-or-incompatible",
    "half-installed",
    "numpy2-abi",
)
def unmet_requirements(context: DoctorContext) -> Findings:
    """An installed package requires another package, or another version, than is installed."""
    overrides = context.target.pip.overrides if context.target else ()
    overridden = {name_of(override.requirement) for override in overrides}
    kinds, absent = data("packages")["unmet"], _Asked()
    broken: dict[str, dict[str, str]] = {name: {} for name in kinds}
    for dist in context.env.dists:
        for wanted in requirements(dist, context.env):
            found, pin = (
                context.env.get(wanted.name),
                f"'{wanted.name}{wanted.specifier}'",
            )
            name = next(
                n for n, starts in kinds.items() if wanted.name.startswith((*starts,))
            )
            if found is None and name == "requirement-unmet":
                absent.setdefault(wanted.name, {})[dist] = pin
            elif (
                found
                and found.parsed
                and not (wanted.name in overridden or meets(found, wanted))
            ):
                broken[name][f"{dist} requires {wanted}; it is {found.version}"] = pin
    broken["requirement-missing"] |= dict(_absent(absent, context)) if absent else {}
    for name, pins in broken.items():
        if pins:
            yield case(
                name,
                [*pins][:5],
                pins=" ".join(sorted({*pins.values()})),
                env=context.env,
            )


def _absent(absent: _Asked, context: DoctorContext) -> Iterator[tuple[str, str]]:
    # What asks for each of which nothing is there, not even unlisted or under another name; pins.
    env, tables = context.env, data("packages")
    lines = (
        *(n for _, n in env.pth),
        *context.host.variables.get("PYTHONPATH", "").split(":"),
    )
    folders = {dist.folder.parent for dist in env.dists} | {
        env.site / line for line in lines
    }
    listed = {n for folder in folders for n in list_names(folder)} | {*env.user_site}
    known = {
        distribution_name(part) for n in listed for part in (n, n.partition(".")[0])
    }
    for name, asking in absent.items() if context.target is None else ():
        module = distribution_name(tables["provides"].get(name, name).replace("-", "_"))
        by = [
            str(d) for d in asking if d.installer not in tables["files"]["distributors"]
        ][:4]
        if by and known.isdisjoint((name, module)) and name not in tables["spare"]:
            pins = " ".join(dict.fromkeys(asking.values()))
            yield f"{name} is not installed; required by {', '.join(by)}", pins


def pinned(dist: InstalledDistribution, name: str, *, extras: bool = True) -> set[str]:
    """Return the versions of ``name`` that a distribution pins exactly, in any of its extras."""
    parsed = filter(
        None, (requirement(line) for line in dist.requires if name in line.lower())
    )
    wanted = [
        w for w in parsed if w.name == name and (extras or "extra" not in str(w.marker))
    ]
    return {
        spec.version for w in wanted for spec in w.specifier if spec.operator == "=="
    }


def requirements(
    dist: InstalledDistribution, env: Environment, extra: str = ""
) -> Iterator[Requirement]:
    """Yield the requirements of a distribution that apply to this platform and Python."""
    marker_values = {**env.markers, "extra": extra}
    for line in dist.requires:
        # Most lines are of extras, and slow to parse.
        wanted = (
            requirement(line)
            if extra or "extra ==" not in line or " or " in line
            else None
        )
        if wanted and (wanted.marker is None or wanted.marker.evaluate(marker_values)):
            yield wanted


def meets(dist: InstalledDistribution, wanted: Requirement) -> bool:
    """Whether the version of a distribution satisfies a requirement."""
    return dist.parsed is not None and wanted.specifier.contains(
        dist.parsed, prereleases=True
    )


def requirement(line: str) -> Requirement | None:
    """Return a requirement with its name normalised, None if it is invalid."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415
    from packaging.utils import canonicalize_name  # noqa: PLC0415

    try:
        wanted = Requirement(line)
    except InvalidRequirement:
        return None
    wanted.name = str(canonicalize_name(wanted.name))
    return wanted
