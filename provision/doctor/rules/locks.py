"""Rules on lock and requirement files: functions of a file and of what it would install."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from provision.core.findings import Finding, worst_first
from provision.doctor.context import DoctorContext, Findings, case
from provision.doctor.environment import Environment, Torch
from provision.doctor.repository import FORMATS, Choice, Lock, Package, at
from provision.doctor.rules import PACKAGE_RULES, apply_rules
from provision.doctor.rules.drivers import old_driver
from provision.host.model import Host

if TYPE_CHECKING:
    from provision.catalog.devices import Devices

_CPU = re.compile(r"cpu|mac|mps|rocm|xpu|amd|intel", re.IGNORECASE)  # extras that mean no CUDA


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
    return worst_first(found)


def _of_files(lock: Lock) -> Iterator[tuple[str, Iterable[str]]]:
    own = re.compile(FORMATS["pattern"]["own"])
    bare = [p for p in lock.packages if p.unhashed and own.fullmatch(p.name)]
    yield (
        "lock-unhashed",
        (f"{_told(p)}: {len(p.unhashed)} files, such as {p.unhashed[0]}" for p in bare),
    )
    foreign = [p for p in lock.packages if p.vendor and not own.fullmatch(p.name)]
    yield "index-leaks", (f"{_told(p)} comes from {p.url}" for p in foreign if lock.complete)
    opened = re.findall(r"^[\s-]*--?(?:extra-index-url|index-url|i)[\s=]+(\S+)", lock.text, re.M)
    for path, key in FORMATS["opens"].items():
        several = at(lock.doc, path)
        for one in several if isinstance(several, list) else ():
            table = one if isinstance(one, dict) else {"url": one}
            opened += [str(table.get("url"))] if table.get(key) not in (True, "explicit") else []
    vendors = [url for url in opened if re.search(FORMATS["pattern"]["vendor"], url)]
    yield (
        "index-open",
        (
            f"{lock.name}:{number}: {line.strip()}"
            for number, line in enumerate(lock.text.split("\n"), 1)
            if any(url in line for url in vendors) and "source = " not in line
        ),
    )
    sources = at(lock.doc, "tool.uv.sources.torch")
    routed = {source.get("extra") for source in sources} if isinstance(sources, list) else set()
    alias = re.compile(rf"{re.escape(str(at(lock.doc, 'project.name')))}\[([\w.,-]+)\]")
    extras = at(lock.doc, "project.optional-dependencies") or {}
    yield "lock-alias-extra", (
        f"{lock.name}: the extra {extra} is {line}" for extra, lines in extras.items()
        for line in lines if extra not in routed and (named := alias.match(line))
        and routed & set(named[1].split(","))
    )  # fmt: skip


def _of_choices(lock: Lock) -> Iterator[tuple[str, Iterable[str]]]:
    torches = list(_torches(lock))
    yield "lock-loses-libraries", (
        f"{_told(torch, choice)}: no nvidia-cudnn comes with it" for choice, torch in torches
        if choice.platform == "linux-64" and lock.complete and torch.index.startswith("cu")
        and "conda" not in torch.row and not torch.is_before("2.2" if torch.vendor else "1.13")
        and not any(name.startswith("nvidia-cudnn") for name in choice.packages)
    )  # fmt: skip
    gpu = {c[:2] for c, torch in torches if torch.index.startswith("cu") and torch.vendor}
    # A CPU index that is assigned to a platform by name is meant; by machine it may be a slip.
    slip = "machine" in str(at(lock.manifest, "tool.uv.sources.torch"))
    silent = [(c, t) for c, t in torches if t.index == "cpu" and c.platform != "linux-64"
              and not _CPU.search(c.name) and (slip or not t.vendor)]  # fmt: skip
    windows = [(c, t) for c, t in silent if c.platform == "win-64"]
    routed = [(c, t) for c, t in windows if ("linux-64", c.name) in gpu]
    reset = [(c, t) for c, t in windows if not c.name and not t.vendor
             and any(platform == "win-64" for platform, _ in gpu)]  # fmt: skip
    rest = [] if routed + reset or not lock.complete else [(c, t) for c, t in silent if not c.name]
    named = {"lock-cpu-route": routed, "lock-cpu-default": reset, "lock-cpu-elsewhere": rest}
    for name, pairs in named.items():
        yield name, (f"{_told(t, c)}: a CPU build" for c, t in pairs)
    for choice in lock.choices:
        several = {(t.version, t.url): t for t in choice.packages["torch"]}
        mixed = {"conda" in t.row for t in several.values()}
        # Without markers, as in older poetry.lock, two may be for different platforms.
        if len(several) > 1 and (len(mixed) > 1 or lock.name == "uv.lock"):
            yield "two-torches", [_told(t, choice) for t in several.values()]
            break


def _of_machine(lock: Lock, host: Host, devices: Devices) -> Findings:
    """Apply the rules on environments: packages of other builds, a driver that is too old."""
    told = set()
    for choice, torch in _torches(lock):
        machine = host if choice.platform == host.platform else Host(choice.platform, "")
        context = DoctorContext(_environment(choice, torch), machine, devices)
        rules = () if torch.is_before("2") else PACKAGE_RULES
        for found in apply_rules(context, (*rules, old_driver)):
            driver = found.code == "driver-too-old"
            if found.bad and (found.code, found.evidence[1:]) not in told:
                told.add((found.code, found.evidence[1:]))
                lines = (_told(torch, choice), *found.evidence[not driver :])
                name = "lock-driver-old" if driver else "lock-companions"
                yield replace(case(name, lines, code=found.code), cause=found.cause)


def _environment(choice: Choice, torch: Package) -> Environment:
    cuda = f"{torch.index[2:-1]}.{torch.index[-1]}" if torch.index.startswith("cu") else None
    known = {n: several for n, several in choice.packages.items() if several[0].version}
    return Environment(
        torch.folder, torch.folder, windows=choice.platform == "win-64",
        markers=FORMATS["platform"][choice.platform] | {"python_version": "3.11"},
        distributions={name: tuple(replace(p, index=p.index or torch.index) for p in several)
                       for name, several in known.items()},
        torch=Torch(torch.version, cuda, None, None),
    )  # fmt: skip


def _of_kernels(lock: Lock, host: Host) -> Findings:
    """Name GPUs that the locked builds lack kernels for: this machine's, whole generations."""
    kernels = FORMATS["kernels"]
    builds = {(t.index, c.platform): t for c, t in _torches(lock) if t.index in kernels}
    for gpu in host.gpus:
        capability = gpu.compute_capability or ""
        yield from (
            case("lock-gpu-unserved", [f"{_told(torch)} for {build}: {gpu.name} ({capability})"])
            for (build, platform), torch in builds.items()
            if platform == host.platform and capability and not _serves(build, capability)
        )
    newest = max(builds, key=lambda key: int(key[0][2:]), default=None)
    names = FORMATS["generation"].items()
    if newest and (without := [name for c, name in names if not _serves(newest[0], c)]):
        served = ", ".join(kernels[newest[0]])
        line = f"{_told(builds[newest])} for {newest[0]} has kernels for {served}"
        yield case("lock-generations", [line], generations=", ".join(without))


def _serves(build: str, capability: str) -> bool:
    """Whether a build has kernels for a GPU: of its major version, and no newer."""
    kernels, (major, minor) = FORMATS["kernels"][build], capability.split(".")
    return any(k.split(".")[0] == major and k.split(".")[1] <= minor for k in kernels)


def _torches(lock: Lock) -> Iterator[tuple[Choice, Package]]:
    return ((choice, choice.packages["torch"][0]) for choice in lock.choices)


def _told(package: Package, choice: Choice | None = None) -> str:
    told = f"{package.where}: {package.name} {package.version}".rstrip()
    with_it = f" with {choice.name}" if choice and choice.name else ""
    return f"{told} on {choice.platform}{with_it}" if choice else told
