"""What a healthy device does not offer: anything else that it refuses is lost.

torch ships the table of operators (OpInfo) that its own tests compare between devices; it says for
each operator and kind of device which types it takes, forward and backward. What the table does not
say is in `LIST`, each line with its source. Neither is asked for attention, convolutions and
matrix products (`ALWAYS`): every device offers them in each floating point type.
"""

from __future__ import annotations

import functools
import sys
import types
import unittest
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from smoke.engine import child_process
from smoke.engine.check import Unmeasured
from smoke.reference.reference import release

TYPES = ("float32", "float16", "bfloat16")
HALF = TYPES[1:]
ALWAYS = frozenset(
    {
        # What the suite itself calls around each row.
        "bfloat16",
        "detach",
        "double",
        "float",
        "grad",
        "half",
        "to",
        "view",
        # What each program calls.
        "addbmm",
        "addmm",
        "baddbmm",
        "bmm",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "convolution",
        "linear",
        "matmul",
        "mm",
        "mv",
        "multi_head_attention_forward",
        "scaled_dot_product_attention",
    }
)
Releases = tuple[tuple[int, int], tuple[int, int]]
# Kind of device -> the releases of torch whose sources were read, the first and the last.
RELEASES = {
    "cpu": ((2, 1), (2, 15)),
    "cuda": ((2, 7), (2, 15)),
    "xpu": ((2, 6), (2, 14)),
    "mps": ((2, 8), (2, 15)),
}


class Line(NamedTuple):
    """Functions that some kinds of device do not offer in some types, in some releases."""

    accelerators: tuple[str, ...]
    functions: tuple[str, ...]
    dtypes: tuple[str, ...]
    source: str
    says: str = ""  # what of the error tells this case from others


GPUS = ("cuda", "xpu", "mps")
ALL = ("cpu", *GPUS)
LISTED = ((2, 1), (2, 15))  # the releases of torch that the list is about
LIST = (
    Line(
        ALL,
        ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "OVERRIDEABLE"),
        TYPES,
        "torch/nn/attention/__init__.py: a back end that is chosen by name refuses what it "
        "was not made for; the one that torch chooses does not",
    ),
    Line(
        ALL,
        ("angle", "complex", "polar", "view_as_complex"),
        HALF,
        "c10/core/ScalarType.h: ComplexHalf is a type for storage, with few operators",
        says="ComplexHalf",
    ),
    Line(
        ALL,
        ("norm", "matrix_norm", "svdvals"),
        HALF,
        "aten/src/ATen/native/LinearAlgebra.cpp, linalg_matrix_norm_checks",
        says="Low precision",
    ),
    Line(
        ("cpu",),
        ("local_response_norm",),
        HALF,
        "torch/nn/functional.py, local_response_norm: by avg_pool3d, which OpInfo has "
        "without half types on the CPU",
        says="avg_pool3d",
    ),
    Line(
        ("cpu",),
        ("interpolate",),
        HALF,
        "aten/src/ATen/native/cpu/UpSampleKernel.cpp: antialiasing is compiled for float "
        "and double",
        says="compute_index_ranges_weights",
    ),
    # As torch's table says, too, which takes seconds to read: without it every CPU would.
    Line(
        ("cpu",),
        ("cdist",),
        HALF,
        "aten/src/ATen/native/cpu/DistanceOpsKernel.cpp: distances are compiled for float and "
        "double",
        says="cdist",
    ),
    Line(
        GPUS,
        ("Adagrad",),
        TYPES,
        "aten/src/ATen/native/native_functions.yaml: _fused_adagrad_ is dispatched to the "
        "CPU alone before it came to CUDA, and not to XPU",
        says="fused",
    ),
)


class Calls(TorchFunctionMode):  # type: ignore[misc]
    """The names of torch's functions that are called while this lasts."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(
        self, function: Any, _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.names.add(plain(getattr(function, "__name__", "")))
        return function(*args, **(kwargs or {}))


def plain(name: str) -> str:
    """Return a function's name as both torch and its table of operators are asked by it."""
    if name.startswith("__"):  # as the reflected operators, `__rand__` for one
        return name
    name = name.rpartition(".")[2].strip("_")
    for area in ("linalg_", "fft_", "special_"):
        name = name.removeprefix(area)
    return name


