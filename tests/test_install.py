"""The installations that the documents tell, as they tell them: from a clone and from its wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from provision.artifacts.pip_config import read_pip_config
from tests.checkout import ROOT, copy_files

BY_UV = 'uv tool install --with-executables-from nox ".[nox,conda]"'
BY_PIP = 'pip install ".[nox,conda]"'
OF_A_WHEEL = 'pip install "FILE[nox,conda]"'
TOOLS = Path(sys.executable).parent
README = (ROOT / "README.md").read_text("utf-8")


def test_the_pages_tell_three_ways() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    told = re.findall(r'((?:uv tool|pip) install (?:--\S+ \w+ )?".*?\[.*?")', text)
    assert set(told) == {BY_UV, BY_PIP, OF_A_WHEEL}
    assert "`uv build --wheel`" in text


class Machine:
    """A folder with a clone, and a PATH that has uv and nothing of this repository's tools."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clone = folder, folder / "clone"
        self.commands = folder / "env" / "bin"
        self.commands.mkdir(parents=True)
        (folder / "uv").mkdir()
        (folder / "uv" / "uv").symlink_to(TOOLS / "uv")
        copy_files(self.clone, without=("tests/", "docs/"))
        path = [self.commands, folder / "uv", *os.get_exec_path()]
        self.variables = os.environ | {
            "PATH": os.pathsep.join(str(p) for p in path if p != TOOLS),
            "UV_TOOL_DIR": str(folder / "tools"),
            "UV_TOOL_BIN_DIR": str(self.commands),
            "UV_NO_CONFIG": "1",
            "UV_PYTHON": sys.base_prefix,
        }
        if index := read_pip_config().index_url:
            self.variables["UV_DEFAULT_INDEX"] = index

    def type(self, line: str, folder: Path) -> str:
        """Run a line in a shell, which has to succeed; return what it prints."""
        done = subprocess.run(
            ["/bin/bash", "-euc", line],
            cwd=folder,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def use(self) -> None:
        """Make a project of both commands, wherever the shell finds them."""
        project = self.folder / "project"
        project.mkdir()
        for name in ("provision", "nox"):
            found = self.type(f"command -v {name}", project).strip()
            assert Path(found) == self.commands / name
        self.type("provision init --target cpu-linux", project)
        assert "fresh" in self.type("provision lock --check", project)
        assert "* build-cpu-linux [" in self.type("nox -l -t build", project)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.network
def test_uv_installs_the_clone_and_puts_both_commands_on_the_path(
    machine: Machine,
) -> None:
    machine.type(BY_UV, machine.clone)
    machine.use()


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("from_a_wheel", [False, True])
def test_pip_installs_the_clone_and_its_wheel(
    machine: Machine, from_a_wheel: bool
) -> None:
    if from_a_wheel:
        machine.type(f"{sys.executable} -m venv env", machine.folder)
        machine.type("uv build --wheel", machine.clone)
        (wheel,) = (machine.clone / "dist").glob("*.whl")
        machine.type(OF_A_WHEEL.replace("FILE", str(wheel)), machine.folder)
    else:
        block = re.search(r"python3 -m venv .*?(?=```)", README, re.DOTALL)
        assert block
        assert BY_PIP in block[0]
        machine.commands = machine.folder / "provision-env" / "bin"
        path = f"{machine.commands}{os.pathsep}{machine.variables['PATH']}"
        machine.variables |= {"HOME": str(machine.folder), "PATH": path}
        machine.type(block[0], machine.clone)
    machine.use()
