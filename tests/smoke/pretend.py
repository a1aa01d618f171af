"""A pretend accelerator in pure Python, run by an environment's Python (torch 2.9 and later).

Its device type is ``pretend``. Its memory is the CPU's, hidden in a tensor that says it is on
``pretend:0``; operations that mix it with CPU tensors fail as they do on CUDA and XPU. A fault can
spoil single operations, so that a check of a device can be shown to fail.

Limits: no autocast, no generator, no ``torch.load(map_location="pretend")``.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = "pretend"
MEMORY = 2**34  # bytes that the device says it has
# Operator -> what changes its result: given the result and the raw arguments, returns the result.
SPOILED: dict[str, Callable[..., Any]] = {}
# What the device says of itself; faults change it.
SAYS: dict[str, Any] = {
    "available": True,
    "name": "Intel(R) Arc(TM) A770 Graphics",
    "id": 0x56A0,
    "driver": "1.6.33578",
}


class Backend:
    """The module ``torch.pretend``."""

    def is_initialized(self) -> bool:
        return True

    def init(self) -> None:
        if not SAYS["available"]:
            raise RuntimeError("No pretend device is available")

    def is_available(self) -> bool:
        return bool(SAYS["available"])

    def device_count(self) -> int:
        return int(SAYS["available"])

    def current_device(self) -> int:
        return 0

    def get_device_name(self, _device: object = None) -> str:
        return str(SAYS["name"])

    def get_device_properties(self, _device: object = None) -> SimpleNamespace:
        return SimpleNamespace(
            total_memory=MEMORY, driver_version=SAYS["driver"], device_id=SAYS["id"]
        )

    def memory_allocated(self) -> int:
        found = (item for item in gc.get_objects() if type(item) is PretendTensor)
        storages = {item.raw.untyped_storage().data_ptr(): item.raw for item in found}
        return sum(raw.untyped_storage().nbytes() for raw in storages.values())

    def synchronize(self, _device: object = None) -> None:
        pass

    def manual_seed_all(self, seed: int) -> None:
        pass

    def _is_in_bad_fork(self) -> bool:
        return False

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


class PretendTensor(torch.Tensor):
    """A CPU tensor (``raw``) in the clothes of a device tensor."""

    raw: torch.Tensor

    @staticmethod
    def __new__(cls, raw: torch.Tensor, requires_grad: bool | None = None) -> Any:
        if requires_grad is not None:  # Accelerate makes parameters anew by type(parameter)(…)
            return torch.nn.Parameter(raw, requires_grad)
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            raw.size(),
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            layout=raw.layout,
            device=DEVICE,
            requires_grad=False,
        )
        tensor.raw = raw
        return tensor

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self) -> str:
        return f"PretendTensor({self.raw!r})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Saved as what torch.load(map_location="cpu") makes of a device's tensor.
        return self.raw.detach().__reduce_ex__(protocol)

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return dispatch(function, args, kwargs or {})


def unwrap(value: Any) -> Any:
    return value.raw if isinstance(value, PretendTensor) else value


def wrap(value: Any) -> Any:
    plain = isinstance(value, torch.Tensor) and not isinstance(value, PretendTensor)
    return PretendTensor(value) if plain else value


def dispatch(function: Any, args: Any, kwargs: Any) -> Any:
    """Run one operation on raw memory, and dress the result for the device."""
    tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
    ours = [tensor for tensor in tensors if isinstance(tensor, PretendTensor)]
    name = function._schema.name
    if ours and _has_own_kernel(function):
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)
        return function.redispatch(keys, *args, **kwargs)
    if name == "aten::_to_copy":
        return _to_copy(function, args, kwargs)
    if name in ("aten::copy_", "aten::_copy_from"):
        target, source = args[:2] if name == "aten::copy_" else args[1::-1]
        unwrap(target).copy_(unwrap(source))
        return target
    _refuse_mixed(name, ours, tensors)
    raw_args, raw_kwargs = tree_map(unwrap, args), tree_map(unwrap, _on_cpu(kwargs))
    result = function(*raw_args, **raw_kwargs)
    if spoil := SPOILED.get(name):
        result = spoil(result, *raw_args)
    if name in ("aten::_local_scalar_dense", "aten::equal"):
        return result
    written = _written(function._schema, args, kwargs)
    return tree_map(wrap, result) if written is None else written


def _has_own_kernel(function: Any) -> bool:
    """Say whether somebody registered a kernel of a custom operator for the pretend device."""
    if function.namespace in ("aten", "prim"):
        return False
    overload = function._overloadname
    name = function._schema.name + ("" if overload == "default" else f".{overload}")
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1")


def _to_copy(function: Any, args: Any, kwargs: Any) -> Any:
    target = torch.device(kwargs.get("device") or args[0].device)
    where = torch.device("cpu") if target.type == NAME else target
    result = function(unwrap(args[0]), *args[1:], **{**kwargs, "device": where})
    if spoil := SPOILED.get("aten::_to_copy"):
        result = spoil(result, unwrap(args[0]))
    return wrap(result) if target.type == NAME else result


def _refuse_mixed(name: str, ours: list[Any], tensors: list[Any]) -> None:
    """Fail as CUDA does; a CPU tensor without dimensions may mix, as it may there."""
    strangers = [t for t in tensors if not isinstance(t, PretendTensor) and t.dim() > 0]
    if ours and strangers:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{DEVICE} and {strangers[0].device}! (when running {name})"
        )


def _on_cpu(kwargs: dict[str, Any]) -> dict[str, Any]:
    def move(value: Any) -> Any:
        ours = isinstance(value, torch.device) and value.type == NAME
        return torch.device("cpu") if ours else value

    return {key: move(value) for key, value in kwargs.items()}


def _written(schema: Any, args: Any, kwargs: Any) -> Any:
    """Return the arguments that an in-place or out= operation gives back, None for others."""
    infos = [each.alias_info for each in schema.returns]
    if not infos or not all(info is not None and info.is_write for info in infos):
        return None
    named = {each.name: each for each in schema.arguments}
    given = [
        *zip(schema.arguments, args, strict=False),
        *((named[key], value) for key, value in kwargs.items()),
    ]
    found = [
        next(v for a, v in given if a.alias_info and a.alias_info.before_set == info.before_set)
        for info in infos
    ]
    return found[0] if len(found) == 1 else tuple(found)


def _empty(size: Any, *, dtype: Any = None, memory_format: Any = None, **_kwargs: Any) -> Any:
    dtype = dtype or torch.get_default_dtype()
    bytes_asked = dtype.itemsize
    for length in size:
        bytes_asked *= length
    if bytes_asked > MEMORY:
        raise torch.OutOfMemoryError(
            f"pretend out of memory. Tried to allocate {bytes_asked} bytes"
        )
    memory_format = memory_format or torch.contiguous_format
    return PretendTensor(torch.empty(size, dtype=dtype, memory_format=memory_format))


def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **_kwargs: Any) -> Any:
    return PretendTensor(torch.empty_strided(size, stride, dtype=dtype))


def _copy_from(source: Any, target: Any, non_blocking: bool = False) -> Any:
    unwrap(target).copy_(unwrap(source))
    return target


@contextmanager
def spoiled(operator: str, change: Callable[..., Any]) -> Iterator[None]:
    """Let one operator of the device give another result while this lasts."""
    SPOILED[operator] = change
    try:
        yield
    finally:
        del SPOILED[operator]


_setup_privateuseone_for_python_backend(NAME, backend_module=Backend())
DEVICE = torch.device(NAME, 0)
# A wrapper has no storage to swap in: modules get the new tensor in the old one's identity.
torch.__future__.set_swap_module_params_on_conversion(True)
_LIBRARY = torch.library.Library("aten", "IMPL")
_LIBRARY.impl("empty.memory_format", _empty, "PrivateUse1")
_LIBRARY.impl("empty_strided", _empty_strided, "PrivateUse1")
_LIBRARY.impl("_copy_from", _copy_from, "PrivateUse1")
_AUTOCAST = torch.library.Library("_", "IMPL")
_AUTOCAST.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
