"""A pretend accelerator in pure Python, run by an environment's Python (torch 2.9 and later).

Its device type is ``pretend``. Its memory is the CPU's, hidden in a tensor that says it is on
``pretend:0``; operations that mix it with CPU tensors fail as they do on CUDA and XPU. A fault can
spoil single operations, so that a check of a device can be shown to fail.

It plays what `profiles.toml` holds of a real device: what it reports (`SAYS`), what it
refuses, and when errors surface. `worlds` lets torch's own functions agree with it.

Limits: results are the CPU's, without the rounding of a GPU; no generator; only new tensors count
against its memory, not results.
"""

from __future__ import annotations

import gc
import os
import time
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from torch._decomp import decompositions
from torch.utils._pytree import tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NAME = "pretend"
# Operator -> what changes its result: given the result and the raw arguments, returns the result.
# By the name of the operator, or by that of one overload, as "aten.sort.default".
SPOILED: dict[str, Callable[..., Any]] = {}
# What the device says of itself; faults and profiles change it. Keys besides the plain ones:
#   fields          of its properties, as this release of torch has them; None: all
#   fp64            "full"; "conversions" (casts only, as DG2 emulates them); "none"; "never": such
#                   tensors do not even come to the device, as on a Mac
#   largest         bytes of the largest tensor, None: all memory; over_largest: the text then
#   out_of_memory   how torch words it
#   free_memory     what mem_get_info does: works, raises, stale
#   first_kernel    seconds of computing that the first launch of a process takes: kernels are
#                   compiled; seconds stand for minutes
#   refuses         a text that every operation raises, "" for none: busy, exclusive, broken
#   loses           the error that the first kernel causes, raised at a synchronisation; afterwards
#                   every call raises `AFTER_LOST`
#   prints          lines on standard error at the first operation of a process
#   others          further devices: what each says otherwise
SAYS: dict[str, Any] = {
    "available": True,
    "name": "Intel(R) Arc(TM) B580 Graphics",
    "id": 0xE20B,
    "driver": "1.6.33578+13",
    "capability": None,
    "memory": 2**34,
    "fields": None,
    "fp64": "full",
    "largest": None,
    "over_largest": "",
    "out_of_memory": "XPU out of memory. Tried to allocate",
    "free_memory": "works",
    "first_kernel": 0.0,
    "refuses": "",
    "loses": "",
    "prints": [],
    "others": [],
}
AFTER_LOST = (
    "level_zero backend failed with error: 2147483646 (UR_RESULT_ERROR_UNKNOWN)"
)
NO_FP64 = "Required aspect fp64 is not supported on the device"
NEVER_FP64 = "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support it"
FREE_MEMORY = "doesn't support querying the available free memory"
HALF = (torch.float16, torch.bfloat16)
# Memory is counted only where this much is asked for: it is a search through all objects.
COUNTED = 2**26
# Operators that take the lengths of sequences from the host; the first gives such lengths back.
WITH_LENGTHS = ("aten::_pack_padded_sequence", "aten::_ctc_loss")
# Functions of torch that a tensor of Python can't play: a change of its shape in place, indices of
# the CPU, a list of its values; and samples at which points are looked up on an edge.
UNFIT = ".*(combinations|stft|quantile|getitem|index_put|ctc_loss|grid_sampler_3d).*"
# Operators that launch no kernel: memory is only granted, moved or looked at another way.
NO_KERNEL = frozenset(
    {
        "aten::_to_copy",
        "aten::copy_",
        "aten::_copy_from",
        "aten::_local_scalar_dense",
        "aten::detach",
        "aten::set_",
        "aten::lift_fresh",
        "aten::_reshape_alias",
    }
)


class Queue:
    """The work that is queued: its errors surface when the process synchronises with the device.

    Attributes:
        pending: The error of an operation that was only queued.
        afterwards: What every later call raises once that error has surfaced; "" for none.
        lost: What every call raises now.
        launched: Whether this process has launched a kernel.
    """

    pending = ""
    afterwards = ""
    lost = ""
    launched = False

    def fail(self, text: str, afterwards: str = "") -> None:
        """Let an error surface at the next synchronisation."""
        self.pending, self.afterwards = self.pending or text, afterwards

    def surface(self) -> None:
        """Raise what is pending, as synchronisation and copies to the host do."""
        if self.pending:
            text, self.pending, self.lost = self.pending, "", self.afterwards
            raise RuntimeError(text)
        self.alive()

    def alive(self) -> None:
        """Raise if the context is lost: nothing works after that."""
        if self.lost:
            raise RuntimeError(self.lost)

    def launch(self) -> None:
        """Begin one operation; the first one of a process prints, and may be slow."""
        self.alive()
        if not self.launched:
            self.launched = True
            for line in SAYS["prints"]:
                os.write(2, line.encode() + b"\n")
            compute(SAYS["first_kernel"])
            if SAYS["loses"]:
                self.fail(SAYS["loses"], AFTER_LOST)

    def reset(self) -> None:
        """Be as in a fresh process."""
        self.pending = self.afterwards = self.lost = ""
        self.launched = False


