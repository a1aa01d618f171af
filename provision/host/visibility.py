"""Which GPUs the selector variables hide from programs.

Level Zero numbers its devices discrete before integrated, then by PCI address, unless
``ZE_ENABLE_PCI_ID_DEVICE_ORDER`` is 1 (``comparePciIdBusNumber`` in compute-runtime's
execution_environment.cpp). ``ZE_AFFINITY_MASK`` is applied first; ``ONEAPI_DEVICE_SELECTOR``
numbers the devices that remain (https://github.com/intel/llvm/blob/sycl/sycl/doc/EnvironmentVariables.md).
"""

import re
from collections.abc import Mapping, Sequence

from provision.host.model import Gpu, Host

_BACKENDS = {"*", "level_zero", "level_zero_v2"}
_NONE = {"none", "void", "no"}


def hidden(host: Host) -> dict[str, str]:
    """Return the hidden GPUs: address to ``NAME=value`` of the variable that hides it."""
    return _hidden_intel(in_level_zero_order(host), host.variables) | _hidden_nvidia(
        host
    )


def in_level_zero_order(host: Host) -> list[Gpu]:
    """Return Intel's GPUs in Level Zero's order; one with two tiles counts twice."""
    by_bus = host.variables.get("ZE_ENABLE_PCI_ID_DEVICE_ORDER") == "1"
    # Level Zero does not see, and so does not number, a GPU without a driver.
    found = [
        gpu for gpu in host.gpus if gpu.vendor == "intel" and gpu.driver is not None
    ]
    found.sort(key=lambda gpu: (not by_bus and gpu.integrated is True, gpu.address))
    flat = host.variables.get("ZE_FLAT_DEVICE_HIERARCHY", "FLAT").upper() != "COMPOSITE"
    return [gpu for gpu in found for _ in range(gpu.tiles if flat else 1)]


def malformed(selector: str) -> str | None:
    """Return the first term of an ``ONEAPI_DEVICE_SELECTOR`` that its parser rejects, or None."""
    valid = re.compile(r"!?[\w*]+:[\w*.,]+")
    return next(
        (t for t in selector.split(";") if t and not valid.fullmatch(t.strip())), None
    )


def _hidden_intel(
    ordered: Sequence[Gpu], variables: Mapping[str, str]
) -> dict[str, str]:
    remaining, gone = list(ordered), {}
    if mask := variables.get("ZE_AFFINITY_MASK"):
        # 0.1 is the second tile of device 0, which is then not hidden as a whole.
        wanted = {word.split(".")[0].strip() for word in mask.split(",")}
        remaining = [gpu for number, gpu in enumerate(ordered) if str(number) in wanted]
        gone = _missing(ordered, remaining, f"ZE_AFFINITY_MASK={mask}")
    if selector := variables.get("ONEAPI_DEVICE_SELECTOR"):
        chosen = [gpu for i, gpu in enumerate(remaining) if selects(selector, i)]
        gone |= _missing(remaining, chosen, f"ONEAPI_DEVICE_SELECTOR={selector}")
    return gone


def _missing(before: Sequence[Gpu], after: Sequence[Gpu], why: str) -> dict[str, str]:
    kept = {gpu.address for gpu in after}
    return {gpu.address: why for gpu in before if gpu.address not in kept}


def selects(selector: str, index: int) -> bool:
    """Whether an ``ONEAPI_DEVICE_SELECTOR`` selects the Level Zero GPU of this number."""
    if malformed(selector):
        return False  # the runtime aborts the program, so it uses no GPU
    terms = [term.strip() for term in selector.lower().split(";") if term.strip()]
    wanted = [term for term in terms if not term.startswith("!")]
    unwanted = [term[1:] for term in terms if term.startswith("!")]
    chosen = any(_matches(term, index) for term in wanted) if wanted else True
    return chosen and not any(_matches(term, index) for term in unwanted)


def _matches(term: str, index: int) -> bool:
    backend, _, devices = term.partition(":")
    names = {word.split(".")[0] for word in devices.split(",")}
    return backend in _BACKENDS and bool(names & {"*", "gpu", str(index)})


def _hidden_nvidia(host: Host) -> dict[str, str]:
    cards = [gpu for gpu in host.gpus if gpu.vendor == "nvidia"]
    value = host.variables.get("NVIDIA_VISIBLE_DEVICES")
    # Only NVIDIA's container runtime reads this variable.
    if host.surroundings and value is not None and value.strip().lower() in _NONE:
        return {gpu.address: f"NVIDIA_VISIBLE_DEVICES={value}" for gpu in cards}
    visible = host.variables.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return {}
    why = f"CUDA_VISIBLE_DEVICES={visible}"
    numbers = _cuda_numbers(visible)
    alike = len({gpu.device_id for gpu in cards}) < 2
    by_bus = host.variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if numbers is None or (numbers and not alike and not by_bus):
        # By UUID, or numbered by speed (CUDA's default order for unlike GPUs): neither is known
        # here, and a wrong "hidden" would be worse than none.
        return {}
    return {gpu.address: why for i, gpu in enumerate(cards) if i not in numbers}


def _cuda_numbers(visible: str) -> set[int] | None:
    """Return the numbers before the first invalid one, as CUDA does; None for UUIDs."""
    numbers: set[int] = set()
    for word in visible.split(","):
        if word.strip().upper().startswith(("GPU-", "MIG-")):
            return None
        if not word.strip().isdecimal():
            break
        numbers.add(int(word))
    return numbers
