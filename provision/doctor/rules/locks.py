"""Rules on lock and requirement files: functions of a file and of what it would install."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from provision.core.findings import Finding, worst_first
from provision.doctor.context import DoctorContext, Findings, case
from provision.doctor.data import data
from provision.doctor.environment import Environment, Torch
from provision.doctor.repository import at
from provision.doctor.rules import PACKAGE_RULES, apply_rules
from provision.host.drivers import satisfies
from provision.host.model import Host

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from provision.catalog.devices import Devices
    from provision.doctor.repository import Choice, Lock, Package

_CPU = re.compile(r"cpu|mac|mps|rocm|xpu|amd|intel", re.IGNORECASE)  # extras that mean no CUDA


def judge(locks: Sequence[Lock], host: Host, devices: Devices) -> list[Finding]:
    """Return what is wrong with the files of a folder, worst first."""
    found: list[Finding] = []
    locked = any(lock.choices for lock in locks if lock.complete)
    for each in locks:
        # What a lock says replaces what it was made from.
        lock = replace(each, choices=()) if locked and not each.complete else each
        found += [*unhashed(lock), *lost_libraries(lock), *cpu_routes(lock), *leaks(lock),
                  *two_torches(lock), *companions(lock, devices), *unserved(lock, host, devices),
                  *wheels(lock)]  # fmt: skip
    return worst_first(found)


def unhashed(lock: Lock) -> Findings:
    """Files of torch, or of what belongs to it, have no hash in a lock."""
    bare = [p for p in lock.packages if p.unhashed and _own(p)]
    lines = (f"{_told(p)}: {len(p.unhashed)} files, such as {p.unhashed[0]}" for p in bare)
    yield from _case("lock-unhashed", lines)


def lost_libraries(lock: Lock) -> Findings:
    """A CUDA build of torch for Linux is installed without the NVIDIA libraries that it loads."""
    yield from _case("lock-loses-libraries", (
        f"{_told(torch, choice)}: no nvidia-cudnn comes with it" for choice, torch in _torches(lock)
        if choice.platform == "linux-64" and lock.complete and torch.index.startswith("cu")
        and "conda" not in torch.row and not torch.is_before("2.2" if torch.vendor else "1.13")
        and not any(name.startswith("nvidia-cudnn") for name in choice.packages)
    ))  # fmt: skip
    sources = at(lock.doc, "tool.uv.sources.torch")
    routed = {source.get("extra") for source in sources} if isinstance(sources, list) else set()
    alias = re.compile(rf"{re.escape(str(at(lock.doc, 'project.name')))}\[([\w.,-]+)\]")
    yield from _case("lock-alias-extra", (
        f"{p.where}: the extra {p.row['extra']} is {p.row['line']}" for p in lock.packages
        if p.row.get("extra", None) not in routed and (named := alias.match(p.row.get("line", "")))
        and routed & set(named[1].split(","))
    ))  # fmt: skip


def cpu_routes(lock: Lock) -> Findings:
    """Torch is a CUDA build on Linux, or with an extra, and silently a CPU build elsewhere."""
    gpu = {c[:2] for c, torch in _torches(lock) if torch.index.startswith("cu") and torch.vendor}
    # A CPU index that is assigned to a platform by name is meant; by machine it may be a slip.
    slip = "machine" in str(at(lock.manifest, "tool.uv.sources.torch"))
    silent = [(c, t) for c, t in _torches(lock) if t.index == "cpu" and c.platform != "linux-64"
              and not _CPU.search(c.name) and (slip or not t.vendor)]  # fmt: skip
    windows = [(c, t) for c, t in silent if c.platform == "win-64"]
    routed = [(c, t) for c, t in windows if ("linux-64", c.name) in gpu]
    reset = [(c, t) for c, t in windows if not c.name and not t.vendor
             and any(platform == "win-64" for platform, _ in gpu)]  # fmt: skip
    rest = [] if routed + reset or not lock.complete else [(c, t) for c, t in silent if not c.name]
    named = {"lock-cpu-route": routed, "lock-cpu-default": reset, "lock-cpu-elsewhere": rest}
    for name, pairs in named.items():
        yield from _case(name, (f"{_told(t, c)}: a CPU build" for c, t in pairs))


def leaks(lock: Lock) -> Findings:
    """Packages that have nothing to do with torch come, or may come, from its index."""
    foreign = [p for p in lock.packages if lock.complete and p.vendor and not _own(p)]
    yield from _case("index-leaks", (f"{_told(p)} comes from {p.url}" for p in foreign))
    opened = []
    for row in data("formats")["index"]:
        tables = at(lock.doc, row["at"])
        for table in tables if isinstance(tables, list) else ():
            told = table if isinstance(table, dict) else {"url": table}
            opened += [str(told.get("url"))] if told.get(row["key"]) != row["value"] else []
    opened += re.findall(r"^[\s-]*--?(?:extra-index-url|index-url|i)[\s=]+(\S+)", lock.text, re.M)
    vendors = [url for url in opened if re.search(data("formats")["vendor"]["index"], url)]
    lines = enumerate(lock.text.split("\n"), 1)
    yield from _case("index-open", (
        f"{lock.name}:{number}: {line.strip()}" for number, line in lines
        if any(url in line for url in vendors) and "source = " not in line
    ))  # fmt: skip


def two_torches(lock: Lock) -> Findings:
    """One command installs torch twice."""
    for choice in lock.choices:
        several = {(t.version, t.url): t for t in choice.packages["torch"]}
        mixed = {"conda" in t.row for t in several.values()}
        # Without markers, as in older poetry.lock, two may be for different platforms.
        if len(several) > 1 and (len(mixed) > 1 or lock.name == "uv.lock"):
            yield from _case("two-torches", (_told(t, choice) for t in several.values()))
            return


def companions(lock: Lock, devices: Devices) -> Findings:
    """Packages that are installed together are for different builds of torch."""
    told = set()
    for choice, torch in _torches(lock):
        context = DoctorContext(_environment(choice, torch), Host(choice.platform, ""), devices)
        for found in () if torch.is_before("2") else apply_rules(context, PACKAGE_RULES):
            if found.bad and (found.code, found.evidence[1:]) not in told:
                told.add((found.code, found.evidence[1:]))
                lines = _told(torch, choice), *found.evidence[1:]
                yield replace(case("lock-companions", lines, code=found.code), cause=found.cause)


def unserved(lock: Lock, host: Host, devices: Devices) -> Findings:
    """The locked build has no kernels for a GPU, or needs a newer driver than the machine has."""
    kernels = data("formats")["kernels"]
    builds = {(t.index, c.platform): t for c, t in _torches(lock) if t.index in kernels}
    for (build, platform), torch in builds.items():
        least = devices.least_driver(f"{build[2:-1]}.{build[-1]}", platform)
        for gpu in host.gpus if platform == host.platform else ():
            told, driver = f"{_told(torch)} for {build}", gpu.driver and gpu.driver.version
            if gpu.compute_capability and not _serves(build, gpu.compute_capability):
                line = f"{told} has no kernels for {gpu.name} ({gpu.compute_capability})"
                yield case("lock-gpu-unserved", [line])
            elif (
                gpu.vendor == "nvidia" and driver and least and not satisfies(driver, f">={least}")
            ):
                yield case("lock-driver-old", [f"{told} needs {least}; {gpu.name} has {driver}"])
    for (build, _), torch in sorted(builds.items(), key=lambda item: -int(item[0][0][2:]))[:1]:
        names = data("formats")["generation"].items()
        if without := [name for capability, name in names if not _serves(build, capability)]:
            line = f"{_told(torch)} for {build} has kernels for {', '.join(kernels[build])}"
            yield case("lock-generations", [line], generations=", ".join(without))


def wheels(lock: Lock) -> Findings:
    """The lowest Python that is allowed has no wheel of the torch that it would get."""
    fits = re.compile(rf"cp{lock.python.replace('.', '')}-|py3-|cp3\d+-abi3")
    for choice, torch in _torches(lock):
        here = data("formats")["wheel"][choice.platform]
        tags = [tag for tag in torch.tags if re.search(here, tag)]
        if tags and not choice.name and not any(map(fits.match, tags)):
            line = f"{_told(torch, choice)}: no wheel for Python {lock.python}"
            yield case("lock-python", [line])
            return


def _torches(lock: Lock) -> Iterator[tuple[Choice, Package]]:
    return ((choice, choice.packages["torch"][0]) for choice in lock.choices)


def _environment(choice: Choice, torch: Package) -> Environment:
    """Return a choice as an environment, for the rules on packages."""
    cuda = f"{torch.index[2:-1]}.{torch.index[-1]}" if torch.index.startswith("cu") else None
    known = {n: several for n, several in choice.packages.items() if several[0].version}
    return Environment(
        torch.folder, torch.folder, windows=choice.platform == "win-64",
        markers=data("formats")["platform"][choice.platform] | {"python_version": "3.11"},
        distributions={name: tuple(replace(p, index=p.index or torch.index) for p in several)
                       for name, several in known.items()},
        torch=Torch(torch.version, cuda, None, None),
    )  # fmt: skip


def _serves(build: str, capability: str) -> bool:
    """Whether a build has kernels for a GPU: of its major version, and no newer."""
    kernels, (major, minor) = data("formats")["kernels"][build], capability.split(".")
    return any(k.split(".")[0] == major and k.split(".")[1] <= minor for k in kernels)


def _case(name: str, lines: Iterable[str]) -> Findings:
    if told := list(islice(dict.fromkeys(lines), 5)):
        yield case(name, told)


def _own(package: Package) -> bool:
    return bool(re.fullmatch(data("formats")["vendor"]["own"], package.name))


def _told(package: Package, choice: Choice | None = None) -> str:
    told = f"{package.where}: {package.name} {package.version}".rstrip()
    with_it = f" with {choice.name}" if choice and choice.name else ""
    return f"{told} on {choice.platform}{with_it}" if choice else told