def compute(seconds: float) -> None:
    """Keep the processor busy, as a compiler of kernels does."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


QUEUE = Queue()


def says(device=None) -> dict[str, Any]:
    """Return what one device says of itself."""
    number = _index(device)
    if not SAYS["available"] or not 0 <= number <= len(SAYS["others"]):
        raise RuntimeError("CUDA error: invalid device ordinal")
    return {**SAYS, **SAYS["others"][number - 1]} if number else SAYS


def _index(device) -> int:
    if isinstance(device, str):
        device = torch.device(device)
    return (getattr(device, "index", device) or 0) if device is not None else 0


class Backend:
    """The module ``torch.pretend``."""

    def get_rng_state(self, *_device) -> torch.Tensor:
        """Its random numbers are the host's."""
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, *_device) -> None:
        torch.set_rng_state(state)

    def is_initialized(self) -> bool:
        return True

    def init(self) -> None:
        if not SAYS["available"]:
            raise RuntimeError("No pretend device is available")

    def is_available(self) -> bool:
        return bool(SAYS["available"])

    def device_count(self) -> int:
        return 1 + len(SAYS["others"]) if SAYS["available"] else 0

    def current_device(self) -> int:
        return 0

    def set_device(self, _device: object) -> None:
        pass

    def get_device_name(self, device: object = None) -> str:
        return str(says(device)["name"])

    def get_device_capability(self, device: object = None) -> tuple[int, int]:
        major, minor = says(device)["capability"].split(".")
        return int(major), int(minor)

    def get_device_properties(self, device: object = None) -> SimpleNamespace:
        """Return the fields that this release of torch has, and no others."""
        said = says(device)
        major, _, minor = (said["capability"] or "0.0").partition(".")
        full = said["fp64"] == "full"
        known = {
            "name": said["name"],
            "total_memory": said["memory"],
            "driver_version": said["driver"],
            "device_id": said["id"],
            "major": int(major),
            "minor": int(minor),
            "has_fp64": full,
            "support_fp64": full,
            "has_fp16": True,
            "type": "gpu",
            "dev_type": "gpu",
            "sub_group_sizes": said.get("sub_groups", [16, 32]),
        }
        fields = said["fields"] or list(known)
        return SimpleNamespace(**{name: known.get(name, 0) for name in fields})

    def mem_get_info(self, device: object = None) -> tuple[int, int]:
        said = says(device)
        if said["free_memory"] == "raises":
            raise RuntimeError(f"The device ({said['name']}) {FREE_MEMORY}.")
        taken = 0 if said["free_memory"] == "stale" else self.memory_allocated(device)
        return said["memory"] - taken, said["memory"]

    def memory_allocated(self, device: object = None) -> int:
        number = _index(device)
        found = (
            item
            for item in gc.get_objects()
            if type(item) is PretendTensor and item.number == number
        )
        storages = {item.raw.untyped_storage().data_ptr(): item.raw for item in found}
        return sum(raw.untyped_storage().nbytes() for raw in storages.values())

    memory_reserved = memory_allocated

    def empty_cache(self) -> None:
        pass

    def synchronize(self, _device: object = None) -> None:
        QUEUE.surface()

    def manual_seed_all(self, seed: int) -> None:
        pass

    def _is_in_bad_fork(self) -> bool:
        return False

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


