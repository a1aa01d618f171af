"""Rules on lock and requirement files: functions of a file and of what it would install."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from provision.catalog.devices import Devices
from provision.core.findings import Finding, worst_first
from provision.core.platforms import PLATFORMS
from provision.doctor.choices import Choice, choices
from provision.doctor.context import DoctorContext, Findings, case
from provision.doctor.environment import Environment, Torch
from provision.doctor.repository import FORMATS, RepositoryFile, at
from provision.doctor.rules import PACKAGE_RULES, apply_rules
from provision.doctor.rules.companions import TRITONS
from provision.doctor.rules.drivers import old_driver
from provision.doctor.rules.intel import CUDA_ONLY
from provision.doctor.rules.machine import unsupported_gpu
from provision.doctor.rules.requirements import numpy2
from provision.doctor.unpinned import BRINGS
from provision.host.model import Host

# The names of extras without CUDA.
_CPU = re.compile(r"cpu|mac|mps|rocm|xpu|amd|intel", re.IGNORECASE)


def judge(
    files: Sequence[RepositoryFile], host: Host, devices: Devices
) -> list[Finding]:
    """Return what is wrong with the files of a folder, worst first."""
    findings = []
    installed = {file.name: list(choices(file)) for file in files}
    locked = any(installed[file.name] for file in files if file.complete)
    for file in files:
        options = installed[file.name]
        if locked and not file.complete:
            options = []  # what a lock says replaces what it was made from
        for name, lines in (*_of_file(file), *_of_choices(file, options)):
            if lines:
                findings.append(case(name, list(dict.fromkeys(lines))[:5]))
        # What several platforms and extras install is reported once.
        of_options = dict[tuple[str, ...], Finding]()
        for option in options:
            for finding in _of_environment(option, host, devices):
                key = (finding.code, *finding.evidence[1:])
                of_options.setdefault(key, finding)
        findings += of_options.values()
    return worst_first(list(dict.fromkeys(findings)))  # files may include each other


def _of_file(file: RepositoryFile) -> Iterator[tuple[str, list[str]]]:
    """Yield what is wrong with the lines of a file, by case."""
    of_torch = re.compile(FORMATS["pattern"]["of_torch"])
    unhashed, leaks = list[str](), list[str]()
    for package in file.packages:
        belongs = of_torch.fullmatch(package.name)
        if package.unhashed and belongs:
            count, first = len(package.unhashed), package.unhashed[0]
            unhashed.append(f"{package}: {count} files, such as {first}")
        if package.vendor and not belongs and file.complete:
            leaks.append(f"{package} comes from {package.url}")
    yield "requirement-unread", list(file.unread)
    yield "lock-unhashed", unhashed
    yield "index-leaks", leaks


def _of_choices(
    file: RepositoryFile, options: Sequence[Choice]
) -> Iterator[tuple[str, list[str]]]:
    """Yield what is wrong with what a file would install, by case."""
    lost, routes = list[str](), list[str]()
    for choice in options:
        if file.complete and _loses_libraries(choice):
            lost.append(f"{choice}: no nvidia-cudnn comes with it")
    for choice in _routes_to_cpu(file, options):
        routes.append(f"{choice}: a CPU build")
    yield "lock-loses-libraries", lost
    yield "lock-cpu-route", routes


def _loses_libraries(choice: Choice) -> bool:
    """Whether a CUDA build of torch is locked without the NVIDIA libraries that it loads."""
    torch = choice.torch
    if choice.platform != "linux-64" or not torch.index.startswith("cu"):
        return False
    first = "2.2" if torch.vendor else "1.13"  # that requires them
    names = " ".join(choice.packages)
    return not torch.is_before(first) and "nvidia-cudnn" not in names


def _routes_to_cpu(file: RepositoryFile, options: Sequence[Choice]) -> Iterator[Choice]:
    """Yield what installs CUDA on Linux, and on Windows a CPU build without a word."""
    with_cuda = set()
    for choice in options:
        of_vendor = choice.torch.vendor and choice.torch.index.startswith("cu")
        if of_vendor and choice.platform == "linux-64":
            with_cuda.add(choice.extra)
    # A CPU index that is assigned to a platform by name is meant; by machine it may be a slip.
    slip = "machine" in str(at(file.manifest, "tool.uv.sources.torch"))
    for choice in options:
        if choice.platform != "win-64" or choice.torch.index != "cpu":
            continue
        meant = _CPU.search(choice.extra) or choice.extra not in with_cuda
        if not meant and (slip or not choice.torch.vendor):
            yield choice


def _of_environment(choice: Choice, host: Host, devices: Devices) -> Findings:
    """Apply the rules on environments to what a choice installs.

    What a repository requires is checked for any machine, drivers and GPUs for this one.
    """
    env = _environment(choice)
    context = DoctorContext(env, Host(choice.platform, ""), devices)
    rules = () if choice.torch.is_before("2") else PACKAGE_RULES
    findings = apply_rules(context, (*rules, numpy2))
    if choice.platform == host.platform:
        here = replace(context, host=host)
        for finding in apply_rules(here, (unsupported_gpu, old_driver)):
            remedy = f"{finding.remedy}; or lock torch from the index of another CUDA"
            findings.append(replace(finding, remedy=remedy))
    of_torch = (env.says(choice.torch), f"{env.torch} is {env.state}")
    for finding in findings:
        if finding.bad:
            others = [line for line in finding.evidence if line not in of_torch]
            yield replace(finding, evidence=(str(choice), *others))


def _environment(choice: Choice) -> Environment:
    """Return what a choice would install, as an environment."""
    torch, windows = choice.torch, choice.platform == "win-64"
    build = torch.index
    distributions = {}
    for name, packages in choice.packages.items():
        if name == "triton-windows" and not windows:
            continue
        first = packages[0]
        if first.version or name in TRITONS or name in CUDA_ONLY:
            built = [replace(p, index=p.index or build) for p in packages]
            distributions[name] = tuple(built)
        brought = BRINGS.get(name, {}).get(choice.platform)
        if brought and brought not in choice.packages:
            where = f"{first.where}, with {name}"
            package = replace(first, name=brought, version="", where=where)
            distributions[brought] = (package,)
    source = torch.where.rpartition(":")[0]
    if not torch.line:  # a lock, which nobody edits
        source = f"the requirements of {source}"
    cuda = xpu = None
    if build.startswith("cu"):
        cuda = f"{build[2:-1]}.{build[-1]}"
    elif build == "xpu":
        xpu = build
    return Environment(
        torch.folder,
        torch.folder,
        windows=windows,
        markers=PLATFORMS[choice.platform].markers | {"python_version": "3.11"},
        distributions=distributions,
        torch=Torch(torch.version, cuda, xpu),
        state="required",
        source=source,
    )
