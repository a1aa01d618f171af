"""The samples of torch's own tests: each operator that torch has, with the options that it takes.

torch ships the table of operators (OpInfo) that its tests compare between devices, and what of them
differs on a healthy one (``test_ops.py: test_compare_cpu``).
"""

import math
import random
import re
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree

from smoke.checks import test_operators
from smoke.device import devices
from smoke.engine import child_process, on_cpu
from smoke.engine.check import Numbers, check, since
from smoke.engine.expect import KNOWN
from smoke.engine.finding import CheckFailed
from smoke.engine.journal import Journal
from smoke.reference import offered, reference
from smoke.reference.operators import Case
from smoke.reference.variants import Variant

FIRST, MOST = 200, 8  # of an operator's first samples, drawn: neighbours are alike
LIMIT = 5e-3  # torch's own comparison has 1e-3 in float32, but not cuDNN's TF32; see known.json
# Their result is not defined, one device alone has them, or they only make or move tensors.
UNFIT = re.compile(
    ".*(empty|dropout|jiterator|triton|scaled_mm|attention_|histogramdd|sparse).*"
    "|to|new_.*|.*_like|(lin|log)space.*"
)


@check(
    "operators.samples",
    stands_for="an option of an operator is wrong",
    when=since("torch", 2, 5),
    full=True,
)
def test_samples(device: torch.device, numbers: Numbers) -> None:
    """Each operator of torch is right for samples of torch's own tests, with its gradients."""
    # In a process of its own: torch's tests change torch's flags and Python's path for themselves.
    answer = child_process.call(
        "smoke.checks.test_samples:compare",
        timeout=600.0,
        device=str(device),
        journal=str(numbers.journal.path),
    )
    if answer.finding:
        raise CheckFailed(answer.finding)
    numbers.values, numbers.missing, numbers.unknown = answer.value


def compare(device: str, journal: str) -> list[Any]:
    """Compare all samples; return what was measured, and why the rest was not."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of what is deprecated
    warnings.filterwarnings("default", on_cpu.WARNING)
    numbers, own = Numbers(Journal(Path(journal))), torch.device(device)
    with numbers.measuring("samples"):
        table = [
            entry for entry in offered.entries() if not UNFIT.fullmatch(entry.full_name)
        ]
        shares: list[float] = []
        for entry in table:
            for case, variant in _cases(entry, own):
                shares += test_operators.shares_of(own, numbers, case, variant)
        numbers.record("samples", len(shares), "count")
        numbers.within("share of the limit", max(shares, default=math.inf), 1.0)
    return [numbers.values, numbers.missing, numbers.unknown]


def _cases(entry: Any, device: torch.device) -> Iterator[tuple[Case, Variant]]:
    """Yield samples of an operator (an OpInfo) in float32, where torch says that devices agree."""

    def spared(*test: str) -> bool:
        place = (*test, devices.kind(device), torch.float32, {})
        marks = (getattr(each, "is_active", None) for each in entry.decorators)
        return any(active and active(*place) for active in marks)

    known = KNOWN.get(devices.kind(device), {})
    if entry.name in known.get("samples", ()):
        return
    both = entry.supported_dtypes(device.type) & entry.supported_dtypes("cpu")
    if torch.float32 not in both or spared("TestCommon", "test_compare_cpu"):
        return
    gradient = entry.supports_autograd and not spared(
        "TestBwdGradients", "test_fn_grad"
    )
    layouts = ["contiguous", "transposed"]
    if entry.name in known.get("contiguous", ()) or spared(
        "TestCommon", "test_noncontiguous_samples"
    ):
        layouts = ["contiguous"]
    torch.manual_seed(0)
    samples = list(islice(entry.sample_inputs(str(device), torch.float32), FIRST))
    drawn = random.Random(0).sample(samples, min(MOST, len(samples)))  # noqa: S311
    for number, sample in enumerate(drawn):
        leaves = _pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
        given = [each.detach() for each in leaves if _is_on(each, device)]
        # With `sparse` the gradient is a sparse tensor, which is another operator's work.
        dense = not sample.kwargs.get("sparse")
        if (given and dense) and not any(
            x.is_complex() or x.layout != torch.strided for x in given
        ):
            # What takes no transposed inputs refuses them on the CPU, too, and is left out.
            layout = layouts[number % len(layouts)]
            inputs = [reference.laid_out(x.cpu(), layout) for x in given]
            case = Case(_run(entry, sample, device))
            yield (
                case,
                Variant(
                    f"{entry.full_name} {number}",
                    inputs,
                    ("contiguous",),
                    gradient,
                    "values",
                    limit=LIMIT,
                ),
            )


def _is_on(leaf: object, device: torch.device) -> bool:
    """Return whether a leaf of a sample is a tensor of the device: some have others, of the CPU."""
    return isinstance(leaf, torch.Tensor) and leaf.device.type == device.type


def _run(
    entry: Any, sample: Any, device: torch.device
) -> Callable[..., list[torch.Tensor]]:
    """Return a function of the tensors of a sample; it returns what is defined of the result."""
    leaves, tree = _pytree.tree_flatten((sample.input, sample.args, sample.kwargs))

    def run(*given: torch.Tensor) -> list[torch.Tensor]:
        rest = iter(given)
        there = [next(rest) if _is_on(each, device) else each for each in leaves]
        first, args, kwargs = _pytree.tree_unflatten(there, tree)
        try:
            found = entry(first, *args, **kwargs)
        except RuntimeError as error:  # of some inputs there is no derivative
            if (
                not re.search("derivative|differentiable", str(error))
                or len(given) == 1
            ):
                raise
            return run(given[0], *(each.detach() for each in given[1:]))
        results = _pytree.tree_leaves(sample.output_process_fn_grad(found))
        results = [each for each in results if isinstance(each, torch.Tensor)]
        return [
            torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
            for x in results
        ]

    return run
