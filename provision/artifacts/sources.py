"""Wheels from source: fetch an sdist, an archive or a git commit, and build it with uv, isolated.

A source is one line of a lock, in one of four forms::

    pysrt-1.1.2.tar.gz sha256:b4f8…                     an sdist of the default index
    https://host/mylib-1.0.tar.gz sha256:03c7…          an archive, or a wheel
    file:vendor/mylib-1.0.tar.gz sha256:9b1a…           the same in the project's folder
    git+https://host/owner/name@<commit>#subdirectory=…

The address of an archive can have a ``#subdirectory=…`` as well.

Equal inputs give equal bytes: sources and requirements of the build have hashes, uv builds without
the variables and the home folder of the caller, and the wheel is packed again, uncompressed.
"""

import os
import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from operator import attrgetter
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from provision.artifacts.parallel_fetch import fetch_all
from provision.artifacts.resumable_download import download
from provision.artifacts.wheelhouse import WantedFile
from provision.core import network
from provision.core.errors import SpecError, ToolError, os_errors
from provision.core.hashing import sha256_bytes, sha256_file
from provision.core.home import home_folder
from provision.core.process import Completed, Run, clean_environment
from provision.core.program import uv_program
from provision.core.progress import Progress
from provision.core.project import Project
from provision.core.temporary import scratch
from provision.core.wheel_name import split_variant
from provision.spec.model import ARCHIVE

_COMMIT = re.compile(r"[0-9a-f]{40}")
_LACKING = re.compile(r"No solution found when resolving: (.*)")
# uv has no Python of the version, and cannot get one.
_NO_PYTHON = re.compile(
    r"python-build-standalone|No interpreter found|Failed to inspect Python interpreter"
)


