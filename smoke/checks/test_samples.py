"""The samples of torch's own tests: each operator, module and optimizer that torch has.

torch ships the tables that its tests compare between devices, with the options that each takes and
what of them differs on a healthy device (``test_ops.py: test_compare_cpu``, ``test_modules.py:
test_cpu_gpu_parity``).
"""

import copy
import inspect
import math
import random
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import _get_fused_kernels_supported_devices
from torch.utils import _pytree

from smoke.checks import comparison
from smoke.device import devices
from smoke.engine import child_process, on_cpu
from smoke.engine.check import Numbers, check, since
from smoke.engine.expect import KNOWN, Expect
from smoke.engine.finding import CheckFailed
from smoke.engine.journal import Journal
from smoke.reference import offered, operators, reference
from smoke.reference.operators import Case
from smoke.reference.variants import Variant

# How many are drawn of the first samples, whose neighbours are alike.
FIRST, MOST, MODULES = 100, 8, 4
# torch's own comparison has 1e-3 in float32, but not cuDNN's TF32; see known.json. Half types have
# what 48 roundings are off.
LIMITS = {torch.float32: 5e-3, torch.float16: 2.4e-2, torch.bfloat16: 0.18}
# Modules that are compared in half types, too: torch's tests compare devices in float32.
HALF = re.compile(r"nn\.(LSTM|GRU|MultiheadAttention|Transformer(En|De)coderLayer)")
# Their result is not defined, one device alone has them, or they only make or move tensors.
UNFIT = re.compile(
    ".*(empty|dropout|jiterator|triton|scaled_mm|attention_|histogramdd|sparse).*"
    "|to|new_.*|.*_like|(lin|log)space.*"
)
Compared = Iterator[tuple[Case, Variant]]


def comparison_of(
    _expect: Expect, device: torch.device
) -> tuple[str, dict[str, object]]:
    """Return the call of `compare` for a device."""
    return "smoke.checks.test_samples:compare", {"device": str(device)}