def is_listed(accelerator: str) -> bool:
    """Return whether there is a list for this kind of device and this release of torch."""
    return _is_within(RELEASES[accelerator]) and bool(table(accelerator))


def _is_within(releases: Releases) -> bool:
    """Return whether this torch is of the first of two releases, the last, or between them."""
    first, last = releases
    return first <= release() <= last


def reason(names: Iterable[str], dtype: str, accelerator: str, error: str) -> str:
    """Return who says that a device does not offer one of these functions, "" for nobody.

    Args:
        names: The functions that were called.
        dtype: The type under test, as ``float16``.
        accelerator: The kind of device.
        error: What the device answered.
    """
    functions = set(names) - ALWAYS
    for line in LIST:
        if (
            accelerator in line.accelerators
            and _is_within(LISTED)
            and dtype in line.dtypes
            and functions.intersection(line.functions)
            and line.says in error
        ):
            return line.source
    for name in functions:
        if dtype in table(accelerator).get(name, ()):
            return "torch's table of operators"
    return ""


@functools.cache
def table(accelerator: str) -> dict[str, list[str]]:
    """Return the types that a kind of device lacks of each function, by torch's table.

    Empty where torch has no such table. It is read in its own process: torch's tests change
    torch's flags.
    """
    answer = child_process.call(
        f"{__name__}:lacking", timeout=200.0, accelerator=accelerator
    )
    return answer.value or {}


def lacking(accelerator: str) -> dict[str, list[str]]:
    """Return what `table` does; run in a fresh process."""
    # An operator can be there several times, with other options: one that works is enough.
    missing: dict[str, set[str]] = {}
    operators: dict[str, set[str]] = {}  # function -> the operators that are called so
    for entry in entries(accelerator):
        refused = {name for name in TYPES if not _takes(entry, name, accelerator)}
        missing.setdefault(entry.name, set(TYPES)).intersection_update(refused)
        aliases = [alias.name for alias in entry.aliases]
        for name in (entry.name, getattr(entry.op, "__name__", ""), *aliases):
            operators.setdefault(plain(name), set()).add(entry.name)
    lacks = {}
    for function, names in operators.items():
        dtypes = set().union(*[missing[name] for name in names])
        if dtypes:
            lacks[function] = sorted(dtypes)
    return lacks


def _takes(entry: Any, name: str, accelerator: str) -> bool:
    """Return whether torch's tests expect that an operator works in a type, with its gradient."""
    dtype = getattr(torch, name)
    if dtype not in entry.supported_dtypes(accelerator):
        return False
    if entry.supports_autograd:
        backward = entry.supported_backward_dtypes(accelerator)
        if dtype not in backward:
            return False
    if accelerator != "mps":
        return True
    for mark in entry.decorators:
        expected = getattr(mark, "decorators", ())
        everywhere = getattr(mark, "test_name", "") is None
        in_type = getattr(mark, "dtypes", None) is None or dtype in mark.dtypes
        if unittest.expectedFailure in expected and everywhere and in_type:
            return False
    return True


def entries(accelerator: str = "") -> list[Any]:
    """Return torch's table of operators; for MPS with what torch's tests expect to fail there.

    Raises:
        Unmeasured: This torch has none, or its table needs what is not installed.
    """
    # torch derives the class of its tests from one of a package that the table does not use.
    stand_in = types.ModuleType("expecttest")
    stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    sys.modules.setdefault("expecttest", stand_in)
    try:
        from torch.testing._internal import common_utils
        from torch.testing._internal.common_methods_invocations import op_db

        table = op_db
        if accelerator == "mps":
            from torch.testing._internal.common_mps import mps_ops_modifier

            table = mps_ops_modifier(op_db)
    except ImportError as error:
        raise Unmeasured(f"torch's table of operators: {error}") from error
    # Which test of torch asks: the search among all callers takes longer than most operators.
    common_utils.extract_test_fn = lambda: None
    return list(table)
