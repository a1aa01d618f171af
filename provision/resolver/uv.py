"""Resolve the pip layer with uv, for any platform from any platform."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from provision.core.errors import ToolError
from provision.core.filesystem import write_atomic
from provision.core.process import clean_environment
from provision.lockfile.tags import UV_NAMES, best_wheel

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    from provision.core.process import Completed, Run
    from provision.spec.model import Target

_PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?:\s+# via (?P<via>.+))?")
# Distribution -> its version, and who asked for it.
Pins = dict[str, tuple[str, tuple[str, ...]]]
WISH, OVERRIDES, PINS = "requirements.in", "overrides.txt", "pins.txt"


@dataclass(frozen=True, slots=True)
class ResolvedWheel:
    """One distribution of a resolution, with the wheel that the platform takes.

    Attributes:
        name: Distribution, normalised.
        version: Version with its local part.
        via: Who asked for it: distributions, or ``the spec``.
        filename: Name of the wheel.
        sha256: Of the wheel.
        size: Bytes; None where the index does not tell.
        url: Where the index has it.
    """

    name: str
    version: str
    via: tuple[str, ...]
    filename: str
    sha256: str
    size: int | None
    url: str


def version() -> str:
    """Return name and version of the engine."""
    return f"uv {importlib.metadata.version('uv')}"


def compile_argv(uv: str, target: Target, indexes: Mapping[str, str]) -> list[str]:
    """Return the part of the command that is the same for each file to compile.

    Args:
        uv: The program.
        target: Its platform, Python and cut-off dates decide.
        indexes: Address of each catalog index, asked in this order before the default index: the
            first that knows a name is the only one that is asked for it.
    """
    # Any interpreter will do, because platform and version are told; uv would search for one.
    argv = [uv, "pip", "compile", "--no-config", "--no-header", "--quiet",
            "--python", sys.executable, "--no-python-downloads",
            "--python-platform", UV_NAMES[target.platform], "--python-version", target.python,
            "--only-binary", ":all:", "--index-strategy", "first-index",
            "--exclude-newer", _moment(target.pip.cutoff)]  # fmt: skip
    for index, url in indexes.items():
        argv += ["--index", f"{index}={url}"]
    for name, day in target.pip.cutoffs.items():
        argv += ["--exclude-newer-package", f"{name}={_moment(day)}"]
    return argv


def _moment(day: dt.date) -> str:
    # uv reads a bare date as the end of that day where it runs; a lock must not depend on that.
    return f"{day.isoformat()}T00:00:00Z"


def parse_pins(text: str) -> Pins:
    """Return version and askers by name, from requirements with annotations in line style."""
    found: Pins = {}
    for line in text.splitlines():
        if match := _PIN.fullmatch(line.strip()):
            askers = (match["via"] or WISH).split(", ")
            found[match["name"]] = (match["version"], tuple(sorted(set(map(_asker, askers)))))
    return found


def _asker(text: str) -> str:
    return "the spec" if WISH in text or OVERRIDES in text else text


def parse_pylock(text: str, pins: Pins, platform: str, python: str) -> list[ResolvedWheel]:
    """Return the one wheel of each distribution in a PEP 751 lock.

    Raises:
        ToolError: A distribution has no wheel for the platform, or its wheel has no SHA-256.
    """
    return [
        _pick(package, pins[package["name"]][1], platform, python)
        for package in tomllib.loads(text)["packages"]
    ]


def _pick(
    package: dict[str, object], via: tuple[str, ...], platform: str, python: str
) -> ResolvedWheel:
    name, release = str(package["name"]), str(package["version"])
    wheels = {_filename(wheel): wheel for wheel in package.get("wheels", [])}  # type: ignore[attr-defined]
    if not (filename := best_wheel(wheels, platform, python)):
        raise ToolError(
            f"{name} {release} has no wheel for {platform} and Python {python}",
            cause="only wheels are locked: what an sdist becomes depends on the machine",
            remedy=f"require another version of {name}, or of what needs it: {', '.join(via)}",
        )
    wheel = wheels[filename]
    if not (sha256 := wheel["hashes"].get("sha256")):
        raise ToolError(
            f"the index gives no SHA-256 for {filename}",
            remedy="use an index that does, or add the file to a catalog",
        )
    return ResolvedWheel(name, release, via, filename, sha256, wheel.get("size"), wheel["url"])


def _filename(wheel: dict[str, str]) -> str:
    return wheel.get("name") or unquote(urlsplit(wheel["url"]).path.rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class UvResolver:
    """uv, set up to answer questions about one target.

    Attributes:
        indexes: Address of each catalog index.
        default_index: A mirror of the default index; None for uv's own default.
        run: The door.
    """

    indexes: Mapping[str, str]
    default_index: str | None
    run: Run

    def pins(self, target: Target) -> Pins | Completed:
        """Resolve a target's requirements; give the failed process where there is no solution."""
        files = {
            WISH: target.pip.requirements,
            OVERRIDES: [override.requirement for override in target.pip.overrides],
        }
        done = self._compile(
            target, files, ["--overrides", OVERRIDES, "--annotation-style", "line", WISH]
        )
        return done if done.returncode else parse_pins(done.stdout)

    def files(self, target: Target, pins: Pins) -> list[ResolvedWheel]:
        """Look up the wheels of a resolution.

        Raises:
            ToolError: A distribution has none that can be locked, or the index does not answer.
        """
        pinned = {PINS: [f"{name}=={version}" for name, (version, _) in pins.items()]}
        words = ["--no-deps", "--format", "pylock.toml", PINS]
        # Resolving has just brought the pages into uv's cache; to ask again takes twice the time.
        done = self._compile(target, pinned, ["--offline", *words])
        if done.returncode:
            done = self._compile(target, pinned, words)
        done.require(f"could not find the files of {target.name}")
        return parse_pylock(done.stdout, pins, target.platform, target.python)

    def _compile(
        self, target: Target, files: Mapping[str, Sequence[str]], more: Sequence[str]
    ) -> Completed:
        import uv  # noqa: PLC0415 - only finds the program

        # A mirror's address may hold a password, and commands are echoed: not on the command line.
        mirror = {"UV_DEFAULT_INDEX": self.default_index} if self.default_index else {}
        env = clean_environment(extra=mirror | loopback_environment(os.environ))
        with tempfile.TemporaryDirectory(prefix="provision-") as temporary:
            for name, lines in files.items():
                write_atomic(Path(temporary) / name, "".join(f"{line}\n" for line in lines))
            argv = [*compile_argv(uv.find_uv_bin(), target, self.indexes), *more]
            return self.run(argv, env=env, cwd=Path(temporary))


def loopback_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep a proxy out of the way to this machine's own index."""
    hosts = next((value for name, value in env.items() if name.upper() == "NO_PROXY"), "")
    return {"NO_PROXY": ",".join(filter(None, [hosts, "127.0.0.1"]))}
