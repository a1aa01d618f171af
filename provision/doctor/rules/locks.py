"""Rules on lock and requirement files: functions of a file and of what it would install."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from provision.catalog.devices import Devices
from provision.core.findings import Finding, worst_first
from provision.core.platforms import PLATFORMS
from provision.doctor.context import DoctorContext, Findings, case
from provision.doctor.environment import Environment, Torch
from provision.doctor.repository import FORMATS, Choice, Lock, Package, at
from provision.doctor.rules import PACKAGE_RULES, apply_rules
from provision.doctor.rules.companions import TRITONS
from provision.doctor.rules.drivers import old_driver
from provision.doctor.rules.intel import CUDA_ONLY
from provision.doctor.rules.requirements import requirement
from provision.doctor.unpinned import BRINGS
from provision.environment.installed import parse_version
from provision.host.model import Host

_CPU = re.compile(
    r"cpu|mac|mps|rocm|xpu|amd|intel", re.IGNORECASE
)  # extras that mean no CUDA


def judge(locks: Sequence[Lock], host: Host, devices: Devices) -> list[Finding]:
    """Return what is wrong with the files of a folder, worst first."""
    found: list[Finding] = []
    locked = any(lock.choices for lock in locks if lock.complete)
    for each in locks:
        # What a lock says replaces what it was made from.
        lock = replace(each, choices=()) if locked and not each.complete else each
        for name, lines in (*_of_files(lock), *_of_choices(lock)):
            if told := list(islice(dict.fromkeys(lines), 5)):
                found.append(case(name, told))
        found += [*_of_machine(lock, host, devices), *_of_kernels(lock, host)]
    return worst_first(
        [*dict.fromkeys(found)]
    )  # a file that others include is told once


def _of_files(lock: Lock) -> Iterator[tuple[str, Iterable[str]]]:
    for name in ("requirement-invalid", "requirement-unread"):
        yield (
            name,
            [
                f"{p.where}: {p.row['line']}"
                for p in lock.unread
                if p.row["unread"] == name
            ],
        )
    asked = [
        (p, want)
        for p in lock.packages
        if "marker" in p.row
        and "line" in p.row
        and (want := requirement(p.row["line"].partition(" --")[0]))
    ]
    yield (
        "lock-contradiction",
        (
            f"{p.where}: {p.row['line']}, {q.where}: {q.row['line']}"
            for (p, one), (q, other) in combinations(asked, 2)
            if one.name == other.name
            and p.row["marker"] == q.row["marker"]
            and _excluded(one.specifier & other.specifier)
        ),
    )
    own = re.compile(FORMATS["pattern"]["own"])
    bare = [p for p in lock.packages if p.unhashed and own.fullmatch(p.name)]
    yield (
        "lock-unhashed",
        (f"{p}: {len(p.unhashed)} files, such as {p.unhashed[0]}" for p in bare),
    )
    foreign = [p for p in lock.packages if p.vendor and not own.fullmatch(p.name)]
    yield "index-leaks", (f"{p} comes from {p.url}" for p in foreign if lock.complete)
    found = (
        re.match(FORMATS["pattern"]["index_option"], line) for _, line in lock.lines
    )
    opened = [match[1] for match in found if match]
    for path, key in FORMATS["opens"].items():
        several = at(lock.doc, path)
        for one in several if isinstance(several, list) else ():
            table = one if isinstance(one, dict) else {"url": one}
            opened += (
                [str(table.get("url"))]
                if table.get(key) not in (True, "explicit")
                else []
            )
    vendors = [url for url in opened if re.search(FORMATS["pattern"]["vendor"], url)]
    yield (
        "index-open",
        (
            f"{place}: {line.strip()}"
            for place, line in lock.lines
            if any(url in line for url in vendors) and "source = " not in line
        ),
    )
    sources = at(lock.doc, "tool.uv.sources.torch")
    routed = (
        {at(source, "extra") for source in sources}
        if isinstance(sources, list)
        else set()
    )
    alias = re.compile(rf"{re.escape(str(at(lock.doc, 'project.name')))}\[([\w.,-]+)\]")
    extras = at(lock.doc, "project.optional-dependencies")
    yield (
        "lock-alias-extra",
        (
            f"{lock.name}: the extra {extra} is {named[0]}"
            for extra in extras or ()
            if routed
            for named in alias.finditer(str(at(extras, extra)))
            if extra not in routed and routed & set(named[1].split(","))
        ),
    )


def _excluded(wanted: SpecifierSet) -> bool:
    """Whether no version meets all: where some do, one is a bound of them, or just above one."""
    bounds = [
        v for each in wanted if (v := parse_version(each.version.removesuffix(".*")))
    ]
    tried = [
        *bounds,
        *(Version(f"{v.base_version}.0.0.0.1") for v in bounds),
        Version("0"),
    ]
    return len(bounds) == len(wanted) and not any(
        v.is_prerelease or v in wanted for v in tried
    )


def _of_choices(lock: Lock) -> Iterator[tuple[str, Iterable[str]]]:
    cuda = [c for c in lock.choices if c.torch.index.startswith("cu")]
    yield (
        "lock-loses-libraries",
        (
            f"{c}: no nvidia-cudnn comes with it"
            for c in cuda
            if c.platform == "linux-64"
            and lock.complete
            and "conda" not in c.torch.row
            and not c.torch.is_before("2.2" if c.torch.vendor else "1.13")
            and not any(name.startswith("nvidia-cudnn") for name in c.packages)
        ),
    )
    gpu = {c[:2] for c in cuda if c.torch.vendor}
    # A CPU index that is assigned to a platform by name is meant; by machine it may be a slip.
    slip = "machine" in str(at(lock.manifest, "tool.uv.sources.torch"))
    silent = [
        c
        for c in lock.choices
        if c.torch.index == "cpu"
        and c.platform != "linux-64"
        and not _CPU.search(c.name)
        and (slip or not c.torch.vendor)
    ]
    windows = [c for c in silent if c.platform == "win-64"]
    routed = [c for c in windows if ("linux-64", c.name) in gpu]
    extras = "win-64" in {platform for platform, _ in gpu}
    reset = [c for c in windows if extras and not c.name and not c.torch.vendor]
    rest = [c for c in silent if lock.complete and not c.name and not routed + reset]
    named = {
        "lock-cpu-route": routed,
        "lock-cpu-default": reset,
        "lock-cpu-elsewhere": rest,
    }
    for name, choices in named.items():
        yield name, (f"{choice}: a CPU build" for choice in choices)
    for choice in lock.choices:
        several = {(t.version, t.url): t for t in choice.packages["torch"]}.values()
        # Without markers, as in older poetry.lock, two may be for different platforms.
        both = len({"conda" in t.row for t in several}) > 1
        if len(several) > 1 and (lock.name == "uv.lock" or both):
            yield (
                "two-torches",
                [str(choice._replace(packages={"torch": [t]})) for t in several],
            )
            break


def _of_machine(lock: Lock, host: Host, devices: Devices) -> Findings:
    """Apply the rules on environments: packages of other builds, a driver that is too old."""
    seen = set()
    for choice in lock.choices:
        env = _environment(choice)
        machine = Host(choice.platform, "")
        if choice.platform == host.platform:
            machine = host
        # What a repository asks for is judged for any machine, the driver for this one.
        packages = DoctorContext(env, Host(choice.platform, ""), devices)
        findings = []
        if not choice.torch.is_before("2"):
            findings += apply_rules(packages, PACKAGE_RULES)
        for finding in apply_rules(DoctorContext(env, machine, devices), (old_driver,)):
            remedy = f"{finding.remedy}; or lock torch from the index of an older CUDA"
            findings.append(replace(finding, remedy=remedy))
        for finding in findings:
            if finding.bad and (finding.code, finding.evidence) not in seen:
                seen.add((finding.code, finding.evidence))
                of_torch = (env.says(choice.torch), f"{env.torch} is {env.state}")
                others = [line for line in finding.evidence if line not in of_torch]
                yield replace(finding, evidence=(str(choice), *others))


def _environment(choice: Choice) -> Environment:
    """Return what a choice would install, as an environment."""
    build = choice.torch.index
    distributions: dict[str, tuple[Package, ...]] = {}
    for name, several in choice.packages.items():
        if name == "triton-windows" and choice.platform != "win-64":
            continue
        if several[0].version or name in TRITONS or name in CUDA_ONLY:
            packages = [replace(p, index=p.index or build) for p in several]
            distributions[name] = tuple(packages)
        brought = BRINGS.get(name, {}).get(choice.platform)
        if brought and brought not in choice.packages:
            where = f"{several[0].where}, with {name}"
            package = replace(several[0], name=brought, version="", where=where)
            distributions[brought] = (package,)
    cuda = f"{build[2:-1]}.{build[-1]}" if build.startswith("cu") else None
    return Environment(
        choice.torch.folder,
        choice.torch.folder,
        windows=choice.platform == "win-64",
        markers=PLATFORMS[choice.platform].markers | {"python_version": "3.11"},
        distributions=distributions,
        torch=Torch(
            choice.torch.version, cuda, build if build == "xpu" else None, None
        ),
        state="required",
        source=choice.torch.where.rpartition(":")[0],
    )


def _of_kernels(lock: Lock, host: Host) -> Findings:
    """Name GPUs that the locked builds lack kernels for: this machine's, whole generations."""
    kernels = FORMATS["kernels"]
    builds = {
        (c.torch.index, c.platform): c for c in lock.choices if c.torch.index in kernels
    }
    for (build, platform), choice in builds.items():
        for gpu in host.gpus if platform == host.platform else ():
            capability = gpu.compute_capability
            if capability and not _serves(build, capability):
                line = f"{choice.torch} for {build}: {gpu.name} ({capability})"
                yield case("lock-gpu-unserved", [line])
    newest = max(builds, key=lambda key: int(key[0][2:]), default=("", ""))[0]
    names = FORMATS["generation"].items() if newest else ()
    if without := [
        name for capability, name in names if not _serves(newest, capability)
    ]:
        torch = next(c.torch for (build, _), c in builds.items() if build == newest)
        line = f"{torch} for {newest} has kernels for {', '.join(kernels[newest])}"
        yield case("lock-generations", [line], generations=", ".join(without))


def _serves(build: str, capability: str) -> bool:
    """Whether a build has kernels for a GPU: of its major version, and no newer."""
    kernels, (major, minor) = FORMATS["kernels"][build], capability.split(".")
    return any(k.split(".")[0] == major and k.split(".")[1] <= minor for k in kernels)
