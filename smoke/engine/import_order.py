"""Modules that programs of a target import first, in order."""

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from smoke.engine.expect import Expect

# Distribution -> module. These register operators with torch when they are imported. ipex-llm comes
# first, because it imports IPEX itself and refuses one that is imported already.
OPERATOR_MODULES = {
    "ipex-llm": "ipex_llm",
    "intel-extension-for-pytorch": "intel_extension_for_pytorch",
}
LIBRARIES = ("torchvision", "accelerate", "transformers")  # modules of the same name


def operators(expect: Expect) -> list[str]:
    """Return torch and the locked modules that register operators with it."""
    modules = ["torch"]
    for name, module in OPERATOR_MODULES.items():
        if expect.locks(name):
            modules.append(module)
    return modules


def libraries(expect: Expect) -> list[str]:
    """Return the locked modules that programs use on top of them."""
    return [name for name in LIBRARIES if expect.locks(name)]


@contextmanager
def bytecode_written() -> Iterator[None]:
    """Let Python write bytecode of the environment's modules: the next process starts faster."""
    sys.dont_write_bytecode = False
    try:
        yield
    finally:
        sys.dont_write_bytecode = True


@contextmanager
def garbage_left() -> Iterator[None]:
    """Search no garbage during large imports, nor later in what they made: they leave hardly any.

    The search took a fifth of the time of an import of torch.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def load(module: str) -> None:
    """Import a module unless it is: on XPU ipex-llm imports IPEX, and refuses a second import."""
    if module not in sys.modules:
        importlib.import_module(module)
