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
from provision.doctor.repository import FORMATS, Package, RepositoryFile, at
from provision.doctor.rules import PACKAGE_RULES, apply_rules
from provision.doctor.rules.companions import TRITONS
from provision.doctor.rules.drivers import old_driver
from provision.doctor.rules.intel import CUDA_ONLY
from provision.doctor.unpinned import BRINGS
from provision.host.model import Host

_CPU = re.compile(
    r"cpu|mac|mps|rocm|xpu|amd|intel", re.IGNORECASE
)  # extras without CUDA


def judge(
    files: Sequence[RepositoryFile], host: Host, devices: Devices
) -> list[Finding]:
    """Return what is wrong with the files of a folder, worst first."""
    findings: list[Finding] = []
    installed = {file.name: list(choices(file)) for file in files}
    locked = any(installed[file.name] for file in files if file.complete)
    for file in files:
        options = installed[file.name]
        if locked and not file.complete:
            options = []  # what a lock says replaces what it was made from
        for name, lines in (*_of_file(file), *_of_choices(file, options)):
            if lines:
                findings.append(case(name, list(dict.fromkeys(lines))[:5]))
        findings += _of_machine(options, host, devices)
        findings += _of_kernels(options, host)
    # A file that others include is told once.
    return worst_first(list(dict.fromkeys(findings)))


def _of_file(file: RepositoryFile) -> Iterator[tuple[str, list[str]]]:
    """Yield what is wrong with the lines of a file, by case."""
    for name in ("requirement-invalid", "requirement-unread"):
        unread = [package for package in file.unread if package.unread == name]
        yield name, [f"{package.where}: {package.line}" for package in unread]
    of_torch = re.compile(FORMATS["pattern"]["own"])
    unhashed, leaks = [], []
    for package in file.packages:
        own = of_torch.fullmatch(package.name)
        if package.unhashed and own:
            count, first = len(package.unhashed), package.unhashed[0]
            unhashed.append(f"{package}: {count} files, such as {first}")
        if package.vendor and not own and file.complete:
            leaks.append(f"{package} comes from {package.url}")
    yield "lock-unhashed", unhashed
    yield "index-leaks", leaks


def _of_choices(
    file: RepositoryFile, options: Sequence[Choice]
) -> Iterator[tuple[str, list[str]]]:
    """Yield what is wrong with what a file would install, by case."""
    lost = [c for c in options if file.complete and _loses_libraries(c)]
    yield "lock-loses-libraries", [f"{c}: no nvidia-cudnn comes with it" for c in lost]
    routes = _routes_to_cpu(file, options)
    yield "lock-cpu-route", [f"{choice}: a CPU build" for choice in routes]
    for choice in options:
        torches = {(t.version, t.url): t for t in choice.packages["torch"]}
        # Without markers, as in older poetry.lock, two may be for different platforms.
        of_conda = {torch.conda for torch in torches.values()}
        if len(torches) > 1 and (file.name == "uv.lock" or len(of_conda) > 1):
            yield "two-torches", [str(torch) for torch in torches.values()]
            break


def _loses_libraries(choice: Choice) -> bool:
    """Whether a CUDA build of torch is locked without the NVIDIA libraries that it loads."""
    torch = choice.torch
    if choice.platform != "linux-64" or torch.conda:
        return False
    first = "2.2" if torch.vendor else "1.13"  # that requires them
    if not torch.index.startswith("cu") or torch.is_before(first):
        return False
    return not any(name.startswith("nvidia-cudnn") for name in choice.packages)


def _routes_to_cpu(file: RepositoryFile, options: Sequence[Choice]) -> list[Choice]:
    """Return what installs CUDA on Linux, and on Windows a CPU build without a word."""
    with_cuda = set()
    for choice in options:
        if choice.torch.index.startswith("cu") and choice.torch.vendor:
            with_cuda.add((choice.platform, choice.name))
    # A CPU index that is assigned to a platform by name is meant; by machine it may be a slip.
    slip = "machine" in str(at(file.manifest, "tool.uv.sources.torch"))
    routes = []
    for choice in options:
        cpu = choice.torch.index == "cpu" and not _CPU.search(choice.name)
        silent = cpu and (slip or not choice.torch.vendor)
        if (
            silent
            and choice.platform == "win-64"
            and ("linux-64", choice.name) in with_cuda
        ):
            routes.append(choice)
    return routes


def _of_machine(options: Sequence[Choice], host: Host, devices: Devices) -> Findings:
    """Apply the rules on environments: packages of other builds, a driver that is too old."""
    seen = set()
    for choice in options:
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


def _of_kernels(options: Sequence[Choice], host: Host) -> Findings:
    """Name the GPUs of this machine that the locked builds lack kernels for."""
    for choice in options:
        build = choice.torch.index
        if choice.platform != host.platform or build not in FORMATS["kernels"]:
            continue
        for gpu in host.gpus:
            capability = gpu.compute_capability
            if capability and not _serves(build, capability):
                line = f"{choice.torch} for {build}: {gpu.name} ({capability})"
                yield case("lock-gpu-unserved", [line])


def _serves(build: str, capability: str) -> bool:
    """Whether a build has kernels for a GPU: of its major version, and no newer."""
    major, minor = capability.split(".")
    for kernel in FORMATS["kernels"][build]:
        kernel_major, kernel_minor = kernel.split(".")
        if kernel_major == major and int(kernel_minor) <= int(minor):
            return True
    return False
