"""Wheels from source: fetch an sdist, an archive or a git commit, and build it with uv, isolated.

A source is one line of a lock, in one of three forms::

    pysrt-1.1.2.tar.gz sha256:b4f8…                     an sdist of an index
    https://host/mylib-1.0.tar.gz sha256:03c7…          an archive, or a wheel
    git+https://host/owner/name@<commit>#subdirectory=…

Equal inputs give equal bytes: the sources and the requirements of the build have hashes, uv builds
in an environment of their own without the caller's variables and home folder, and the files of
the wheel are packed again in an order, with times and without a compression that vary.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from provision.artifacts.parallel_fetch import WantedFile, fetch_all
from provision.artifacts.resumable_download import download
from provision.core import network
from provision.core.errors import ToolError
from provision.core.hashing import sha256_bytes, sha256_file
from provision.core.process import clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from provision.core.process import Completed, Run
    from provision.core.progress import Progress
    from provision.core.project import Project


@dataclass(frozen=True, slots=True)
class SourceBuilder:
    """Builds sources of one project.

    Attributes:
        project: Has the wheelhouse for the results, and the cache of archives.
        python: Minor version of the Python that builds.
        indexes: URL by name of the indexes that serve requirements of a build; ``default`` is a
            mirror of the default index, or None.
        wheelhouses: Folders that may have archives.
        offline: Use no network.
    """

    project: Project
    python: str
    indexes: Mapping[str, str | None]
    wheelhouses: tuple[Path, ...]
    run: Run
    progress: Progress
    offline: bool = False

    def folder(self, source: str, requires: Sequence[str]) -> Path:
        """Return where the wheels of a source are kept, which its inputs decide."""
        inputs = "\n".join([source, *requires, self.python])
        return self.project.wheelhouse / sha256_bytes(inputs.encode())[:16]

    def pinned(self, url: str) -> str:
        """Return the source of a direct reference: a git commit, or an archive with its hash.

        Raises:
            ToolError: It cannot be fetched.
        """
        if url.startswith("git+"):
            address, revision, fragment = _git_parts(url)
            with tempfile.TemporaryDirectory(prefix="provision-") as scratch:
                commit = self._clone(address, revision or "HEAD", Path(scratch, "clone"))
            return f"git+{address}@{commit}{fragment}"
        address, _, fragment = url.partition("#")
        if digest := parse_qs(fragment).get("sha256"):
            return f"{address} sha256:{digest[0].lower()}"
        folder = self._cache(sha256_bytes(address.encode()))
        with network.session() as session:
            copy = download(session, address, folder, _filename(address), lambda *_: None)
        found = sha256_file(copy)
        kept = self._cache(found) / _filename(address)  # so that it is not downloaded twice
        kept.parent.mkdir(parents=True, exist_ok=True)
        copy.replace(kept)
        self.progress.note(f"{address} has sha256 {found}, which is locked")
        return f"{address} sha256:{found}"

    def wheel(self, name: str, source: str, requires: Sequence[str]) -> Path | Completed:
        """Return the wheel of a source, built unless the wheelhouse has it.

        Args:
            name: The distribution.
            source: See the module.
            requires: The requirements of the build, pinned with hashes.

        Returns:
            The wheel, or the failed run of uv.

        Raises:
            ToolError: The source cannot be fetched, or is not what is locked.
        """
        store = self.folder(source, requires)
        if built := next(store.glob("*.whl"), None):
            return built
        with self._tree(name, source) as tree, tempfile.TemporaryDirectory() as scratch:
            if tree.suffix == ".whl":
                return _store(tree, store, tree.name)
            done = self._uv_build(tree, Path(scratch), requires)
            if done.returncode:
                return done
            (made,) = Path(scratch).glob("out/*.whl")
            packed = Path(scratch, made.name)
            pack_again(made, packed)
            return _store(packed, store, made.name)

    def _uv_build(self, tree: Path, scratch: Path, requires: Sequence[str]) -> Completed:
        import uv  # noqa: PLC0415 - used only to find the program

        constraints, home = scratch / "build.txt", scratch / "home"
        constraints.write_text("\n".join(requires), encoding="utf-8")
        home.mkdir()
        # --no-sources: a workspace or a git reference of the author's own machine has no hash.
        argv = [uv.find_uv_bin(), "build", "--no-config", "--wheel", "--no-sources", "--quiet",
                "--no-create-gitignore", "--python", self.python,
                "--build-constraints", str(constraints), "--require-hashes",
                "--out-dir", str(scratch / "out"), str(tree)]  # fmt: skip
        for index, url in self.indexes.items():
            if url:
                option = ["--default-index", url] if index == "default" else ["--index", url]
                argv += option
        if self.offline:
            argv.append("--offline")
        return self.run(argv, env=_isolated(home), cwd=scratch)

    @contextmanager
    def _tree(self, name: str, source: str) -> Iterator[Path]:
        """Yield the folder of a source with its pyproject.toml or setup.py, or a wheel."""
        with tempfile.TemporaryDirectory(prefix="provision-") as scratch:
            top = Path(scratch, "source")
            if source.startswith("git+"):
                address, commit, fragment = _git_parts(source)
                self._clone(address, commit, top)
                yield top / parse_qs(fragment[1:]).get("subdirectory", [""])[0]
                return
            archive = self._archive(name, source)
            if archive.suffix == ".whl":
                yield archive
                return
            _unpack(archive, top)
            inside = list(top.iterdir())
            yield inside[0] if len(inside) == 1 and inside[0].is_dir() else top

    def _archive(self, name: str, source: str) -> Path:
        place, _, sha256 = source.rpartition(" sha256:")
        filename, folder = _filename(place), self._cache(sha256)
        index, project = (place, None) if "://" in place else (self.indexes.get("default"), name)
        wanted = WantedFile(filename, sha256, None, index, project)
        missing = fetch_all([wanted], folder, self.wheelhouses, self.progress, offline=self.offline)
        if missing:
            raise ToolError(
                f"the source of {name} is not available",
                evidence=str(missing[0]),
                remedy="put the file into a folder and name it with --wheelhouse DIR",
            )
        return folder / filename

    def _cache(self, key: str) -> Path:
        return self.project.root / ".cache" / "sources" / key[:16]

    def _clone(self, address: str, revision: str, folder: Path) -> str:
        """Clone a repository at a branch, tag or commit; return the commit."""
        # The user's own git settings take part: they have the access to private repositories.
        agent = {n: os.environ[n] for n in ("SSH_AUTH_SOCK",) if n in os.environ}
        env = clean_environment(extra={"GIT_TERMINAL_PROMPT": "0", **agent})

        def git(*words: str) -> Completed:
            return self.run(["git", "-c", "core.autocrlf=false", *words], env=env)

        inside = ("-C", str(folder))
        remedy = "check the address, your access to it, and that git is installed"
        # With its history, from which some build scripts take the version.
        git("clone", "--quiet", "--no-checkout", "--filter=blob:none", "--", address, str(folder))\
            .require(f"cannot clone {address}", remedy=remedy)  # fmt: skip
        fetched = git(*inside, "fetch", "--quiet", "origin", revision).returncode == 0
        commit = "FETCH_HEAD" if fetched else revision  # a short commit cannot be fetched
        git(*inside, "checkout", "--quiet", "--detach", commit, "--").require(
            f"{address} has no branch, tag or commit {revision}", remedy="correct the requirement"
        )
        git(*inside, "submodule", "--quiet", "update", "--init", "--recursive").require(
            f"cannot fetch the submodules of {address}", remedy=remedy
        )
        return git(*inside, "rev-parse", "HEAD").require("git has no HEAD").stdout.strip()


def pack_again(wheel: Path, target: Path) -> None:
    """Write a wheel again so that its bytes depend on the contents of its files only."""
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w") as new:
        for entry in sorted(old.infolist(), key=lambda entry: entry.filename):
            if entry.is_dir():
                continue
            data = old.read(entry)
            if entry.filename.endswith(".dist-info/RECORD"):  # in the order of a folder listing
                data = b"".join(sorted(data.splitlines(keepends=True)))
            plain = zipfile.ZipInfo(entry.filename, (1980, 1, 1, 0, 0, 0))
            plain.create_system = 3  # Unix: else it would name the platform of the build
            runs = entry.external_attr >> 16 & 0o111
            plain.external_attr = (0o100755 if runs else 0o100644) << 16
            new.writestr(plain, data)


def _unpack(archive: Path, folder: Path) -> None:
    try:
        # The filter refuses paths and links that lead out of the folder.
        tar = {} if archive.suffix == ".zip" else {"filter": "data"}
        shutil.unpack_archive(archive, folder, **tar)  # type: ignore[arg-type]
    except (shutil.ReadError, OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ToolError(f"{archive.name} cannot be unpacked", evidence=str(error)) from error


def _store(wheel: Path, folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{name}.{os.getpid()}"
    shutil.copyfile(wheel, part)
    part.replace(folder / name)
    return folder / name


def _filename(address: str) -> str:
    return unquote(urlsplit(address).path).rpartition("/")[2]


def _git_parts(url: str) -> tuple[str, str, str]:
    """Return address, revision and the fragment that names a folder of ``git+…@rev#…``."""
    address, _, fragment = url.removeprefix("git+").partition("#")
    head, at, revision = address.rpartition("@")
    if not at or "/" not in urlsplit(head).path:  # git+ssh://git@host/… has an @ of its own
        head, revision = address, ""
    folder = parse_qs(fragment).get("subdirectory", [""])[0]
    return head, revision, f"#subdirectory={folder}" if folder else ""


def _isolated(home: Path) -> dict[str, str]:
    """Return the environment of a build: the caller's settings lie in the home folder too."""
    caches = {
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
        "XDG_DATA_HOME": str(Path.home() / ".local" / "share"),  # uv's own Pythons
    }
    # -g0: debug information holds the path of the build, which is another each time.
    fixed = {"SOURCE_DATE_EPOCH": "315532800", "PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C",
             "CFLAGS": "-g0", "CXXFLAGS": "-g0"}  # fmt: skip
    return clean_environment(extra={"HOME": str(home), "USERPROFILE": str(home), **caches, **fixed})