@dataclass(frozen=True, slots=True)
class SourceBuilder:
    """Builds sources of one project with one minor version of Python."""

    project: Project
    python: str
    indexes: Mapping[str, str | None]  # of requirements of builds
    wheelhouses: tuple[Path, ...]
    run: Run
    progress: Progress
    offline: bool = False

    def folder(self, source: str, requires: Sequence[str]) -> Path:
        """Return where the wheel of a source is kept, which its inputs decide."""
        inputs = "\n".join([source, *requires, self.python])
        return self.project.wheelhouse / sha256_bytes(inputs.encode())[:16]

    def pinned(self, url: str) -> str:
        """Return the source of a direct reference: a git commit, or an archive with its hash."""
        if url.startswith("git+"):
            address, revision, fragment = _git_parts(url)
            commit = self._commit(address, revision or "HEAD")
            return f"git+{address}@{commit}{fragment}"
        address, _, fragment = url.partition("#")
        place = address + _below(fragment)
        if address.startswith(ARCHIVE):
            path = self.project.root / address.removeprefix(ARCHIVE)
            with os_errors(f"cannot read {path}", "put the file there"):
                return f"{place} sha256:{sha256_file(path)}"
        if digest := parse_qs(fragment).get("sha256"):
            return f"{place} sha256:{digest[0].lower()}"
        with network.session() as session:
            folder = self._cache(sha256_bytes(address.encode()))
            copy = download(session, address, folder, _filename(address), self.progress)
        sha256 = sha256_file(copy)
        kept = self._cache(sha256)  # so that it is not downloaded twice
        kept.mkdir(parents=True, exist_ok=True)
        copy.replace(kept / copy.name)
        self.progress.note(f"{address} has sha256 {sha256}, which is locked")
        return f"{place} sha256:{sha256}"

    def wheel(
        self,
        name: str,
        source: str,
        requires: tuple[str, ...],
        complete: Callable[[list[str]], tuple[str, ...]] | None = None,
    ) -> tuple[Path, tuple[str, ...]]:
        """Return the wheel of a source, which the wheelhouse keeps, and what its build required."""
        # ``requires`` are pins with hashes; ``complete`` pins what a build requires besides.
        if kept := self._kept(source, requires):
            return kept, requires
        named: set[str] = set()
        with scratch() as folder:
            fetched = self._fetch(name, source, folder / "source")
            if fetched.suffix == ".whl":
                return _store(fetched, self.folder(source, ())), ()
            self.progress.step(f"building {name} from {source.partition(' ')[0]}")
            while (done := self._uv_build(fetched, folder, requires)).returncode:
                # uv refuses requirements without a hash, and lists them: first the static ones.
                reasons = " ".join(_LACKING.findall(done.stderr))
                lacking = set(re.findall(r"`([^`]+)`", reasons))
                if complete is None or lacking <= named:
                    raise _build_error(name, source, self.python, done)
                named |= lacking
                requires = complete(sorted(named))
                if kept := self._kept(source, requires):
                    return kept, requires
            (made,) = folder.glob("out/*.whl")
            packed = folder / made.name
            pack_again(made, packed)
            return _store(packed, self.folder(source, requires)), requires

    def _kept(self, source: str, requires: Sequence[str]) -> Path | None:
        # A wheelhouse that is in git may hold compiled wheels of several platforms.
        fitting = "-win*" if sys.platform == "win32" else "linux*"
        wheels = sorted(self.folder(source, requires).glob("*.whl"))
        for pattern in ("*-*any.whl", f"*-*{fitting}.whl"):
            for wheel in wheels:
                name, _ = split_variant(wheel.name)
                if fnmatch(name, pattern):
                    return wheel
        return None

    def _uv_build(
        self, fetched: Path, folder: Path, requires: Sequence[str]
    ) -> Completed:
        constraints = folder / "build.txt"
        constraints.write_text("\n".join(requires), encoding="utf-8")
        home = folder / "home"
        home.mkdir(exist_ok=True)
        # --no-sources: they may be folders of the author's own machine.
        argv = [
            uv_program(),
            "build",
            "--no-config",
            "--wheel",
            "--no-sources",
            "--quiet",
            "--no-create-gitignore",
            "--python",
            self.python,
            "--require-hashes",
            "--build-constraints",
            str(constraints),
            "--out-dir",
            str(folder / "out"),
            str(fetched),
        ]
        if self.offline:
            argv.append("--offline")
        for index, url in self.indexes.items():
            if url:
                option = "--default-index" if index == "default" else "--index"
                argv += [option, url]
        return self.run(argv, env=_isolated(home), cwd=folder)

    def _fetch(self, name: str, source: str, folder: Path) -> Path:
        """Return an archive, or the folder of a clone or an archive that has the package."""
        if source.startswith("git+"):
            address, commit, fragment = _git_parts(source)
            # With its history, from which some build scripts take the version.
            self._git("clone", "--quiet", "--no-checkout", "--", address, str(folder))
            inside = ("-C", str(folder))
            self._git(*inside, "checkout", "--quiet", "--detach", commit)
            words = ("submodule", "--quiet", "update", "--init", "--recursive")
            self._git(*inside, *words)
        else:
            place, _, sha256 = source.rpartition(" sha256:")
            address, _, fragment = place.partition("#")
            archive = self._archive(name, address, sha256)
            if not fragment or archive.suffix == ".whl":
                return archive
            folder = _unpacked(archive, folder)
        return _inside(folder, _subdirectory(fragment.lstrip("#")), source)

    def _archive(self, name: str, place: str, sha256: str) -> Path:
        filename = _filename(place)
        folder = self._cache(sha256)
        if place.startswith(ARCHIVE):
            path = self.project.root / place.removeprefix(ARCHIVE)
            if not path.is_file() or sha256_file(path) != sha256:
                raise ToolError(
                    f"{path} is not the file that is locked for {name}",
                    evidence=f"locked is sha256 {sha256}",
                    remedy="put that file there, or lock the target again",
                )
            return path
        wanted = WantedFile(filename, sha256, None, place, None)
        if "://" not in place:
            index = self.indexes.get("default")
            wanted = WantedFile(filename, sha256, None, index, name)
        houses, offline = self.wheelhouses, self.offline
        missing = fetch_all([wanted], folder, houses, self.progress, offline=offline)
        if missing:
            raise ToolError(
                f"the source of {name} is not available",
                evidence=str(missing[0]),
                remedy="put the file into a folder and name it with --wheelhouse DIR",
            )
        return folder / filename

    def _cache(self, key: str) -> Path:
        return self.project.root / ".cache" / "sources" / key[:16]

    def _git(self, *words: str) -> str:
        # The user's own git settings take part: they have the access to private repositories.
        extra = {"GIT_TERMINAL_PROMPT": "0"}
        if "SSH_AUTH_SOCK" in os.environ:
            extra["SSH_AUTH_SOCK"] = os.environ["SSH_AUTH_SOCK"]
        env = clean_environment(extra=extra)
        done = self.run(["git", "-c", "core.autocrlf=false", *words], env=env)
        done.require("git failed", remedy="check the address and your access to it")
        return done.stdout

    def _commit(self, address: str, revision: str) -> str:
        if _COMMIT.fullmatch(revision):
            return revision
        listed = self._git("ls-remote", "--", address, revision, f"{revision}^{{}}")
        # The words match the ends of references too: v1 also finds a branch other/v1.
        commits = {}
        for line in listed.splitlines():
            commit, _, reference = line.partition("\t")
            commits[reference] = commit
        tag = f"refs/tags/{revision}"
        for reference in (f"{tag}^{{}}", tag, f"refs/heads/{revision}", revision):
            if reference in commits:
                return commits[reference]
        raise SpecError(
            f"{address} has no branch or tag {revision}",
            remedy="name one that it has, or all 40 digits of a commit",
        )


