"""What an installer takes today for a requirement without an exact version."""

from functools import cache

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from provision.core.project import shipped
from provision.environment.installed import parse_version
from provision.lockfile.pip import read_lock

# The last minor releases of what is archived: no later one can appear.
_ARCHIVED = {"intel-extension-for-pytorch": (2, 8), "ipex-llm": (2, 2)}
NAMES = ("torch", *_ARCHIVED)
_NEWEST_TORCH = "cuda-linux"  # the target whose lock has it
# Packages that a requirement installs, too, by platform, and that matter beside torch for XPU:
# https://github.com/unslothai/unsloth/issues/10018
BRINGS = {
    "unsloth": {"win-64": "triton-windows", "linux-64": "triton"},
    "unsloth-zoo": {"win-64": "triton-windows", "linux-64": "triton"},
}
# Packages that require torch where a file does not name it, and are checked beside it.
BRING_TORCH = ("intel-extension-for-pytorch", "ipex-llm", "bigdl-llm")


def newest(name: str, specifier: SpecifierSet) -> str:
    """Return the newest release of one of ``NAMES`` that a specifier admits, or ""."""
    major, last = _ARCHIVED.get(name) or _locked_torch()
    candidates = [Version(f"{major}.{minor}.0") for minor in range(last + 1)]
    for bound in specifier:
        version = parse_version(bound.version.removesuffix(".*"))
        if version:
            candidates.append(version)
    admitted = [version for version in candidates if version in specifier]
    return str(max(admitted, default=""))


@cache
def _locked_torch() -> tuple[int, int]:
    """Return the major and minor number of the newest torch of the shipped locks."""
    lock = read_lock(shipped().lock(_NEWEST_TORCH))
    version = Version(lock.versions["torch"])
    return version.major, version.minor