class PretendTensor(torch.Tensor):
    """A CPU tensor (``raw``) that says it is on the device of this number."""

    raw: torch.Tensor
    number: int

    @staticmethod
    def __new__(
        cls, raw: torch.Tensor, requires_grad: bool | None = None, *, number: int = 0
    ):
        if (
            requires_grad is not None
        ):  # Accelerate makes parameters anew by type(parameter)(…)
            return torch.nn.Parameter(raw, requires_grad)
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            raw.size(),
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            layout=raw.layout,
            device=torch.device(NAME, number),
            requires_grad=False,
        )
        tensor.raw, tensor.number = raw, number
        return tensor

    __torch_function__ = torch._C._disabled_torch_function_impl

    def data_ptr(self) -> int:
        # A wrapper has none, and Accelerate knows tied weights by their address.
        return self.raw.data_ptr()

    def __deepcopy__(self, memo: dict[int, Any]):
        # torch copies the storage of what has an address; a wrapper has none.
        copied = PretendTensor(self.raw.detach().clone(), number=self.number)
        is_parameter = isinstance(self, torch.nn.Parameter)
        memo[id(self)] = (
            torch.nn.Parameter(copied, self.requires_grad) if is_parameter else copied
        )
        return memo[id(self)]

    def __repr__(self) -> str:
        return f"PretendTensor({self.raw!r})"

    def __reduce_ex__(self, protocol):
        # Saved as what torch.load(map_location="cpu") makes of a device's tensor.
        return self.raw.detach().__reduce_ex__(protocol)

    @classmethod
    def __torch_dispatch__(cls, function, _types, args=(), kwargs=None):
        return dispatch(function, args, kwargs or {})


def load(plain, file, map_location=None, **more):
    """Load a checkpoint as ``torch.load`` does, which cannot make storages of this device."""
    if not str(map_location).startswith(NAME):
        return plain(file, map_location, **more)
    found = plain(file, "cpu", **more)
    return tree_map(
        lambda x: x.to(map_location) if isinstance(x, torch.Tensor) else x, found
    )


def unwrap(value):
    return value.raw if isinstance(value, PretendTensor) else value


def wrap(value, number: int = 0):
    plain = isinstance(value, torch.Tensor) and not isinstance(value, PretendTensor)
    # A wrapper does not say that its tensor is still to be conjugated.
    return PretendTensor(value.resolve_conj(), number=number) if plain else value


def mapped(change: Callable[[Any], Any], value):
    """Change what an operation takes or returns, each element of a list or tuple.

    It is done half a million times in a play; torch's tree_map, which knows all kinds of nests,
    took a fifth of it.
    """
    if isinstance(value, (list, tuple)):
        return type(value)([change(each) for each in value])
    return change(value)


def tensors_in(values: Iterable[Any]) -> list[torch.Tensor]:
    """Return the tensors among some values, and in those that are lists or tuples."""
    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [each for each in value if isinstance(each, torch.Tensor)]
    return found


def dispatch(function, args, kwargs):
    """Run one operation on raw memory, and wrap the result for the device."""
    tensors = tensors_in((*args, *kwargs.values()))
    ours = [tensor for tensor in tensors if isinstance(tensor, PretendTensor)]
    number = ours[0].number if ours else _index(kwargs.get("device"))
    name = function._schema.name
    if ours and _has_own_kernel(function):
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)
        return function.redispatch(keys, *args, **kwargs)
    _launch(number)
    if name == "aten::_to_copy":
        return _to_copy(function, args, kwargs)
    if name in ("aten::copy_", "aten::_copy_from"):
        target, source = args[:2] if name == "aten::copy_" else args[1::-1]
        return _copy(source, target)
    if name not in WITH_LENGTHS:
        _refuse_mixed(name, ours, tensors)
    raw_args = [mapped(unwrap, value) for value in args]
    raw_kwargs = {key: mapped(unwrap, _on_cpu(value)) for key, value in kwargs.items()}
    _refuse_fp64(function, [*ours, kwargs.get("dtype")], number)
    result = _computed(function, raw_args, raw_kwargs)
    _refuse_fp64(function, tensors_in([result]), number)
    if spoil := SPOILED.get(name) or SPOILED.get(str(function)):
        result = spoil(result, *raw_args)
    if name in ("aten::_local_scalar_dense", "aten::equal"):
        QUEUE.surface()
        return result
    if name == "aten::_pack_padded_sequence":
        return wrap(result[0], number), result[1]
    written = _written(function._schema, args, kwargs)
    return (
        mapped(lambda each: wrap(each, number), result) if written is None else written
    )


def _computed(function, args, kwargs):
    """Run an operation on the CPU, in float32 where the CPU has no kernel for a half type."""
    try:
        return function(*args, **kwargs)
    except (NotImplementedError, RuntimeError):
        given = tensors_in([*args, *kwargs.values()])
        if not any(x.dtype in HALF for x in given):
            raise
        return _in_float32(function, args, kwargs)


def _in_float32(function, args, kwargs):
    """Compute what the CPU has no kernel for in half types, as devices do: they have more."""
    types: list[torch.dtype] = []

    def widen(value):
        if not isinstance(value, torch.Tensor) or value.dtype not in HALF:
            return value
        types.append(value.dtype)
        return value.float()

    def narrow(value):
        is_wide = isinstance(value, torch.Tensor) and value.dtype == torch.float32
        return value.to(types[0]) if is_wide else value

    if function._schema.is_mutable:
        raise NotImplementedError(f"{function} is not played in half types")
    wide = [mapped(widen, value) for value in args]
    named = {key: mapped(widen, value) for key, value in kwargs.items()}
    return mapped(narrow, function(*wide, **named))


