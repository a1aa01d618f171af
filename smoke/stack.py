"""What programs of a target import first, in their order."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smoke.expect import Expect

# Distribution -> module; these register operators, so torch is not complete without them.
OPERATORS = {
    "ipex-llm": "ipex_llm",
    "intel-extension-for-pytorch": "intel_extension_for_pytorch",
}
LIBRARIES = {
    "torchvision": "torchvision",
    "accelerate": "accelerate",
    "transformers": "transformers",
}


def operators(expect: Expect) -> list[str]:
    """Return torch and the modules of the lock that add operators to it."""
    return ["torch", *(module for name, module in OPERATORS.items() if expect.locks(name))]


def libraries(expect: Expect) -> list[str]:
    """Return the modules of the lock that programs use on top."""
    return [module for name, module in LIBRARIES.items() if expect.locks(name)]


def load(module: str) -> None:
    """Import a module that is not there yet: on XPU ipex-llm brings IPEX, and refuses it twice."""
    if module not in sys.modules:
        importlib.import_module(module)
