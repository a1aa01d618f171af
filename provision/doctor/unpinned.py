"""What an installer takes today for a requirement without an exact version."""

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from provision.environment.installed import parse_version

# The last minor release of each: torch 2.15 is the newest in envs/; IPEX ended with 2.8, and
# ipex-llm with 2.2 (both are archived).
NEWEST = {
    "torch": (2, 15),
    "intel-extension-for-pytorch": (2, 8),
    "ipex-llm": (2, 2),
}
# Packages that a requirement brings along, by platform, and that matter beside torch for XPU:
# https://github.com/unslothai/unsloth/issues/10018
BRINGS = {
    "unsloth": {"win-64": "triton-windows", "linux-64": "triton"},
    "unsloth-zoo": {"win-64": "triton-windows", "linux-64": "triton"},
}
# Packages that bring torch where a file does not name it, and are judged beside it.
BRING_TORCH = ("intel-extension-for-pytorch", "ipex-llm", "bigdl-llm")


def newest(name: str, specifier: SpecifierSet) -> str:
    """Return the newest release of torch, IPEX or ipex-llm that a specifier admits, or ""."""
    major, last = NEWEST[name]
    candidates = [Version(f"{major}.{minor}.0") for minor in range(last + 1)]
    for bound in specifier:
        version = parse_version(bound.version.removesuffix(".*"))
        if version:
            candidates.append(version)
    admitted = [version for version in candidates if version in specifier]
    return str(max(admitted, default=""))