def _launch(number: int) -> None:
    QUEUE.launch()
    if text := says(number)["refuses"]:
        raise RuntimeError(text)


def _refuse_fp64(function, values: Iterable[Any], number: int) -> None:
    """Fail as a device without float64 does when a kernel would compute in it."""
    if (
        says(number)["fp64"] == "full"
        or function._schema.name in NO_KERNEL
        or function.is_view
    ):
        return
    if any(getattr(each, "dtype", each) == torch.float64 for each in values):
        _refuse_ever(torch.float64, number)
        # torch 2.13 ends a process in which a kernel in Python raises during a backward pass.
        if torch._C._current_graph_task_id() >= 0:
            QUEUE.fail(NO_FP64)
        else:
            raise RuntimeError(NO_FP64)


def _refuse_ever(dtype, number: int) -> None:
    """Fail as MPS does where a tensor of float64 would come to be on the device."""
    if dtype == torch.float64 and says(number)["fp64"] == "never":
        raise TypeError(NEVER_FP64)


def _refuse_conversion(source, dtype) -> None:
    """Fail where a device without any float64 would convert: the source's device does it."""
    if not isinstance(source, PretendTensor) or says(source.number)["fp64"] != "none":
        return
    if dtype != source.dtype and torch.float64 in (dtype, source.dtype):
        raise RuntimeError(NO_FP64)


def _has_own_kernel(function) -> bool:
    """Say whether somebody registered a kernel of a custom operator for the pretend device."""
    if function.namespace in ("aten", "prim"):
        return False
    overload = function._overloadname
    name = function._schema.name + ("" if overload == "default" else f".{overload}")
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1")


def _to_copy(function, args, kwargs):
    target = torch.device(kwargs.get("device") or args[0].device)
    there = target.type == NAME
    _refuse_conversion(args[0], kwargs.get("dtype") or args[0].dtype)
    if there:
        _refuse_ever(kwargs.get("dtype") or args[0].dtype, _index(target))
        _grant(
            args[0].numel() * (kwargs.get("dtype") or args[0].dtype).itemsize, target
        )
    else:
        QUEUE.surface()
    where = torch.device("cpu") if there else target
    result = function(unwrap(args[0]), *args[1:], **{**kwargs, "device": where})
    if spoil := SPOILED.get("aten::_to_copy"):
        result = spoil(result, unwrap(args[0]))
    return wrap(result, _index(target)) if there else result


def _copy(source, target):
    _refuse_conversion(source, target.dtype)
    if not isinstance(target, PretendTensor):
        QUEUE.surface()
    unwrap(target).copy_(unwrap(source))
    return target


def _refuse_mixed(name: str, ours: list[Any], tensors: list[Any]) -> None:
    """Fail as CUDA does; a CPU tensor without dimensions may mix, as it may there."""
    if len(tensors) < 2:
        return
    strangers = [
        tensor
        for tensor in tensors
        if ours and tensor.device != ours[0].device
        if isinstance(tensor, PretendTensor) or tensor.dim() > 0
    ]
    if strangers:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{ours[0].device} and {strangers[0].device}! (when running {name})"
        )


def _on_cpu(value):
    ours = isinstance(value, torch.device) and value.type == NAME
    return torch.device("cpu") if ours else value


def _written(schema, args, kwargs):
    """Return the arguments that an in-place or out= operation gives back, None for others."""
    if not schema.is_mutable:
        return None
    infos = [each.alias_info for each in schema.returns]
    if not infos or not all(info is not None and info.is_write for info in infos):
        return None
    named = {each.name: each for each in schema.arguments}
    given = [
        *zip(schema.arguments, args, strict=False),
        *((named[key], value) for key, value in kwargs.items()),
    ]
    found = [
        next(
            v
            for a, v in given
            if a.alias_info and a.alias_info.before_set == info.before_set
        )
        for info in infos
    ]
    return found[0] if len(found) == 1 else tuple(found)


def _grant(size: int, device) -> None:
    """Refuse what the device cannot hold, in the words of its torch."""
    said = says(device)
    if said["largest"] is not None and size > said["largest"]:
        raise RuntimeError(said["over_largest"])
    taken = Backend().memory_allocated(device) if size >= COUNTED else 0
    if taken + size > said["memory"]:
        raise torch.OutOfMemoryError(f"{said['out_of_memory']} {size / 2**30:.2f} GiB.")


