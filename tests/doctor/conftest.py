"""Environments in miniature: real layouts and metadata, a few bytes each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.catalog.devices import read_devices
from provision.doctor.diagnosis import diagnose_environment
from provision.host.model import Host

if TYPE_CHECKING:
    from provision.catalog.devices import Devices
    from provision.core.findings import Finding
    from provision.spec.model import Target

LINUX = Host("linux-64", "6.8")
# Codes of faults that only a lock can have; test_repository.py has their cases.
LOCK_CODES = {
    "lock-unhashed",
    "lock-loses-cuda-libraries",
    "lock-cpu-build",
    "index-leaks",
    "requirement-unread",
}


@dataclass
class Env:
    """A virtual environment on disk, with the distributions that a test adds."""

    prefix: Path
    devices: Devices
    python: str = "3.11"
    windows: bool = False
    host: Host = LINUX
    target: Target | None = None
    home: Path | None = None

    def __post_init__(self) -> None:
        self.site.mkdir(parents=True, exist_ok=True)
        (self.prefix / "pyvenv.cfg").write_text(f"version_info = {self.python}.7\n")

    @property
    def site(self) -> Path:
        lib = Path("Lib") if self.windows else Path("lib") / f"python{self.python}"
        return self.prefix / lib / "site-packages"

    def add(
        self,
        name: str,
        version: str,
        *requires: str,
        tag: str = "py3-none-any",
        requires_python: str = "",
        module: str | None = None,
    ) -> Path:
        """Install a distribution: metadata and one empty module."""
        module = module or name.replace("-", "_")
        folder = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {line}" for line in requires]
        lines += [f"Requires-Python: {requires_python}"] if requires_python else []
        (folder / "METADATA").write_text("\n".join(lines) + "\n\nwords\n")
        (folder / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: {tag}\n")
        (folder / "INSTALLER").write_text("uv\n")
        (self.site / module).mkdir(exist_ok=True)
        (self.site / module / "__init__.py").touch()
        own = [
            f"{folder.name}/{n}" for n in ("METADATA", "WHEEL", "INSTALLER", "RECORD")
        ]
        record = "".join(f"{path},,\n" for path in (f"{module}/__init__.py", *own))
        (folder / "RECORD").write_text(record)
        return folder

    def torch(self, version: str, *requires: str, cuda: str | None = None) -> None:
        """Install torch with the ``version.py`` of a build."""
        self.add("torch", version, *requires)
        xpu = "'20250301'" if "+xpu" in version else "None"
        (self.site / "torch" / "version.py").write_text(
            "from typing import Optional\n"
            f"__version__ = '{version}'\ncuda: Optional[str] = {cuda!r}\n"
            f"xpu: Optional[str] = {xpu}\nhip: Optional[str] = None\n"
        )

    def diagnose(self) -> tuple[Finding, ...]:
        empty = self.prefix.parent / "empty-root"
        return diagnose_environment(
            self.prefix,
            self.host,
            self.devices,
            target=self.target,
            home=self.home,
            root=empty,
        ).findings

    def codes(self) -> list[str]:
        """Return the codes of what is worse than a note."""
        return [finding.code for finding in self.diagnose() if finding.bad]


@pytest.fixture(scope="session")
def devices() -> Devices:
    return read_devices(Path(__file__).parents[2] / "envs" / "catalog")


@pytest.fixture
def env(tmp_path: Path, devices: Devices) -> Env:
    return Env(tmp_path / "env", devices)


@pytest.fixture
def windows_env(tmp_path: Path, devices: Devices) -> Env:
    return Env(tmp_path / "env", devices, windows=True, host=Host("win-64", "10.0"))
