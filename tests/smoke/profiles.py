"""Device profiles (`profiles.toml`), and the worlds that the pretend device plays of them.

A world is one target on one device that it is for: what the toolkit expects of the environment, and
what the device says and lacks, as plain JSON for `worlds.py` inside the environment.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.specifiers import Specifier, SpecifierSet

from provision.catalog.devices import read_devices
from provision.commands.expectation import expectation
from provision.commands.freshness import lockable_names
from provision.core.project import Project
from provision.host import driver_versions
from provision.host.model import Driver, Gpu, Host, Runtimes
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_target
from tests.small import CATALOG

if TYPE_CHECKING:
    from collections.abc import Container

    from provision.spec.model import Target

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("profiles.toml")
IPEX = "intel-extension-for-pytorch"
# What a locked stack has that the test environment, a CPU's, has not or in another version.
STACK = re.compile(
    r"torch|accelerate|(pytorch-)?triton(-\w+)?|intel-extension-for-pytorch|ipex-llm"
    r"|nvidia-cuda-runtime(-cu12)?"
)
OWN_BACKEND = {"cuda": "nccl", "xpu": "xccl"}
VENDORS = {"cuda": "nvidia", "xpu": "intel", "mps": "apple"}


@dataclass(frozen=True)
class Profile:
    """How one device presents itself.

    Attributes:
        id: Key in the file.
        vendor: ``intel``, ``nvidia`` or ``apple``.
        os: ``linux``, ``windows``, ``wsl`` or ``macos``.
        seen: What a source shows; tests may assert it.
        inferred: What was only concluded: it may be played, and is never asserted.
        sources: Field of ``seen`` -> where it was seen.
    """

    id: str
    vendor: str
    os: str
    seen: dict[str, Any] = field(default_factory=dict)
    inferred: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, list[str]] = field(default_factory=dict)

    def played(self, key: str, default: Any = None) -> Any:
        """Return what was seen, else what was concluded, else the default."""
        return self.seen.get(key, self.inferred.get(key, default))

    @property
    def platform(self) -> str:
        """Conda's name of the platform whose targets run there."""
        if self.os == "macos":
            return "osx-arm64"
        system = "win" if self.os == "windows" else "linux"
        machine = "aarch64" if "aarch64" in self.id else "64"
        return f"{system}-{machine}"


@cache
def document() -> dict[str, Any]:
    """Return the content of the file."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


@cache
def profiles() -> dict[str, Profile]:
    """Return every profile, with what its vendor and system have in common."""
    found = {}
    for key, own in document()["profile"].items():
        found[key] = _profile(key, own)
    return found


def _profile(key: str, own: dict[str, Any]) -> Profile:
    vendor, system = own["vendor"], own["os"]
    shared = document().get("common", {})
    common = shared.get(f"{vendor}-{system}", {})
    made = Profile(key, vendor, system)
    for table in (common, own):
        made.sources.update(table.get("sources", {}))
        inferred = table.get("inferred", {})
        for name, concluded in inferred.items():
            made.inferred[name] = concluded["value"]
        for name, value in table.items():
            if name not in ("sources", "inferred", "vendor", "os"):
                made.seen[name] = value
    return made


@cache
def targets() -> dict[str, Target]:
    """Return every target that has a GPU and a lock."""
    found = {}
    for name in lockable_names(Project(ROOT)):
        target = load_target(ROOT / "envs", name)
        if target.accelerator != "cpu":
            found[name] = target
    return found


def is_for(target: Target, profile: Profile) -> bool:
    """Return whether a target is for a device: platform, family, compute capability."""
    if target.platform != profile.platform:
        return False
    if profile.vendor != VENDORS[target.accelerator]:
        return False
    if target.accelerator == "cuda":
        return profile.seen["capability"] in capabilities(target)
    if target.accelerator == "mps":
        return True
    families = profile.played("families", ())
    return not set(families).isdisjoint(target.hardware.families)


def capabilities(target: Target) -> SpecifierSet:
    """Return the compute capabilities that a target is for, every one if it names none."""
    return SpecifierSet(target.hardware.compute_capability or "")


def pairs() -> list[tuple[str, str]]:
    """Return every target with each profile that it is for."""
    found = []
    for name, target in targets().items():
        for profile in profiles().values():
            if is_for(target, profile):
                found.append((name, profile.id))
    return found


def world(
    name: str, profile: Profile, base: dict[str, Any], /, **changes: Any
) -> dict[str, Any]:
    """Return the world of a target on a device.

    Args:
        name: The target's.
        profile: The device.
        base: An expectation that the test environment meets, for what it has installed.
        changes: What the device says otherwise; see `pretend.SAYS`.
    """
    target = targets()[name]
    stack = _locked_stack(name)
    torch = release(stack)
    says = _says(target, profile, torch) | changes
    host = _host(target, profile, says)
    packages = base["packages"] | stack
    expect = expectation(target, packages, CATALOG, host)
    # Its packages are the test environment's own, which the world "cpu" of the faults imports.
    expect["python"] = base["python"]
    expect["environment"] = {}
    expect["requirements"] = ["torch"]
    prints, _ = _noise(profile, torch, stack)
    distributions = []
    for key, version in stack.items():
        distributions.append((key, version, _top(key)))
    return {
        "name": f"{name} on {profile.id}",
        "expect": expect,
        "accelerator": target.accelerator,
        "release": torch,
        "says": says,
        "nvml": _nvml_version(host),
        "collectives": profile.played("collectives", []),
        "compiler": profile.played("compile_needs") == "cc",
        "compile_error": _compile_error(profile),
        "arch_list": _arch_list(target),
        "nodes": profile.played("nodes", []),
        "import_prints": prints,
        "distributions": distributions,
        "version_file": _version_file(target, stack["torch"]),
    }


def _locked_stack(target: str) -> dict[str, str]:
    """Return the versions of what a target locks and the test environment lacks."""
    lock = read_lock(ROOT / "lockfiles" / target)
    names = filter(STACK.fullmatch, lock.versions)
    return {name: lock.versions[name] for name in names}


def release(stack: dict[str, str]) -> list[int]:
    """Return major and minor version of the locked torch."""
    major, minor, *_ = re.findall(r"\d+", stack["torch"])
    return [int(major), int(minor)]


def _nvml_version(host: Host) -> str | None:
    """Return the driver's version that NVML reports, None where there is no NVML."""
    (gpu,) = host.gpus
    if gpu.vendor != "nvidia" or gpu.driver is None:
        return None
    return gpu.driver.version


