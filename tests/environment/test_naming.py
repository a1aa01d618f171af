"""Who names a distribution: every way in which code can ask for a module of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from provision.environment.naming import is_named

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "text",
    [
        "import gamma_ray",
        "    import gamma_ray.spectrum as s",
        "import os, gamma_ray",
        "from gamma_ray import x",
        "try: from gamma_ray.a import x\nexcept ImportError: pass",
        "importlib.import_module('gamma_ray')",
        'find_spec("gamma_ray.spectrum")',
        "version('gamma-ray')",
        'require("gamma-ray>=2")',
        "lazy = {'gamma_ray': None}",
        "import os, \\\n    gamma_ray",
        "for name in 'yaml gamma_ray'.split(): __import__(name)",
    ],
)
def test_it_is_named_in_source(tmp_path: Path, text: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(f"x = 1\n{text}\ny = 2\n")
    assert is_named(["gamma-ray"], [path])
    assert is_named(["other", "gamma_ray"], [path])
    assert not is_named(["gamma", "ray", "spectr"], [path])


def test_a_library_names_it_by_a_string_of_c(tmp_path: Path) -> None:
    path = tmp_path / "native.cpython-311.so"
    path.write_bytes(b"\x7fELF\0numpy\0gamma_ray\0IPython\0yaml.reader\0")
    for word in ("gamma-ray", "IPython", "yaml"):
        assert is_named([word], [path])
    assert not is_named(["gamma"], [path])


def test_what_cannot_be_read_may_name_anything(tmp_path: Path) -> None:
    (tmp_path / "empty.py").touch()
    assert not is_named(["gamma"], [tmp_path / "empty.py"])
    assert is_named(["gamma"], [tmp_path / "absent.py"])