def _empty(
    size,
    *,
    dtype=None,
    memory_format=None,
    device=None,
    **_kwargs,
):
    dtype = dtype or torch.get_default_dtype()
    _refuse_ever(dtype, _index(device))
    bytes_asked = dtype.itemsize
    for length in size:
        bytes_asked *= length
    _launch(_index(device))
    _grant(bytes_asked, device)
    memory_format = memory_format or torch.contiguous_format
    raw = torch.empty(size, dtype=dtype, memory_format=memory_format)
    return PretendTensor(raw, number=_index(device))


def _zeros(size, *, dtype=None, device=None, **_kwargs):
    """Return the zeros that torch makes without memory, as a gradient that is nowhere needed."""
    return wrap(torch.zeros(size, dtype=dtype), _index(device))


def _arange(*limits, dtype=None, device=None, **_kwargs):
    """Count on the host: torch would resize an empty tensor, and a wrapper keeps its size."""
    _launch(_index(device))
    return wrap(torch.arange(*limits, dtype=dtype), _index(device))


def _empty_strided(size, stride, *, dtype=None, device=None, **_kwargs):
    _launch(_index(device))
    _refuse_ever(dtype, _index(device))
    raw = torch.empty_strided(size, stride, dtype=dtype)
    _grant(raw.untyped_storage().nbytes(), device)
    return PretendTensor(raw, number=_index(device))


def _copy_from(source, target, non_blocking: bool = False):
    _launch(
        _index(target.device if isinstance(target, PretendTensor) else source.device)
    )
    return _copy(source, target)


@contextmanager
def spoiled(operator: str, change: Callable[..., Any]):
    """Let one operator of the device give another result while this lasts."""
    before = SPOILED.get(operator)

    def both(result, *args):
        return change(before(result, *args) if before else result, *args)

    with patch.dict(SPOILED, {operator: both}):
        yield


_setup_privateuseone_for_python_backend(NAME, backend_module=Backend())
DEVICE = torch.device(NAME, 0)
# A wrapper has no storage to swap in: modules get the new tensor in the old one's identity.
torch.__future__.set_swap_module_params_on_conversion(True)
_LIBRARY = torch.library.Library("aten", "IMPL")
_LIBRARY.impl("empty.memory_format", _empty, "PrivateUse1")
_LIBRARY.impl("empty_strided", _empty_strided, "PrivateUse1")
for _overload in ("arange", "arange.start", "arange.start_step"):
    _LIBRARY.impl(_overload, _arange, "PrivateUse1")
_LIBRARY.impl("_efficientzerotensor", _zeros, "PrivateUse1")
_LIBRARY.impl("_copy_from", _copy_from, "PrivateUse1")
# Recurrent networks have fused cells on devices, and none on the CPU: torch's own steps instead.
_LIBRARY.impl("lstm.data", decompositions.lstm_data_impl, "AutogradPrivateUse1")
_LIBRARY.impl("gru.data", decompositions.gru_impl_data, "AutogradPrivateUse1")
_AUTOCAST_OFF = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)


def _cast(operator, dtype: Callable[[], torch.dtype]) -> Callable[..., Any]:
    """Return a kernel of autocast: the operator, with its floating point arguments converted."""

    def convert(value):
        floats = isinstance(value, PretendTensor) and value.is_floating_point()
        return value.to(dtype()) if floats and value.dtype != torch.float64 else value

    def kernel(*args, **kwargs):
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST_OFF):
            return operator(*tree_map(convert, args), **tree_map(convert, kwargs))

    return kernel


# The operators of torch's own lists for CUDA and XPU that the suite reaches.
_LOWER = (
    "mm",
    "addmm",
    "bmm",
    "matmul",
    "linear",
    "convolution",
    "conv2d",
    "scaled_dot_product_attention",
)
_FLOAT32 = (
    "nll_loss",
    "log_softmax.int",
    "softmax.int",
    "layer_norm",
    "exp",
    "sum",
    "norm.Scalar",
)
_AUTOCAST = torch.library.Library("_", "IMPL")
_AUTOCAST.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
for _names, _dtype in (
    (_LOWER, lambda: torch.get_autocast_dtype(NAME)),
    (_FLOAT32, lambda: torch.float32),
):
    for _name in _names:
        _base, _, _overload = _name.partition(".")
        _operator = getattr(getattr(torch.ops.aten, _base), _overload or "default")
        _LIBRARY.impl(_name, _cast(_operator, _dtype), "AutocastPrivateUse1")
