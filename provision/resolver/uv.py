"""Resolve the pip layer with uv, for any platform on any platform."""

import datetime as dt
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name
from packaging.version import Version

from provision.core.errors import ToolError
from provision.core.platforms import PLATFORMS
from provision.core.process import Completed, Run, clean_environment
from provision.core.program import uv_program
from provision.core.temporary import scratch
from provision.lockfile.pip import Artifact
from provision.lockfile.tags import best_wheel
from provision.spec.model import Target
from provision.spec.requirement_files import logical_lines

_PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?:\s+# via (?P<via>.+))?")
# Distribution -> its version, and what requires it.
Pins = dict[str, tuple[str, tuple[str, ...]]]
REQUIREMENTS, OVERRIDES, PINS = "requirements.in", "overrides.txt", "pins.txt"
CONSTRAINTS = "constraints.txt"


def compile_argv(uv: str, target: Target, indexes: Mapping[str, str]) -> list[str]:
    """Return the part of the command that all uses share."""
    # --python: platform and version are given below, so any interpreter serves, and uv need not
    # search for one. --only-binary: what an sdist becomes depends on the machine that builds it.
    # --no-sources: [tool.uv.sources] of an own package names folders and branches, not releases.
    argv = [
        uv,
        "pip",
        "compile",
        "--no-config",
        "--no-header",
        "--quiet",
        "--no-sources",
        "--python",
        sys.executable,
        "--no-python-downloads",
        "--python-platform",
        PLATFORMS[target.platform].uv,
        "--python-version",
        target.python_version,
        "--only-binary",
        ":all:",
        "--index-strategy",
        "first-index",
        "--exclude-newer",
        midnight(target.pip.cutoff),
    ]
    for index, url in indexes.items():
        argv += ["--index", f"{index}={url}"]
    for name, day in target.pip.cutoffs.items():
        argv += ["--exclude-newer-package", f"{name}={midnight(day)}"]
    for name in target.pip.build:  # and so from its sdist, in spite of --only-binary
        argv += ["--no-binary", name]
    return argv


def midnight(day: dt.date) -> str:
    """Return the first moment of a day, UTC, as uv and pip read it."""
    # Not a bare date: uv reads that as the end of the day in the local time zone.
    return f"{day.isoformat()}T00:00:00Z"


def parse_pins(text: str) -> Pins:
    """Return the pins in the output of uv or pip-compile with annotations in line style."""
    found: Pins = {}
    for line in text.splitlines():
        if match := _PIN.fullmatch(line.strip()):
            via = {
                "the spec" if REQUIREMENTS in name or OVERRIDES in name else name
                for name in (match["via"] or REQUIREMENTS).split(", ")
                if not name.startswith("-c ")
            }  # limits, requires nothing
            found[match["name"]] = (match["version"], tuple(sorted(via)))
    return found


def parse_pylock(
    text: str, pins: Pins, platform: str, python: str
) -> list[tuple[Artifact, str]]:
    """Return the best wheel of each distribution in a PEP 751 lock file, and its URL."""
    return [
        _best(package, pins[package["name"]][1], platform, python)
        for package in tomllib.loads(text)["packages"]
    ]


def _best(
    package: dict[str, object], via: tuple[str, ...], platform: str, python: str
) -> tuple[Artifact, str]:
    name, release = str(package["name"]), str(package["version"])
    wheels = {_filename(wheel): wheel for wheel in package.get("wheels", [])}  # type: ignore[attr-defined]
    if not (filename := best_wheel(wheels, platform, python)):
        raise ToolError(
            f"{name} {release} has no wheel for {platform} and Python {python}",
            cause="only wheels are locked: what an sdist builds depends on the machine",
            remedy=f"require another version of {name}, or of what requires it: "
            f"{', '.join(via)}",
        )
    wheel = wheels[filename]
    if not (sha256 := wheel["hashes"].get("sha256")):
        raise ToolError(
            f"the index gives no SHA-256 for {filename}",
            remedy="use an index that does, or add the file to a catalog",
        )
    size = wheel.get("size")
    return Artifact(name, release, filename, sha256, size, "default", via), wheel["url"]