def pack_again(wheel: Path, target: Path) -> None:
    """Write a wheel again so that its bytes depend on the contents of its files only."""
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w") as new:
        for entry in sorted(old.infolist(), key=attrgetter("filename")):
            data = old.read(entry)
            # In the order of a folder listing.
            if entry.filename.endswith(".dist-info/RECORD"):
                data = b"".join(sorted(data.splitlines(keepends=True)))
            plain = zipfile.ZipInfo(entry.filename)  # by default of 1980
            plain.create_system = 3  # Unix: else it would name that of the build
            runs = entry.external_attr >> 16 & 0o111
            mode = 0o100755 if runs else 0o100644
            plain.external_attr = mode << 16
            if not entry.is_dir():
                new.writestr(plain, data)


def _store(wheel: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{wheel.name}.{os.getpid()}"
    shutil.copyfile(wheel, part)
    return part.replace(folder / wheel.name)


def _filename(address: str) -> str:
    return unquote(urlsplit(address).path).rpartition("/")[2]


def _git_parts(url: str) -> tuple[str, str, str]:
    """Return address, revision and the fragment that names a folder of ``git+…@rev#…``."""
    address, _, fragment = url.removeprefix("git+").partition("#")
    head, at, revision = address.rpartition("@")
    # git+ssh://git@host/… has an @ of its own.
    if not at or "/" not in urlsplit(head).path:
        head, revision = address, ""
    return head, revision, _below(fragment)


def _below(fragment: str) -> str:
    """Return the part of a URL's fragment that names the folder of the package, or ""."""
    folder = _subdirectory(fragment)
    return f"#subdirectory={folder}" if folder else ""


def _subdirectory(fragment: str) -> str:
    return parse_qs(fragment).get("subdirectory", [""])[0]


def _unpacked(archive: Path, folder: Path) -> Path:
    """Unpack an archive into a folder; return the one that all of it is in, as pip does."""
    if not hasattr(tarfile, "data_filter"):  # without it, files could go elsewhere
        raise ToolError(
            f"this Python cannot unpack {archive} safely",
            remedy="run Provision with Python 3.11.4 or newer",
        )
    try:
        if zipfile.is_zipfile(archive):
            shutil.unpack_archive(archive, folder, "zip")
        else:
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile) as error:
        raise ToolError(
            f"cannot unpack {archive}: {error}",
            remedy="check the address; a .zip or a .tar.gz can be unpacked",
        ) from error
    top = list(folder.iterdir())
    return top[0] if len(top) == 1 and top[0].is_dir() else folder


def _inside(folder: Path, below: str, source: str) -> Path:
    """Return a folder of a source; SpecError if the source does not have it."""
    inner = (folder / below).resolve()
    if not (inner.is_dir() and inner.is_relative_to(folder.resolve())):
        raise SpecError(
            f"{source} has no folder {below}", remedy="correct its #subdirectory="
        )
    return inner


def _isolated(home: Path) -> dict[str, str]:
    """Return the environment of a build: the caller's settings are in the home folder, too."""
    kept = {}
    if user := home_folder():
        kept["XDG_CACHE_HOME"] = str(user / ".cache")
        kept["XDG_DATA_HOME"] = str(user / ".local" / "share")  # uv's own Pythons
    if cache := os.environ.get("XDG_CACHE_HOME"):
        kept["XDG_CACHE_HOME"] = cache
    # -g0: debug information holds the path of the build, which is another each time.
    fixed = {
        "SOURCE_DATE_EPOCH": "315532800",
        "PYTHONHASHSEED": "0",
        "TZ": "UTC",
        "LC_ALL": "C",
        "CFLAGS": "-g0",
        "CXXFLAGS": "-g0",
    }
    homes = {"HOME": str(home), "USERPROFILE": str(home)}
    return clean_environment(extra=homes | kept | fixed)


def _build_error(name: str, source: str, python: str, done: Completed) -> ToolError:
    """Return why the build of a package failed: by its own code, or for want of its Python."""
    cause = (
        "its build failed in its own environment, without the settings of the caller"
    )
    remedy = "install the compiler or the libraries that it names, or require another version"
    if _NO_PYTHON.search(done.stderr):
        cause = f"Python {python}, which builds it, is not on this machine"
        remedy = (
            f"install Python {python}, or check the network from which uv takes one"
        )
    return ToolError(
        f"could not build {name} from {source}",
        evidence=done.tail,
        cause=cause,
        remedy=remedy,
    )
