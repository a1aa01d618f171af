"""Compile what programs import, the same bytes each time. Runs in the environment's own Python.

``bytecode.py list NAME…`` prints the files that importing these distributions loads.
``bytecode.py compile`` compiles the files that it reads from standard input.

Two processes, because what a process has imported shows in the bytecode that it writes. All of an
environment would be 200 MB and a minute; what is imported is a quarter of that.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import py_compile
import re
import sys

# What torch itself imports late, at the first step of an optimizer.
LATE = ("torch._dynamo",)


def modules(distributions: list[str]) -> list[str]:
    """Return the top-level modules that some distributions bring."""
    wanted = {_normal(name) for name in distributions}
    owners = importlib.metadata.packages_distributions()
    return sorted(
        module
        for module, names in owners.items()
        if module.isidentifier() and wanted & {_normal(name) for name in names}
    )


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def loaded(names: list[str]) -> list[str]:
    """Import modules, and return the source files that this loaded, those of Python included.

    A module that does not import here, for want of a device, is left out with what it needed.
    """
    for name in (*names, *LATE):
        if name.partition(".")[0] in names:
            with contextlib.suppress(Exception, SystemExit):
                importlib.import_module(name)
    files = {
        getattr(module, "__file__", None) or "" for module in list(sys.modules.values())
    }
    homes = (sys.prefix, sys.base_prefix)
    return sorted(
        file for file in files if file.startswith(homes) and file.endswith(".py")
    )


def main(words: list[str]) -> None:
    """Do what the first word says."""
    if words[0] == "list":
        files = loaded(modules(words[1:]))
        sys.stdout.write("".join(f"{file}\n" for file in files))
        return
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for line in sys.stdin.read().splitlines():
        py_compile.compile(line, doraise=True, invalidation_mode=mode)


if __name__ == "__main__":
    main(sys.argv[1:])
