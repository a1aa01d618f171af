"""Whether a GPU works for a target, and what has to be repaired first; pure."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from provision.core.findings import toml_table
from provision.core.platforms import LEAST_GLIBC, MAKERS, VENDORS
from provision.host.driver_versions import numbers_of
from provision.host.drivers import DriverVerdict, driver_remedy, judge_driver, satisfies
from provision.host.model import Gpu, Host
from provision.spec.parts import TargetHardware

# Kernel drivers that never compute.
_NOUVEAU = {"nouveau", "nova_core", "NovaCore"}
# What manylinux_2_28 promises, a tag of wheels in every lock: the libraries of AlmaLinux 8.
_GLIBC, _LIBSTDCXX = f"glibc 2.{LEAST_GLIBC}", "libstdc++.so.6.0.25"


class Obstacle(NamedTuple):
    """What keeps a GPU of the right kind from working for a target; a table of obstacles.toml."""

    name: str
    reason: str
    remedy: str


def incompatibility(target: TargetHardware, gpu: Gpu) -> str:
    """Return why no repair makes a GPU work for a target, or ""."""
    if not gpu.device_id and target.families == ("pvc",):
        return "it is Windows' GPU, and Windows has no driver for the Max series"
    if not (gpu.family or gpu.supported):
        return _unknown_model(gpu)
    if not gpu.supported:
        return f"PyTorch has no {target.accelerator.upper()} kernels for its family {gpu.family}"
    # A chip newer than the catalog has no family: only its compute capability is compared.
    if target.families and gpu.family and gpu.family not in target.families:
        return f"its family {gpu.family} is not one of {', '.join(target.families)}"
    capability = gpu.compute_capability
    required = target.compute_capability
    if required and capability and not satisfies(capability, required):
        return f"compute capability {capability} is not {required}"
    return ""


def _unknown_model(gpu: Gpu) -> str:
    if not gpu.device_id:
        return ""  # behind WSL the model is unknown, which is an obstacle only
    if gpu.vendor == "nvidia":
        return "it is older than Maxwell, the oldest generation"
    return f"device id {gpu.device_id} is not in the catalog"


def old_libraries(host: Host, glibc: str | None = None) -> str:
    """Return which library of the system is older than the wheels need, or ""."""
    least_glibc = f"glibc {glibc}" if glibc else _GLIBC
    pairs = (host.system.libc, least_glibc), (host.system.libstdcxx, _LIBSTDCXX)
    for version, least in pairs:
        # musl has no number here, and is less than any glibc.
        if version and numbers_of(version) < numbers_of(least):
            return f"this system has {version}, the wheels need {least}"
    return ""


def obstacles(
    target: TargetHardware, gpu: Gpu, host: Host, hidden_by: str | None
) -> Iterator[Obstacle]:
    """Yield what must be repaired before a GPU works for a target; ``NAME=value`` may hide it."""
    if not gpu.device_id and gpu.vendor == "intel":
        yield _obstacle("model-hidden", gpu, host, target=target.name)
    yield from hindrances(gpu, host)
    yield from missing_runtimes(gpu, host)
    for required in (target.driver, gpu.least_driver):
        if not required:
            continue
        judged = judge_driver(gpu, host, required)
        if judged.verdict is DriverVerdict.TOO_OLD:
            remedy = driver_remedy(gpu, host, required)
            remedy = remedy[0].lower() + remedy[1:]
            yield Obstacle("old-driver", judged.reason, remedy)
    if hidden_by is not None:
        variable = hidden_by.partition("=")[0]
        yield Obstacle("hidden", f"{hidden_by} hides it", f"unset {variable}")


def hindrances(gpu: Gpu, host: Host) -> Iterator[Obstacle]:
    """Yield what keeps every program from using a GPU, causes before consequences."""
    driver = gpu.driver_name
    linux = host.platform.startswith("linux")
    if not driver:
        name, place = host.system.refused.get(gpu.vendor, ("no-driver", ""))
        yield _obstacle(name, gpu, host, place=place)
    elif linux and driver not in VENDORS[gpu.vendor].drivers:
        name = "nouveau" if driver in _NOUVEAU else "foreign-driver"
        yield _obstacle(name, gpu, host)
    if gpu.survivability:
        yield _obstacle("survivability", gpu, host)
    yield from _half_updated(gpu, host)
    for node in gpu.nodes:
        if not node.usable:
            name = "no-permission" if node.present else "no-device-files"
            yield _obstacle(name, gpu, host, path=node.path, group=node.group)
    if gpu.resizable_bar is False and driver == "xe":
        yield _obstacle("small-bar", gpu, host)


def _half_updated(gpu: Gpu, host: Host) -> Iterator[Obstacle]:
    # Both libraries refuse to work with a kernel module of another version; WSL has none.
    if gpu.driver is None or gpu.driver.name != "nvidia" or not gpu.device_id:
        return
    module, nvml = gpu.driver.version, host.runtimes.nvml
    for library in (host.runtimes.cuda, nvml):
        if not (library and module) or library == module:
            continue
        # The package cuda-compat has a newer libcuda for an older module, and no NVML.
        is_compat = nvml == module and numbers_of(library) > numbers_of(module)
        if not is_compat:
            yield _obstacle(
                "half-updated-driver", gpu, host, module=module, library=library
            )


def missing_runtimes(gpu: Gpu, host: Host) -> Iterator[Obstacle]:
    """Yield what a GPU of Intel needs of the system and lacks, by the name of its package."""
    # In WSL, Level Zero and the user-mode driver come mounted from Windows.
    bare = host.platform.startswith("linux") and "wsl" not in host.surroundings
    if gpu.vendor == "intel" and bare:
        if host.runtimes.compute_runtime is None:
            yield _obstacle("libze-intel-gpu1", gpu, host)
        if host.runtimes.level_zero is None:
            yield _obstacle("libze1", gpu, host)


def _obstacle(name: str, gpu: Gpu, host: Host, **facts: str) -> Obstacle:
    texts = toml_table(Path(__file__).with_name("obstacles.toml"))[name]
    layers = [layer for layer in host.surroundings if layer not in ("wsl", "vm")]
    remedy = texts["remedy"]
    where = "on this machine"
    place = host.platform
    if layers:
        place = "kubernetes" if "kubernetes" in layers else layers[-1]
        where = f"in this {place} container"
        remedy = texts.get("container", remedy)
    remedy = texts.get(f"{gpu.vendor}-{place}", remedy)
    facts |= {
        "where": where,
        "driver": gpu.driver_name,
        "maker": MAKERS[gpu.vendor],
    }
    return Obstacle(name, texts["reason"].format(**facts), remedy.format(**facts))
