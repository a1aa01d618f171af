"""Whose packages an interpreter imports, in the layouts that people have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from provision.doctor.environment import read_environment
from provision.doctor.sites import sites_of

if TYPE_CHECKING:
    from pathlib import Path


def install(site: Path, name: str, version: str = "1.0") -> Path:
    """Make a folder of packages with one distribution in it; return the folder."""
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n\n")
    if name == "torch":
        (site / "torch").mkdir()
        (site / "torch" / "version.py").write_text(
            f"__version__ = '{version}'\ncuda = None\n"
        )
    return site


def interpreter(prefix: Path, name: str = "python3.10") -> Path:
    """Make something called like an interpreter, and the usual link to it; return the link."""
    (prefix / "bin").mkdir(parents=True, exist_ok=True)
    (prefix / "bin" / name).touch()
    link = prefix / "bin" / "python3"
    link.unlink(missing_ok=True)
    link.symlink_to(name)
    return link


def test_debian_keeps_what_pip_installed_apart(tmp_path: Path) -> None:
    python = interpreter(tmp_path / "usr")
    by_apt = install(tmp_path / "usr/lib/python3/dist-packages", "numpy", "1.21.5")
    by_pip = install(
        tmp_path / "usr/local/lib/python3.10/dist-packages", "torch", "2.8.0"
    )
    install(by_pip, "numpy", "2.2.0")
    install(tmp_path / "usr/local/lib/python3.12/dist-packages", "torch", "2.1.0")
    assert sites_of(python) == [by_pip, by_apt]
    found = read_environment(python)
    assert (found.site, found.python) == (by_pip, "3.10")
    assert found.torch is not None
    assert found.torch.version == "2.8.0"
    assert [d.version for d in found.distributions["numpy"]] == ["2.2.0"], (
        "the first hides the rest"
    )


def test_of_two_minors_in_one_prefix_the_interpreter_s_own_counts(
    tmp_path: Path,
) -> None:
    old = install(tmp_path / "lib/python3.9/site-packages", "numpy")
    new = install(tmp_path / "lib/python3.10/site-packages", "numpy")
    python = interpreter(tmp_path)
    interpreter(tmp_path, "python3.9")
    assert sites_of(tmp_path / "bin" / "python3.10") == [new]
    assert sites_of(python) == [old]


def test_a_virtual_environment_open_to_the_system_sees_its_packages(
    tmp_path: Path,
) -> None:
    interpreter(tmp_path / "usr")
    of_system = install(tmp_path / "usr/lib/python3/dist-packages", "torch", "2.8.0")
    own = install(tmp_path / "venv/lib/python3.10/site-packages", "numpy")
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir()
    python.touch()
    config = (
        f"home = {tmp_path}/usr/bin\nversion = 3.10.12\ninclude-system-site-packages = "
    )
    (tmp_path / "venv/pyvenv.cfg").write_text(config + "true\n")
    assert sites_of(python) == [own, of_system]
    found = read_environment(python)
    assert set(found.distributions) == {"numpy", "torch"}
    assert found.site == of_system, "where torch lies, its libraries are looked for"
    (tmp_path / "venv/pyvenv.cfg").write_text(config + "false\n")
    assert sites_of(python) == [own]


@pytest.mark.parametrize("name", ["nothing", "loop", "empty"])
def test_where_nothing_belongs_to_there_is_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "empty").mkdir()
    assert sites_of(tmp_path / name) == []
