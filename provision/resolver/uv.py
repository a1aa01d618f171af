"""Resolve the pip layer with uv, for any platform on any platform."""

import datetime as dt
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name
from packaging.version import Version

from provision.core.errors import SpecError, ToolError
from provision.core.platforms import PLATFORMS
from provision.core.process import Completed, Run, clean_environment
from provision.core.program import uv_program
from provision.core.temporary import scratch
from provision.lockfile.pip import Artifact
from provision.lockfile.requirers import THE_SPEC
from provision.lockfile.tags import best_wheel
from provision.resolver.derivation import NO_SOLUTION
from provision.spec.model import Override, Target
from provision.spec.own import metadata_elsewhere, own_packages
from provision.spec.pip_files import logical_lines

_PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?:\s+# via (?P<via>.+))?")
_REFERENCE = re.compile(r"^([a-z0-9-]+ @ \S+)(?:\s+# via (.+))?$", re.MULTILINE)
# Distribution -> its version, and what requires it.
Pins = dict[str, tuple[str, tuple[str, ...]]]
REQUIREMENTS = "requirements.in"
OVERRIDES = "overrides.txt"
PINS = "pins.txt"
CONSTRAINTS = "constraints.txt"
EXCLUDES = "excludes.txt"
_PYLOCK = ("--no-deps", "--format", "pylock.toml", PINS)
Package = dict[str, Any]  # of a PEP 751 lock file


def compile_argv(uv: str, target: Target, indexes: Mapping[str, str]) -> list[str]:
    """Return the part of the command that all uses share."""
    # --python: platform and version are given below, so any interpreter works, and uv need not
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
        PLATFORMS[target.platform].with_glibc(target.glibc).uv,
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
    # So from its sdist or folder, in spite of --only-binary; of an own package, which the install
    # builds anyway, a build alone tells a dynamic version.
    names = list(target.pip.build)
    names += [package.name for package in own_packages(target.pip.local, Path())]
    for name in filter(None, names):
        argv += ["--no-binary", name]
    return argv


def _refreshed(target: Target) -> list[str]:
    """Return the options by which uv builds anew what only a build tells of own packages.

    It keeps that while pyproject.toml, setup.py and setup.cfg are as they were, whatever the files
    say that these read.
    """
    options = []
    for package in own_packages(target.pip.local, Path()):
        if not package.name:
            return ["--refresh"]
        if not package.is_static:
            options += ["--refresh-package", package.name]
    return options


def midnight(day: dt.date) -> str:
    """Return the first moment of a day, UTC, as uv and pip read it."""
    # Not a bare date: uv reads that as the end of the day in the local time zone.
    return f"{day.isoformat()}T00:00:00Z"


def parse_pins(text: str) -> Pins:
    """Return the pins in the output of uv or pip-compile with annotations in line style."""
    pins: Pins = {}
    for line in text.splitlines():
        match = _PIN.fullmatch(line.strip())
        if not match:
            continue
        via = set()
        for name in (match["via"] or REQUIREMENTS).split(", "):
            if REQUIREMENTS in name or OVERRIDES in name:
                via.add(THE_SPEC)
            elif not name.startswith("-c "):  # which limits, and requires nothing
                via.add(name)
        pins[match["name"]] = (match["version"], tuple(sorted(via)))
    return pins


def _refuse_references(target: Target, text: str) -> None:
    """Refuse what is not from an index, and so in no lock: builds of own packages can require it."""
    references = _REFERENCE.findall(text)
    if not references:
        return
    name = references[0][0].partition(" ")[0]
    required = [f'"{reference}"' for reference, _ in references]
    lines = [f"{by} requires {reference}" for reference, by in references]
    raise SpecError(
        f"{target.name}: an own package takes {name} from a URL",
        evidence="\n".join(lines),
        cause="only its build says so, and the lock has only what was built before",
        remedy=f"write `requirements = [{', '.join(required)}]` into [pip] of "
        f"envs/{target.name}.toml; a folder goes into `local`",
    )