def _host(target: Target, profile: Profile, says: dict[str, Any]) -> Host:
    """Return the machine as the toolkit would read it, for its judgement of the driver."""
    version = _driver(target, profile, "host_drivers")
    families = profile.played("families") or [None]
    gpu = Gpu(
        vendor=profile.vendor,
        device_id=f"{says['id'] or 0:04x}",
        name=says["name"],
        address="0000:03:00.0",
        family=families[0],
        driver=Driver("driver", version),
    )
    runtimes = Runtimes()
    if profile.platform == "linux-64":
        runtimes = Runtimes(compute_runtime=says["driver"])
    surroundings = ("wsl",) if profile.os == "wsl" else ()
    return Host(
        platform=target.platform,
        kernel="",
        surroundings=surroundings,
        gpus=(gpu,),
        runtimes=runtimes,
    )


def lacking(played: dict[str, Any]) -> set[str]:
    """Return the checks that a world's device cannot run, by what its profile lacks."""
    lacks = set()
    says = played["says"]
    if says["fp64"] != "full":
        lacks.add("resume.scaler")
    own_backend = OWN_BACKEND.get(played["accelerator"])
    if own_backend not in played["collectives"]:
        lacks.add("collective.sum")
    if not played["compiler"]:
        lacks.add("compile.mul_add")
    free = says["memory"]
    if says["free_memory"] == "raises":
        free = 0
    needed = 1.5 * 4.25 * 2**30
    if free < needed or says["largest"]:
        lacks.add("memory.large")
    return lacks


def not_required(played: dict[str, Any]) -> set[str]:
    """Return the checks that a world's target does not require on any device."""
    packages = played["expect"]["packages"]
    accelerator = played["accelerator"]
    torch = played["release"]
    found = {"group.exchange"}  # of several processes
    if "ipex-llm" not in packages:
        found |= {"low-bit.linear", "low-bit.models"}
    if IPEX not in packages:
        found |= {"fused.operators", "rotary.ipex-llm", "rotary.scripted"}
    if torch < [2, 3]:
        found |= {"resume.scaler", "programs.training"}
    if torch < [2, 5]:
        found |= {"operators.samples", "operators.sizes"}
        if accelerator == "xpu":
            found.add("operators.options")
    if not any("triton" in name for name in packages):
        found.add("compile.mul_add")
    return found | by_torch(accelerator)


def by_torch(accelerator: str) -> set[str]:
    """Return the checks that torch's own sources excuse on a kind of device."""
    path = ROOT / "smoke" / "engine" / "known.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    of_kind = known.get(accelerator, {})
    return set(of_kind.get("checks", ()))