def _filename(wheel: dict[str, str]) -> str:
    # PEP 751: the name may be left out where it is the last part of the URL.
    return wheel.get("name") or unquote(urlsplit(wheel["url"]).path.rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class UvResolver:
    """uv with the indexes of one target."""

    indexes: Mapping[str, str]
    default_index: str | None
    run: Run

    def pins(self, target: Target) -> Pins | Completed:
        """Resolve a target's requirements; return the failed process if there is no solution."""
        files = {
            REQUIREMENTS: [*target.pip.requirements, *target.pip.local],
            CONSTRAINTS: target.pip.constraints,
            OVERRIDES: [override.requirement for override in target.pip.overrides],
        }
        options = ["--overrides", OVERRIDES, "--constraints", CONSTRAINTS]
        done = self._compile(
            target, files, [*options, "--annotation-style", "line", REQUIREMENTS]
        )
        return done if done.returncode else parse_pins(done.stdout)

    def nearest(
        self, target: Target, name: str, low: Version, high: Version
    ) -> list[str]:
        """Return up to two versions that fit a target, next to two others; the newest first."""

        def pick(limit: str, *options: str) -> list[str]:
            files = {REQUIREMENTS: [f"{name}{limit}"]}
            found = parse_pins(
                self._compile(target, files, [*options, REQUIREMENTS]).stdout
            )
            return [
                pin for key, (pin, _) in found.items() if key == canonicalize_name(name)
            ]

        above = pick(f">{high.public}", "--resolution", "lowest-direct")
        below = pick(f"<{low.public}")
        older = pick(f"<{below[0].partition('+')[0]}") if below and not above else []
        return [*above, *below, *older]

    def newest(
        self, target: Target, names: Sequence[str]
    ) -> dict[str, tuple[str, dt.date]]:
        """Return the newest version of each distribution, and the day of its upload."""
        options = ["--no-deps", "--format", "pylock.toml", REQUIREMENTS]
        done = self._compile(target, {REQUIREMENTS: names}, options)
        done.require(f"could not look up what is newer for {target.name}")
        return {
            str(package["name"]): (
                str(package["version"]),
                min(
                    file["upload-time"].date()
                    for file in [
                        *package.get("wheels", ()),
                        *filter(None, [package.get("sdist")]),
                    ]
                ),
            )
            for package in tomllib.loads(done.stdout)["packages"]
        }

    def files(self, target: Target, pins: Pins) -> list[tuple[Artifact, str]]:
        """Look up the wheels of resolved versions, and their URLs."""
        return parse_pylock(
            self._pylock(target, pins), pins, target.platform, target.python
        )

    def sdists(self, target: Target, pins: Pins) -> dict[str, str]:
        """Return file name and SHA-256 of the sdists of pins, as sources; see ``[pip] build``."""
        found = {}
        for package in (
            tomllib.loads(self._pylock(target, pins))["packages"] if pins else ()
        ):
            name, sdist = str(package["name"]), package.get("sdist", {})
            if not (sha256 := sdist.get("hashes", {}).get("sha256")):
                raise ToolError(
                    f"the index lists no sdist with a SHA-256 of {name} "
                    f"{package['version']}",
                    remedy=f"remove {name} from [pip] build of envs/{target.name}.toml",
                )
            found[name] = f"{_filename(sdist)} sha256:{sha256}"
        return found

    def local_names(self, target: Target) -> list[str]:
        """Return the names of the own packages."""
        options = ["--no-deps", "--format", "pylock.toml", PINS]
        done = self._compile(target, {PINS: target.pip.local}, options)
        done.require(f"cannot read the own packages of {target.name}")
        return sorted(
            str(package["name"]) for package in tomllib.loads(done.stdout)["packages"]
        )

    def build_requirements(
        self, target: Target, names: Sequence[str]
    ) -> tuple[str, ...]:
        """Resolve the requirements of a build; each pin has the hashes of all its files."""
        options = ["--generate-hashes", "--no-annotate", REQUIREMENTS]
        done = self._compile(target, {REQUIREMENTS: names}, options)
        done.require(f"could not resolve the build requirements {', '.join(names)}")
        return tuple(line for _, line in logical_lines(done.stdout))

    def _pylock(self, target: Target, pins: Pins) -> str:
        pinned = {PINS: [f"{name}=={version}" for name, (version, _) in pins.items()]}
        options = ["--no-deps", "--format", "pylock.toml", PINS]
        # Offline first: uv has just cached every index page, and revalidating them would double the
        # time. Where pip-tools resolved, uv's cache may lack them.
        done = self._compile(target, pinned, ["--offline", *options])
        if done.returncode:
            done = self._compile(target, pinned, options)
        return done.require(f"could not find the files of {target.name}").stdout

    def _compile(
        self, target: Target, files: Mapping[str, Sequence[str]], options: Sequence[str]
    ) -> Completed:
        # Not on the command line, which is echoed: the URL of a mirror may contain a password.
        extra = {"UV_DEFAULT_INDEX": self.default_index} if self.default_index else {}
        extra |= PLATFORMS[target.platform].resolver | loopback_environment(os.environ)
        env = clean_environment(extra=extra)
        with scratch() as folder:
            write_lines(folder, files)
            argv = [*compile_argv(uv_program(), target, self.indexes), *options]
            return self.run(argv, env=env, cwd=folder)


def write_lines(folder: Path, files: Mapping[str, Iterable[str]]) -> None:
    """Write the input files of a resolver into a temporary folder."""
    for name, lines in files.items():
        (folder / name).write_text(
            "".join(f"{line}\n" for line in lines), encoding="utf-8"
        )


def loopback_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that exempt the local index from a proxy."""
    hosts = next(
        (value for name, value in env.items() if name.upper() == "NO_PROXY"), ""
    )
    return {"NO_PROXY": ",".join(filter(None, [hosts, "127.0.0.1"]))}