def locked_wheel(
    package: Package,
    via: tuple[str, ...],
    platform: str,
    python: str,
    glibc: str | None = None,
) -> tuple[Artifact, str]:
    """Return the best wheel of a package of a PEP 751 lock file, and its URL."""
    name = package["name"]
    release = package["version"]
    wheels = {_filename(wheel): wheel for wheel in package.get("wheels", [])}
    filename = best_wheel(wheels, platform, python, glibc)
    if not filename:
        raise ToolError(
            f"{name} {release} has no wheel for {platform} and Python {python}",
            cause="only wheels are locked: what an sdist builds depends on the machine",
            remedy=f"require another version of {name}, or of what requires it: "
            f"{', '.join(via)}",
        )
    wheel = wheels[filename]
    sha256 = wheel["hashes"].get("sha256")
    if not sha256:
        raise ToolError(
            f"the index gives no SHA-256 for {filename}",
            remedy="use an index that does, or add the file to a catalog",
        )
    size = wheel.get("size")
    artifact = Artifact(name, release, filename, sha256, size, "default", via)
    return artifact, wheel["url"]


def _filename(file: dict[str, str]) -> str:
    if file.get("name"):
        return file["name"]
    # PEP 751: it may be left out where it is the last part of the URL.
    path = urlsplit(file["url"]).path
    return unquote(path.rpartition("/")[2])


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
            EXCLUDES: target.pip.exclude,
        }
        options = ["--overrides", OVERRIDES, "--constraints", CONSTRAINTS]
        options += ["--excludes", EXCLUDES]
        options += ["--annotation-style", "line", *_refreshed(target)]
        done = self._compile(target, files, [*options, REQUIREMENTS])
        if done.returncode:
            return done
        _refuse_references(target, done.stdout)
        return parse_pins(done.stdout)

    def pins_of(self, target: Target, texts: Iterable[str]) -> Pins | Completed:
        """Resolve a target with some requirements and own packages in place of all."""
        requirements = []
        local = []
        for text in texts:
            if text in target.pip.local:
                local.append(text)
            else:
                requirements.append(text)
        asked = target.with_pip(requirements=tuple(requirements), local=tuple(local))
        return self.pins(asked)

    def is_asked_for(self, target: Target, name: str, pins: Pins) -> bool:
        """Whether a package of a lock requires a distribution that the target excludes."""
        exclude = [other for other in target.pip.exclude if other != name]
        never = Override(requirement=f"{name}<0", reason="no version fits")
        asked = target.with_pip(
            # At its versions: uv would try all others to do without.
            constraints=tuple(_exact(pins)),
            exclude=tuple(exclude),
            overrides=(*target.pip.overrides, never),
        )
        return isinstance(self.pins(asked), Completed)

    def nearest(
        self, target: Target, name: str, low: Version, high: Version
    ) -> list[str]:
        """Return the versions that fit a target next above and below two others, where there are.

        Where nothing is above, two below; the newest first.
        """
        above = self.above(target, name, high)
        below = self._pick(target, name, f"<{low.public}")
        older = []
        if below and not above:
            older = self._pick(target, name, f"<{Version(below[0]).public}")
        return [*above, *below, *older]

    def above(self, target: Target, name: str, version: Version) -> list[str]:
        """Return the first version of a distribution above another one that fits, if there is one."""
        lowest = ("--resolution", "lowest-direct")
        return self._pick(target, name, f">{version.public}", *lowest)

    def _pick(self, target: Target, name: str, limit: str, *options: str) -> list[str]:
        """Return the version that uv picks of one distribution, none where none fits."""
        files = {REQUIREMENTS: [f"{name}{limit}"]}
        done = self._compile(target, files, [*options, REQUIREMENTS])
        pins = parse_pins(done.stdout)
        key = canonicalize_name(name)
        return [pins[key][0]] if key in pins else []

    def releases(
        self, target: Target, name: str, newest: str, oldest: str
    ) -> list[str]:
        """Return the versions of a distribution that fit a target, from the newest one down.

        ``oldest`` may be "". Requirements are not looked at. ToolError: an index does not answer.
        """
        # A nightly is compared with nightlies; others have nothing to do with them.
        pre = "allow" if Version(newest).is_prerelease else "disallow"
        options = ["--no-deps", "--prerelease", pre, REQUIREMENTS]
        key = str(canonicalize_name(name))
        versions = list[str]()
        limit = f"<={Version(newest).public}"
        while True:
            files = {REQUIREMENTS: [f"{name}{limit}"]}
            done = self._compile(target, files, options)
            if done.returncode and NO_SOLUTION not in done.stderr:
                done.require(f"could not list the releases of {name}")
            pins = parse_pins(done.stdout)
            if key not in pins:
                return versions
            version = Version(pins[key][0])
            if oldest and _public(version) < _public(Version(oldest)):
                return versions
            versions.append(str(version))
            limit = f"<{version.public}"

    def newest(
        self, target: Target, names: Sequence[str]
    ) -> dict[str, tuple[str, dt.date]]:
        """Return the newest version of each distribution, and the day of its upload."""
        done = self._compile(target, {PINS: names}, _PYLOCK)
        done.require(f"could not look up what is newer for {target.name}")
        versions = {}
        for package in _packages(done):
            files = list(package.get("wheels", ()))
            if "sdist" in package:
                files.append(package["sdist"])
            day = min(file["upload-time"].date() for file in files)
            versions[package["name"]] = (package["version"], day)
        return versions

    def files(
        self, target: Target, pins: Pins
    ) -> tuple[list[Artifact], dict[str, str]]:
        """Look up the wheels of resolved versions, and their URLs by their SHA-256."""
        wheels = []
        urls = {}
        for package in self._of_pins(target, pins):
            _, via = pins[package["name"]]
            wheel, url = locked_wheel(package, via, *target.machine)
            wheels.append(wheel)
            urls[wheel.sha256] = url
        return wheels, urls

    def sdists(self, target: Target, pins: Pins) -> dict[str, str]:
        """Return file name and SHA-256 of the sdists of pins, as sources; see ``[pip] build``."""
        sources: dict[str, str] = {}
        if not pins:
            return sources
        for package in self._of_pins(target, pins):
            name = package["name"]
            sdist = package.get("sdist", {})
            sha256 = sdist.get("hashes", {}).get("sha256")
            if not sha256:
                raise ToolError(
                    f"the index lists no sdist with a SHA-256 of {name} "
                    f"{package['version']}",
                    remedy=f"remove {name} from [pip] build of envs/{target.name}.toml",
                )
            sources[name] = f"{_filename(sdist)} sha256:{sha256}"
        return sources

    def local_names(self, target: Target) -> list[str]:
        """Return the names of the own packages."""
        done = self._compile(target, {PINS: target.pip.local}, _PYLOCK)
        done.require(f"cannot read the own packages of {target.name}")
        return sorted(package["name"] for package in _packages(done))

    def build_requirements(
        self, target: Target, names: Sequence[str]
    ) -> tuple[str, ...]:
        """Resolve the requirements of a build; each pin has the hashes of all its files."""
        options = ["--generate-hashes", "--no-annotate", REQUIREMENTS]
        done = self._compile(target, {REQUIREMENTS: names}, options)
        done.require(f"could not resolve the build requirements {', '.join(names)}")
        return tuple(line for _, line in logical_lines(done.stdout))

    def _of_pins(self, target: Target, pins: Pins) -> list[Package]:
        pinned = {PINS: _exact(pins)}
        # Offline first: uv has just cached every index page, and revalidating them would double the
        # time. Where pip-tools resolved, uv's cache may lack them.
        done = self._compile(target, pinned, ["--offline", *_PYLOCK])
        if done.returncode:
            done = self._compile(target, pinned, _PYLOCK)
        done.require(f"could not find the files of {target.name}")
        return _packages(done)

    def _compile(
        self, target: Target, files: Mapping[str, Sequence[str]], options: Sequence[str]
    ) -> Completed:
        env = clean_environment(extra=PLATFORMS[target.platform].resolver)
        env |= loopback_environment(os.environ)
        if self.default_index:
            # Not on the command line, which is echoed: the URL of a mirror may contain a password.
            env["UV_DEFAULT_INDEX"] = self.default_index
        with scratch() as folder:
            write_lines(folder, files)
            env |= metadata_elsewhere(folder)
            argv = [*compile_argv(uv_program(), target, self.indexes), *options]
            return self.run(argv, env=env, cwd=folder)


def _public(version: Version) -> Version:
    return Version(version.public)


def _exact(pins: Pins) -> list[str]:
    return [f"{name}=={version}" for name, (version, _) in pins.items()]


def _packages(done: Completed) -> list[Package]:
    document = tomllib.loads(done.stdout)
    return list(document["packages"])


def write_lines(folder: Path, files: Mapping[str, Iterable[str]]) -> None:
    """Write the input files of a resolver into a temporary folder."""
    for name, lines in files.items():
        text = "".join(f"{line}\n" for line in lines)
        (folder / name).write_text(text, encoding="utf-8")


def loopback_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that exempt the local index from a proxy."""
    hosts = env.get("NO_PROXY") or env.get("no_proxy")
    return {"NO_PROXY": f"{hosts},127.0.0.1" if hosts else "127.0.0.1"}
