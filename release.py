"""Build the wheels and the sdists of a commit twice, and keep them only if the bytes are the same.

``nox -s release`` runs it, then judges and tries what it made. Beside them it puts an SBOM of what
the toolkit's wheel needs, in the versions of ``lockfiles/tools``, and the checksums of all.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent
SUMS = "SHA256SUMS"
DYNAMIC = 'dynamic = ["version"]'
TOOLKIT = "provision_torch-*.whl"
# Folders of what is published: the toolkit, and the provider of wheel variants, which needs nothing.
PACKAGES = (".", "packages/provision-intel-variants")
UV = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
# What may not reach the bytes: each build has other permissions, another time zone and language.
WAYS = (
    (0o022, {"TZ": "UTC", "LC_ALL": "C"}),
    (0o077, {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}),
)


def main(lister: Path, out: Path) -> None:
    """Put all that is published into a folder, which is emptied before.

    Args:
        lister: A Python with cyclonedx-bom.
        out: The folder.
    """
    version = release_version(ROOT, os.environ)
    epoch, source = committed(ROOT)
    with tempfile.TemporaryDirectory(prefix="release-") as scratch:
        made = [
            build(
                source,
                Path(scratch, f"{'way-' * number}{number}"),
                epoch,
                umask,
                variables,
            )
            for number, (umask, variables) in enumerate(WAYS, 1)
        ]
        if found := differing(*made):
            raise SystemExit(f"two builds of one commit differ: {', '.join(found)}")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made[0], out)
        list_parts(next(out.glob(TOOLKIT)), version, lister, Path(scratch), epoch)
    sums = {path.name: _digest(path) for path in sorted(out.iterdir())}
    text = "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    (out / SUMS).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{version}, built twice with the same bytes:\n{text}")


def release_version(root: Path, variables: os._Environ[str] | dict[str, str]) -> str:
    """Return the version; SystemExit where the tag that is released or the changelog differs."""
    text = (root / "provision" / "__init__.py").read_text(encoding="utf-8")
    version: str = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]
    if variables.get("GITHUB_REF_TYPE") == "tag":
        tag = variables.get("GITHUB_REF_NAME", "")
        if tag != f"v{version}":
            raise SystemExit(
                f"the tag is {tag}, and provision/__init__.py has {version}"
            )
        changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
        if f"\n## [{version}] - " not in changes:
            raise SystemExit(f"CHANGELOG.md has no heading `## [{version}] - DATE`")
    return version


def committed(root: Path) -> tuple[str, bytes]:
    """Return the last commit's time, in seconds since 1970, and its files as a tar archive."""
    epoch = _run("git", "-C", root, "log", "-1", "--format=%ct").decode().strip()
    return epoch, _run("git", "-C", root, "archive", "HEAD")


def build(
    source: bytes, folder: Path, epoch: str, umask: int, variables: dict[str, str]
) -> Path:
    """Build an archive's wheels, by way of their sdists, in a folder; return that of the results."""
    out, tree = folder / "dist", folder / "source"
    before = os.umask(umask)
    try:
        with tarfile.open(fileobj=io.BytesIO(source)) as archive:
            archive.extractall(tree, filter="tar")
        for path in tree.rglob(
            "*"
        ):  # a commit knows neither their times nor all of their modes
            os.utime(path, (1e9 + umask, 1e9 + umask), follow_symlinks=False)
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & ~umask)
        for package in PACKAGES:
            _run(
                UV,
                "build",
                "--quiet",
                "--offline",
                "--no-config",
                "--no-build-isolation",
                "--no-create-gitignore",
                "--python",
                sys.executable,
                "--out-dir",
                out,
                tree / package,
                SOURCE_DATE_EPOCH=epoch,
                **variables,
            )
    finally:
        os.umask(before)
    return out


def list_parts(
    wheel: Path, version: str, lister: Path, scratch: Path, epoch: str
) -> None:
    """Write the SBOM of a wheel beside it, from an environment with what it needs as locked."""
    environment = scratch / "environment"
    _run(UV, "venv", "--quiet", "--no-config", "--python", sys.executable, environment)
    _run(
        UV,
        "pip",
        "install",
        "--quiet",
        "--no-config",
        "--python",
        environment,
        "--constraint",
        ROOT / "lockfiles" / "tools" / "requirements.txt",
        wheel,
    )
    # It reads the file itself, and knows no version that is elsewhere.
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    stated = scratch / "pyproject.toml"
    stated.write_text(
        project.replace(DYNAMIC, f'version = "{version}"'), encoding="utf-8"
    )
    parts = wheel.with_name(f"{'-'.join(wheel.name.split('-')[:2])}.cdx.json")
    _run(
        lister,
        "-m",
        "cyclonedx_py",
        "environment",
        "--output-reproducible",
        "--pyproject",
        stated,
        "--output-file",
        parts,
        environment,
        SOURCE_DATE_EPOCH=epoch,
    )


def differing(one: Path, other: Path) -> list[str]:
    """Return the names of the files that only one folder has, or whose bytes differ."""
    names = {path.name for folder in (one, other) for path in folder.iterdir()}
    return sorted(
        name
        for name in names
        if not (one / name).is_file()
        or not (other / name).is_file()
        or _digest(one / name) != _digest(other / name)
    )


def _run(*argv: str | Path, **variables: str) -> bytes:
    """Run a program and return what it prints; what it says of a failure is shown."""
    done = subprocess.run(
        argv, check=False, stdout=subprocess.PIPE, env={**os.environ, **variables}
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, argv))} ended with {done.returncode}")
    return done.stdout


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main(Path(sys.argv[1]), ROOT / "dist")
