"""Why a check failed, in the toolkit's own terms: symptom, cause, remedy, evidence."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Finding:
    """One failure and what to do about it; the report's form of the toolkit's findings."""

    code: str
    symptom: str
    cause: str
    remedy: str
    evidence: tuple[str, ...]
    level: str = "error"

    def as_json(self) -> dict[str, object]:
        """Return the finding as the report holds it."""
        return {**asdict(self), "evidence": list(self.evidence)}


class CheckFailed(Exception):  # noqa: N818 - it is an outcome, not an error of the suite
    """A check came to a verdict: what it proves does not hold here."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"{finding.code}: {finding.symptom}")
        self.finding = finding


def fail(
    code: str, symptom: str, *, cause: str, remedy: str, evidence: Iterable[object]
) -> NoReturn:
    """End the running check with a finding.

    Raises:
        CheckFailed: Always.
    """
    facts = tuple(str(fact) for fact in evidence)
    raise CheckFailed(Finding(code, symptom, cause, remedy, facts))


# Texts of torch, IPEX and Accelerate that have one known cause. First match wins.
KNOWN: tuple[tuple[tuple[str, ...], str, str, str], ...] = (
    (
        ("needs to work with PyTorch",),
        "ipex-torch-version-mismatch",
        "Intel Extension for PyTorch was built for another torch",
        "build the environment again from its lock; let nothing else install torch or IPEX into it",
    ),
    (  # IPEX 2.6 to 2.8 mean os._exit, and print the text above to stdout before
        ("module 'os' has no attribute 'exit'",),
        "ipex-torch-version-mismatch",
        "Intel Extension for PyTorch was built for another torch",
        "build the environment again from its lock; let nothing else install torch or IPEX into it",
    ),
    (
        ("Could not run 'torch_ipex::", "'CPU' backend"),
        "fused-op-on-cpu-backend",
        "an operator that exists only for the GPU was given CPU tensors",
        "move model and inputs to the device first, and install no second IPEX beside the stack's",
    ),
    (
        ("have already been automatically imported",),
        "ipex-llm-with-separate-ipex",
        "IPEX was imported separately although ipex-llm imports its own",
        "remove the separate import, and the separate IPEX",
    ),
    (
        ("Torch not compiled with",),
        "cpu-build-of-torch-installed",
        "the installed torch has no code for this device",
        "build the environment again from its lock",
    ),
    (
        ("Found no NVIDIA driver",),
        "driver-missing",
        "no NVIDIA driver is loaded",
        "install the NVIDIA driver, then run the smoke suite again",
    ),
    (
        ("NVIDIA driver on your system is too old",),
        "driver-too-old",
        "the NVIDIA driver is older than this CUDA build needs",
        "upgrade the NVIDIA driver",
    ),
    (
        ("could not make an engine with allocator",),
        "driver-too-old",
        "this torch's oneAPI runtime needs a newer Intel driver",
        "upgrade the driver, or choose the target whose torch this driver can run",
    ),
    (
        ("no kernel image is available",),
        "unsupported-gpu-architecture",
        "the wheel holds no kernels for this generation of GPU",
        "choose a target whose torch still builds for this GPU",
    ),
    (
        ("undefined symbol: iJIT_NotifyEvent",),
        "mkl-abi-break",
        "MKL is newer than this torch build expects",
        "install the MKL of the lock",
    ),
    (
        ("cannot open shared object file",),
        "oneapi-runtime-missing",
        "a native library is not on the loader's path",
        "build the environment again; on the legacy stacks start programs with `provision run`",
    ),
    (
        ("DLL load failed",),
        "missing-dll-windows",
        "a DLL that this module imports is not there",
        "run `provision doctor`: it names the missing DLL",
    ),
    (
        ("Required aspect fp64",),
        "fp64-unsupported",
        "this GPU has no double precision",
        "keep float64 tensors on the CPU",
    ),
    (
        ("at least two devices",),
        "mixed-devices",
        "one operation was given tensors of two devices",
        "move model and inputs to one device before they meet",
    ),
    (
        ("ut of memory",),
        "out-of-memory",
        "the device has not enough free memory",
        "close what else uses the device, then run the smoke suite again",
    ),
)


def recognise(text: str) -> tuple[str, str, str] | None:
    """Return code, cause and remedy of a known text, or None."""
    for needles, code, cause, remedy in KNOWN:
        if all(needle in text for needle in needles):
            return code, cause, remedy
    return None


def explain(error: BaseException, *, code: str = "op-fails") -> Finding:
    """Turn what a check raised into a finding.

    Args:
        error: The exception.
        code: The code where the text has no known cause.
    """
    if isinstance(error, CheckFailed):
        return error.finding
    text = f"{type(error).__name__}: {error}".strip()
    known = recognise(text)
    code, cause, remedy = known or (
        code,
        "not known; the error below is torch's own",
        "run `provision doctor`, and compare with the last report of this machine",
    )
    lines = [line.strip()[:300] for line in text.splitlines() if line.strip()]
    return Finding(code, _telling(lines), cause, remedy, (*lines[:4], *lines[4:][-4:]))


def _telling(lines: list[str]) -> str:
    """Return the line that says what happened; TorchScript puts it below its traceback."""
    if "TorchScript interpreter" not in lines[0]:
        return lines[0]
    return next(line for line in reversed(lines) if re.match(r"\w*(Error|Exception): ", line))