@check(
    "operators.samples",
    stands_for="an option of an operator is wrong",
    when=since("torch", 2, 5),
    full=True,
    beside=comparison_of,
)
def test_samples(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """Operators, modules and optimizers are right for samples of torch's tests, with gradients."""
    # In its own process: torch's tests change torch's flags and Python's path for themselves.
    function, arguments = comparison_of(expect, device)
    answer = child_process.call(function, timeout=600.0, **arguments)
    if answer.finding:
        raise CheckFailed(answer.finding)
    numbers.values, numbers.missing, numbers.unknown = answer.value


def compare(device: str) -> list[Any]:
    """Compare all samples; return what was measured, and why the rest was not."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of what is deprecated
    warnings.filterwarnings("default", on_cpu.WARNING)
    with tempfile.TemporaryDirectory(prefix="smoke-") as folder:
        # Not the run's: other checks run meanwhile, and their steps are in it.
        numbers = Numbers(Journal(Path(folder, "journal.jsonl")))
        with numbers.measuring("samples"):
            _compare(torch.device(device), numbers)
    return [numbers.values, numbers.missing, numbers.unknown]


def _compare(device: torch.device, numbers: Numbers) -> None:
    """Compare all samples; Unmeasured where this torch has no table of operators."""
    table = offered.entries()
    shares: list[float] = []
    samples = chain(_optimizers(device), _modules(device), _operators(table, device))
    for case, variant in samples:
        shares += comparison.shares_of(device, numbers, case, variant)
    numbers.record("samples", len(shares), "count")
    numbers.within("share of the limit", max(shares, default=math.inf), 1.0)


def _operators(table: list[Any], device: torch.device) -> Compared:
    """Yield samples of operators (OpInfo), where torch says that devices agree."""
    known = KNOWN.get(devices.kind(device), {})
    for entry in table:
        if UNFIT.fullmatch(entry.full_name) or entry.name in known.get("samples", ()):
            continue
        if _is_marked(entry, device, "TestCommon", "test_compare_cpu"):
            continue
        strided = _is_marked(entry, device, "TestCommon", "test_noncontiguous_samples")
        layouts = ["contiguous"]
        if not strided and entry.name not in known.get("contiguous", ()):
            layouts.append("transposed")
        yield from _of_operator(entry, device, layouts)


def _of_operator(entry: Any, device: torch.device, layouts: list[str]) -> Compared:
    dtypes = entry.supported_dtypes(device.type) & entry.supported_dtypes("cpu")
    if torch.float32 not in dtypes:
        return
    wrong = _is_marked(entry, device, "TestBwdGradients", "test_fn_grad")
    torch.manual_seed(0)
    samples = entry.sample_inputs(str(device), torch.float32)
    for number, sample in enumerate(_some(samples)):
        # With `sparse` the gradient is a sparse tensor, which is another operator's work.
        if sample.kwargs.get("sparse"):
            continue
        plain = Sample(
            name=f"{entry.full_name} {number}",
            call=partial(_called, entry, sample),
            given=(sample.input, sample.args, sample.kwargs),
            device=device,
            layout=layouts[number % len(layouts)],
            gradient=entry.supports_autograd and not wrong,
        )
        yield from plain.compared(torch.float32, LIMITS[torch.float32])


def _called(entry: Any, sample: Any, first: Any, args: Any, kwargs: Any) -> Any:
    return sample.output_process_fn_grad(entry(first, *args, **kwargs))


def _modules(device: torch.device) -> Compared:
    """Yield samples of modules (ModuleInfo), as they train and as they are evaluated."""
    from torch.testing._internal.common_modules import module_db

    for info in module_db:
        unfit = _is_marked(info, device, "TestModule", "test_cpu_gpu_parity")
        # An embedding has no input of the type under test.
        if unfit or info.is_lazy or info.module_cls is nn.Embedding:
            continue
        yield from _of_module(info, device, training=True)
        # cuDNN has no gradients of one that is evaluated (test_modules.py: test_cpu_gpu_parity).
        if not _is_of_cudnn(info, device):
            yield from _of_module(info, device, training=False)


def _is_of_cudnn(info: Any, device: torch.device) -> bool:
    is_recurrent = issubclass(info.module_cls, nn.RNNBase)
    return is_recurrent and devices.kind(device) == "cuda"


def _of_module(info: Any, device: torch.device, *, training: bool) -> Compared:
    limits = LIMITS
    if not HALF.fullmatch(info.name):
        limits = {torch.float32: LIMITS[torch.float32]}
    if _is_of_cudnn(info, device):  # TF32 has float16's bits; each step rounds again
        limits = limits | {torch.float32: LIMITS[torch.float16]}
    torch.manual_seed(0)
    samples = info.module_inputs_func(
        info,
        device=str(device),
        dtype=torch.float32,
        requires_grad=False,
        training=training,
    )
    for number, sample in enumerate(_some(samples)[:MODULES]):
        given = (sample.forward_input.args, sample.forward_input.kwargs)
        name = f"{info.name} {number}, training {training}"
        for dtype, limit in limits.items():
            module = _module(info, sample.constructor_input, dtype)
            call = partial(_trained, module.train(training))
            yield from Sample(name, call, given, device).compared(dtype, limit)


def _module(info: Any, options: Any, dtype: torch.dtype) -> nn.Module:
    """Return a module on the CPU, with weights of the type under test."""
    torch.manual_seed(0)
    module = info.module_cls(*options.args, **options.kwargs)
    return module.to("cpu", dtype)


def _trained(plain: nn.Module, args: Any, kwargs: Any) -> list[Tensor]:
    """Return what a copy of a module makes, its weights' gradients, and its buffers."""
    leaves = _pytree.tree_leaves((args, kwargs))
    first = next(x for x in leaves if torch.is_tensor(x) and x.is_floating_point())
    module = copy.deepcopy(plain).to(first)
    results = _tensors(module(*args, **kwargs))
    frozen = _tensors(module(*_detached(args), **_detached(kwargs)))
    gradients = operators.slopes(frozen, list(module.parameters()))
    return [*results, *gradients, *module.buffers()]


def _optimizers(device: torch.device) -> Compared:
    """Yield three steps by each optimizer (OptimizerInfo), over lists and fused."""
    from torch.testing._internal.common_optimizers import optim_db

    inputs = [reference.noise(4, 7, 10, seed=seed) / 64 for seed in range(4)]
    has_fused = device.type in _get_fused_kernels_supported_devices()
    for info in optim_db:
        ways = []
        if "foreach" in info.supported_impls:
            ways.append("foreach")
        if has_fused and devices.kind(device) in info.supports_fused_on:
            ways.append("fused")
        samples = info.optim_inputs_func(device=devices.kind(device))
        for (number, sample), way in product(enumerate(samples), ways):
            case = Case(partial(_steps, info.optim_cls, sample.kwargs, way))
            name = f"{info.name} {number} {way} float32"
            plain = Variant(name, inputs, gradient=False, limit=1e-3)
            yield case, plain


def _steps(
    kind: Any, options: dict[str, Any], way: str, start: Tensor, *steps: Any
) -> Tensor:
    """Return what three steps change, in float64 without lists and kernels for them."""
    settings = dict(options)
    parameters = inspect.signature(kind).parameters
    for name in ("foreach", "fused"):
        if name in parameters:
            settings[name] = name == way and start.dtype != torch.float64
    if start.dtype == torch.float64:  # of a device alone
        settings.pop("capturable", None)
    weights = [nn.Parameter(part.clone()) for part in start]
    optimizer = kind(weights, **settings)
    scale = 1.0
    if settings.get("fused"):  # what a scaler of the loss asks for
        scale = 64.0
        optimizer.grad_scale = start.new_tensor(scale)
        optimizer.found_inf = start.new_tensor(0.0)
    for gradients in steps:
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient * scale
        optimizer.step()
    return torch.stack(weights).detach() - start


def _is_marked(entry: Any, device: torch.device, *test: str) -> bool:
    """Return whether torch's tests leave one of them out for an entry on a kind of device."""
    place = (*test, devices.kind(device), torch.float32, {})
    for mark in entry.decorators:
        is_active = getattr(mark, "is_active", None)
        if is_active and is_active(*place):
            return True
    return False


def _some(samples: Iterable[Any]) -> list[Any]:
    first = list(islice(samples, FIRST))
    return random.Random(0).sample(first, min(MOST, len(first)))  # noqa: S311


@dataclass
class Sample:
    """A call of torch's tests, whose tensors on the device are replaced by others."""

    name: str
    call: Callable[..., Any]
    given: tuple[Any, ...]
    device: torch.device
    layout: str = "contiguous"
    gradient: bool = True

    def compared(self, dtype: torch.dtype, limit: float) -> Compared:
        """Yield the comparison in a type, none where the tensors are not plain ones."""
        inputs = []
        for leaf in _pytree.tree_leaves(self.given):
            if not self._is_on_device(leaf):
                continue
            if leaf.is_complex() or leaf.layout != torch.strided:
                return
            # What takes no transposed inputs refuses them on the CPU, too, and is left out.
            x = reference.laid_out(leaf.detach().cpu(), self.layout)
            inputs.append(reference.cast(x, dtype))
        if inputs:
            variant = Variant(
                name=f"{self.name} {reference.short(dtype)}",
                inputs=inputs,
                gradient=self.gradient,
                judged="values",
                limit=limit,
            )
            yield Case(self.run), variant

    def run(self, *tensors: Tensor) -> list[Tensor]:
        """Call with other tensors; return what is defined of the result."""
        leaves, tree = _pytree.tree_flatten(self.given)
        others = iter(tensors)
        there = [next(others) if self._is_on_device(x) else x for x in leaves]
        try:
            result = self.call(*_pytree.tree_unflatten(there, tree))
            return _tensors(result)
        except RuntimeError as error:  # of some inputs there is no derivative
            refused = re.search("derivative|differentiable", str(error))
            if not refused or len(tensors) == 1:
                raise
            return self.run(tensors[0], *_detached(tensors[1:]))

    def _is_on_device(self, leaf: object) -> bool:
        """Return whether a leaf is a tensor of the device: some samples have others, of the CPU."""
        return isinstance(leaf, Tensor) and leaf.device.type == self.device.type


def _tensors(result: Any) -> list[Tensor]:
    leaves = _pytree.tree_leaves(result)
    return [_real(x) for x in leaves if isinstance(x, Tensor)]


def _real(x: Tensor) -> Tensor:
    if x.is_complex():
        return torch.view_as_real(x.resolve_conj())
    return x


def _detached(given: Any) -> Any:
    return _pytree.tree_map_only(Tensor, Tensor.detach, given)
