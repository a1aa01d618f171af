"""A clone on a pretended Windows machine: a real Windows Python, uv.exe and pip under Wine."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING

import pytest

from tests.small import TARGET, Index, lock, make_project, make_wheel, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.core.project import Project

CLONE = Path(__file__).parents[2]
# Not all of these letters are in the code page of any one Windows.
FOLDER = "Büro и 数"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def windows_path(path: Path) -> str:
    return str(PureWindowsPath("Z:", path))


@dataclasses.dataclass
class Windows:
    """The clone, with a target in miniature and its index."""

    home: Path
    project: Project
    index: Index

    @property
    def environments(self) -> Path:
        return self.project.environments(TARGET)

    def environment(self, **extra: str) -> dict[str, str]:
        certificates = windows_path(CERTIFICATES)
        return {
            "HOME": os.environ["HOME"],
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            "WINEPREFIX": str(self.home / "prefix"),
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": "ucrtbase=n,b",
            "SSL_CERT_FILE": certificates,
            "PIP_CERT": certificates,
            **extra,
        }

    def start(self, *words: str | Path, **extra: str) -> subprocess.Popen[bytes]:
        """Start a Windows program in the clone; it writes to pipes, files would not do."""
        return subprocess.Popen(
            ["wine", *words],  # noqa: S607
            cwd=self.project.root,
            env=self.environment(**extra),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def call(self, *words: str | Path, code: int = 0, **extra: str) -> tuple[str, str]:
        """Run a Windows program to its end; return what it printed."""
        with self.start(*words, **extra) as process:
            out, err = process.communicate(timeout=1800)
        assert process.returncode == code, (out + err).decode(errors="replace")
        return out.decode(errors="replace"), err.decode(errors="replace")

    def nox(self, *words: str, code: int = 0, **extra: str) -> tuple[str, str]:
        """Call the front door, with whatever tools it finds or makes."""
        return self.call(
            self.home / "python/python.exe", "noxfile.py", *words, code=code, **extra
        )

    def provision(self, *words: str, code: int = 0, **extra: str) -> tuple[str, str]:
        """Call the command of the tools, by the index of this lab."""
        command = self.project.root / ".tools/Scripts/provision.exe"
        index = f"{self.index.url}/default/"
        return self.call(command, *words, code=code, PIP_INDEX_URL=index, **extra)

    def relock(self, version: str, *more: str) -> None:
        """Lock alpha in a version, with some more files in it, and beta."""
        files = {"alpha.py": f"version = {version!r}\n", **dict.fromkeys(more, "")}
        alpha = make_wheel(self.index.root / "vendor", "alpha", version, files)
        beta = make_wheel(self.index.root / "vendor", "beta", "1.0", {"beta.py": ""})
        lock(self.project, [alpha, beta])

    def current(self) -> Path:
        return self.environments / (self.environments / ".current").read_text().strip()

    def says(self) -> str:
        code = "import alpha; print(alpha.version)"
        return self.provision("run", TARGET, "--", "python", "-c", code)[0].strip()


@pytest.fixture(scope="session")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Windows]:
    home = Path(os.environ.get("PROVISION_WINE", "")).absolute()
    if not (home / "python" / "complete").is_file():
        pytest.fail(
            "there is no Windows Python here; .ci/wine makes one and runs these tests"
        )
    folder = tmp_path_factory.mktemp("wine")
    with serve(folder / "index") as index:
        yield Windows(home, _clone(folder / FOLDER, index), index)


def _clone(root: Path, index: Index) -> Project:
    """Copy this clone, and add the target in miniature, with a suite in miniature."""
    copy_clone(root)
    project = make_project(root, index, platform="win-64")
    spec = project.specs / f"{TARGET}.toml"
    spec.write_text(spec.read_text().replace('["beta"]', '["alpha", "beta"]'))
    return project


def copy_clone(root: Path) -> None:
    """Copy what git would clone."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(argv, cwd=CLONE, check=True, capture_output=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CLONE / name, root / name)
