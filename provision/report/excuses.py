"""Why a check of the suite has no result: the reasons that the suite writes, and when each is so.

A reason that a spec, a lock or a platform tells is compared with it; that of a device is its owner's
word. ``tests/report/test_excuses.py`` compares the list with the reasons in ``smoke/``.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from packaging.version import Version

from provision.lockfile.pip import Lock
from provision.spec.model import Target

_PLAIN = {"half", "interleaved"}  # kinds of rotation that need no package
_IPEX = {"ipex-llm", "intel-extension-for-pytorch"}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a reason is compared with."""

    target: Target
    lock: Lock

    def locks(self, name: str) -> bool:
        """Whether a distribution is locked; Triton has another name on each accelerator."""
        if name == "Triton":
            return "triton" in " ".join(self.lock.versions)
        return name.lower() in self.lock.versions

    def is_older(self, name: str, *release: int) -> bool:
        """Whether a locked release of a distribution is older than another."""
        version = self.lock.versions.get(name)
        return version is not None and Version(version).release[:2] < release


Holds = Callable[[Facts, re.Match[str]], bool]


def _is_said(_facts: Facts, _reason: re.Match[str]) -> bool:
    """Accept what only the device tells."""
    return True


@dataclass(frozen=True, slots=True)
class Excuse:
    """A reason, as a pattern, with the checks that may have it and when it holds."""

    checks: str
    reason: str
    holds: Holds = _is_said


def _is_cpu(facts: Facts, _: re.Match[str]) -> bool:
    return facts.target.accelerator == "cpu"


def _is_not_locked(facts: Facts, reason: re.Match[str]) -> bool:
    return not facts.locks(reason[1])


def _is_older(facts: Facts, reason: re.Match[str]) -> bool:
    return facts.is_older(reason[1], int(reason[2]), int(reason[3]))


def _is_of_old_ipex(facts: Facts, _: re.Match[str]) -> bool:
    return facts.is_older("torch", 2, 5) and facts.target.accelerator != "cpu"


def _has_no_memory_of_processes(facts: Facts, _: re.Match[str]) -> bool:
    on_linux = facts.target.platform.startswith("linux")
    return facts.target.accelerator == "cpu" and not on_linux


_LIMITED = ("xpu", "mps")  # accelerators with devices that have no float64
_EXCUSES = (
    Excuse(
        r"device\.(family|fallback|driver)|resume\.portable|memory\.large"
        r"|transfer\.\w+|health\.errors",
        "only for targets with a GPU",
        _is_cpu,
    ),
    Excuse(
        r"device\.driver",
        "the spec names no minimum driver",
        lambda facts, _: not facts.target.hardware.driver,
    ),
    Excuse(
        r"fused\.operators",
        "the spec names no fused operators",
        lambda facts, _: not facts.target.smoke.fused_ops,
    ),
    Excuse(
        r"rotary\.ipex-llm",
        "the spec does not name the rotation of ipex-llm",
        lambda facts, _: "ipex-llm" not in facts.target.smoke.rotary,
    ),
    Excuse(
        r"rotary\.(eager|scripted)",
        "the spec names no plain kind of rotary embedding",
        lambda facts, _: _PLAIN.isdisjoint(facts.target.smoke.rotary),
    ),
    Excuse(
        r"rotary\.scripted",
        "only for stacks of IPEX, which script models",
        lambda facts, _: not any(map(facts.locks, _IPEX)),
    ),
    Excuse(r"offload\.\w+", "needs (accelerate), which is not locked", _is_not_locked),
    Excuse(r"low-bit\.\w+", "needs (ipex-llm), which is not locked", _is_not_locked),
    Excuse(
        r"models\.(whisper|generate)|rotary\.transformers|programs\.generation",
        "needs (transformers), which is not locked",
        _is_not_locked,
    ),
    Excuse(r"compile\.mul_add", "needs (Triton), which is not locked", _is_not_locked),
    Excuse(
        r"operators\.(sizes|samples)|programs\.generation",
        r"older than (torch|transformers) \((\d+), (\d+)\)",
        _is_older,
    ),
    Excuse(
        r"resume\.scaler|programs\.training",
        "needs torch 2.3 or later",
        lambda facts, _: facts.is_older("torch", 2, 3),
    ),
    Excuse(
        r"operators\.options",
        "IPEX's kernels of rare operators are not known",
        _is_of_old_ipex,
    ),
    Excuse(
        r"memory\.(leak|release)",
        "needs a GPU, or Linux, which tells the memory of a process",
        _has_no_memory_of_processes,
    ),
    Excuse(r"group\.exchange", "only in a group of processes"),
    Excuse(
        r"memory\.large",
        r"only [\d.]+ GiB of memory are free|the device does not say that it may: .*",
    ),
    Excuse(
        r"resume\.scaler",
        "the device has no float64: .*",
        lambda facts, _: facts.target.accelerator in _LIMITED,
    ),
    Excuse(
        r"collective\.sum",
        r"this torch is built without a collective back end for (\w+)",
        lambda facts, reason: reason[1] == facts.target.accelerator,
    ),
    Excuse(
        r"compile\.mul_add",
        r"Triton needs compute capability 7\.0, this GPU has [56]\.\d",
        lambda facts, _: facts.target.accelerator == "cuda",
    ),
    Excuse(
        r"compile\.mul_add",
        r"no C(\+\+)? compiler|the compiler does not run: .*|\S.* fails: .*"
        r"|cl\.exe is not on PATH: .*|(INCLUDE|LIB|INCLUDE and LIB) not set: .*",
    ),
)
# What the reasons are written with.
WORDS = tuple(excuse.reason for excuse in _EXCUSES)
# Of a further device, such as an integrated GPU beside the one that the target is for.
_FURTHER = re.compile(
    r".+ is of family .+, the target is for .+|.+; this torch is built for .+"
)


def _fitting(check: str, reason: str) -> Iterator[tuple[Excuse, re.Match[str]]]:
    for excuse in _EXCUSES:
        match = re.fullmatch(excuse.reason, reason)
        if match and re.fullmatch(excuse.checks, check):
            yield excuse, match


def is_reason(check: str, reason: str) -> bool:
    """Whether the suite gives a check this reason, on whatever target."""
    name, _, further = check.partition("@")
    return any(_fitting(name, reason)) or bool(further and _FURTHER.fullmatch(reason))


def is_so(check: str, reason: str, target: Target, lock: Lock) -> bool:
    """Whether the suite gives a check this reason, and spec and lock do not contradict it."""
    facts = Facts(target, lock)
    for excuse, match in _fitting(check, reason):
        if excuse.holds(facts, match):
            return True
    return "@" in check and is_reason(check, reason)