def _says(target: Target, profile: Profile, release: list[int]) -> dict[str, Any]:
    cuda = target.accelerator == "cuda"
    name = _variant(profile.played("names"), target)
    sizes = profile.played("memory_mb", [16384])
    memory = _variant(sizes, target)
    identity = driver = largest = None
    if not cuda:
        families = profile.played("families", [])
        identity = _device_id(name, families)
        driver = _driver(target, profile, "drivers")
    locked = set()
    if release < [2, 2]:
        if not cuda:
            locked.add(IPEX)
        if granted := profile.seen.get("ipex_allocation_mb"):
            largest = granted * 2**20
    _, prints = _noise(profile, release, locked)
    first_kernel = 0.0
    if profile.played("first_kernel") == "compiled":
        first_kernel = 0.05
    two_tiles = profile.played("tiles", 1) == 2
    texts = document()["texts"]
    return {
        "name": name,
        "id": identity,
        "driver": driver,
        "capability": profile.seen.get("capability"),
        "memory": memory * 2**20,
        "fields": fields(target.accelerator, release),
        "fp64": _float64(profile),
        "sub_groups": profile.played("sub_groups", [32]),
        "largest": largest,
        "over_largest": texts["ipex_allocation"],
        "out_of_memory": texts[f"out_of_memory_{target.accelerator}"],
        "free_memory": profile.played("free_memory", "works"),
        "first_kernel": first_kernel,
        "prints": prints,
        "others": [{}] if two_tiles else [],
    }


def _float64(profile: Profile) -> str:
    """Return what the device can do with numbers of 64 bits."""
    if profile.played("fp64", True):
        return "full"
    if profile.vendor == "apple":
        return "never"
    families = profile.played("families") or [""]
    return "conversions" if families[0] == "dg2" else "none"


def _variant(values: list[Any], target: Target) -> Any:
    """Return one of the values that were seen, another one for another target."""
    position = sorted(targets()).index(target.name)
    return values[position % len(values)]


def fields(accelerator: str, release: list[int]) -> list[str]:
    """Return the fields of the device properties in this release of torch."""
    for row in document()["properties"]:
        if row["accelerator"] != accelerator:
            continue
        below = [int(part) for part in row["below"].split(".")]
        if release < below:
            found: list[str] = row["has"]
            return found
    message = f"no fields of {accelerator} in torch {release}"
    raise LookupError(message)


def _driver(target: Target, profile: Profile, key: str) -> str | None:
    """Return the newest version that was seen and that the target accepts, None for unknown."""
    floor = Specifier(str(target.hardware.driver))
    devices = read_devices(CATALOG)
    seen = profile.seen.get(key, [])
    for text in reversed(seen):
        version = driver_versions.parse(text, profile.vendor)
        if version is None:
            continue
        if driver_versions.meets(version, floor, profile.vendor, devices):
            return version.text
    return None


def _device_id(name: str, families: list[str]) -> int | None:
    if in_name := re.search(r"\[0x(\w+)\]", name):
        return int(in_name[1], 16)
    plain = re.sub(r"\(\w+\)| Graphics$| GPU$", "", name).strip()
    known = read_devices(CATALOG).intel
    for key, device in known.items():
        if device.name == plain:
            return int(key, 16)
    for key, device in known.items():
        if device.family in families:
            return int(key, 16)
    return None


def _noise(
    profile: Profile, release: list[int], locked: Container[str]
) -> tuple[list[str], list[str]]:
    """Return the harmless lines that this release of torch prints at its import, and later."""
    at_import: list[str] = []
    later: list[str] = []
    noise = profile.seen.get("noise", ())
    for entry in noise:
        when = entry["when"]
        if "IPEX" in when and IPEX not in locked:
            continue
        if "2.13+" in when and release < [2, 13]:
            continue
        if "Inductor" in when or "beside" in when:
            continue
        text = entry["text"].replace("<pci>", "0000:03:00.0")
        if "import" in when:
            at_import.append(text)
        else:
            later.append(text)
    return at_import, later


def _compile_error(profile: Profile) -> str:
    texts: dict[str, str] = document()["texts"]
    needs = profile.played("compile_needs")
    if needs == "msvc":
        return texts["no_cl"]
    if needs == "triton":
        return texts["no_triton"]
    return ""


def _arch_list(target: Target) -> list[str]:
    """Return an architecture of each generation that the target says its wheels are built for."""
    allowed = capabilities(target)
    architectures = []
    for known in ("7.0", "7.5", "8.0", "8.6", "9.0", "10.0", "12.0"):
        if known in allowed:
            digits = known.replace(".", "")
            architectures.append(f"sm_{digits}")
    return architectures


def _top(name: str) -> str:
    """Return the module that a distribution brings."""
    if name == "pytorch-triton-xpu":
        return "triton"
    return name.replace("-", "_")


def _version_file(target: Target, torch: str) -> str:
    """Return what torch/version.py says in the target's wheel."""
    lines = [f"__version__ = '{torch}'"]
    if target.accelerator == "cuda":
        lines.append("cuda: Optional[str] = '13.0'")
    return "\n".join(lines) + "\n"
