"""The verb ``outdated``: what is newer than a lock, what holds it, and whether it would lock.

Nothing is guessed and nothing is written: each edit is tried with the resolver that locks.
"""

import datetime as dt
import importlib.util
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import Version

from provision.catalog.devices import read_devices
from provision.catalog.snapshot import Channel, load_snapshot
from provision.commands.lock import ArtifactChange, LockResult, lock
from provision.core.errors import ProvisionError
from provision.core.limits import read_text
from provision.core.network import session
from provision.core.process import Run, clean_environment
from provision.core.program import program_name
from provision.core.project import Project
from provision.core.temporary import scratch
from provision.lockfile.pip import read_lock
from provision.lockfile.tags import markers
from provision.resolver.resolver import Resolver
from provision.resolver.uv import PINS, write_lines
from provision.spec.extends import spec_chain
from provision.spec.model import Target
from provision.spec.requirement_files import read_requirement_files, requirement_name

Data = dict[str, Any]
Moves = dict[str, str]  # requirement of the spec -> what it is tried as


@dataclass(frozen=True, slots=True)
class Newer:
    """A requirement of a spec that has a newer version on its index."""

    name: str
    locked: str
    newest: str  # that the target's platform and Python can install
    uploaded: str  # the day, of a file of the default index
    index: str  # that it comes from: a catalog's name, or `default`
    requirement: str  # as it is asked for
    place: str  # where, as file:line
    held_by: tuple[str, ...]  # what keeps the lock from it, or from locking it
    locks: str | None = (
        None  # the newest version that was found to lock; None where none did
    )
    edit: tuple[
        str, ...
    ] = ()  # the requirements to write into the spec, with what moves along
    commands: tuple[str, ...] = ()  # which make the edit
    driver: str | None = None  # what [hardware] driver has to be first; None: as is
    changes: tuple[ArtifactChange, ...] = ()  # to the lock, by the edit


@dataclass(frozen=True, slots=True)
class Vulnerability:
    """A known vulnerability of a locked version, or a package that nobody could look up."""

    package: str
    version: str
    id: str  # the package's own name, where the service does not know it
    aliases: tuple[str, ...]
    fixed: tuple[str, ...]  # the versions that are without it
    state: (
        str  # open; accepted, by the spec; or expired, which was accepted until a day
    )
    reason: str  # why it is accepted, or was not looked up


@dataclass(frozen=True, slots=True)
class Outdated:
    """What is newer than the lock of a target, and what is known against it."""

    target: str
    newer: tuple[Newer, ...] | None = None  # None where only the audit was wanted
    packages: int = 0  # of the lock
    later: int | None = (
        None  # how many of them change if only the cut-off moves to today
    )
    channels: Mapping[str, str] = field(
        default_factory=dict
    )  # day of its newest record
    vulnerabilities: tuple[Vulnerability, ...] = ()
    not_looked_up: str = ""  # why nothing is known of them
    error: ProvisionError | None = None  # why it could not be compared

    @property
    def bad(self) -> bool:
        """Whether there is something to do: an edit that locks, or an open vulnerability."""
        edits = any(each.locks and not each.driver for each in self.newer or ())
        return edits or any(known.state != "accepted" for known in self.vulnerabilities)


def outdated(
    target: Target, project: Project, resolver: Resolver, *, newer: bool
) -> Outdated:
    """Compare the lock of a target with its indexes, unless only the audit is wanted."""
    try:
        locked = read_lock(project.lock(target.name)).versions
        known = _known(target, locked, resolver.run)
        if not newer:
            return Outdated(target.name, None, len(locked), None, {}, *known)
        comparison = _Comparison(target, project, resolver, locked)
        found, later = comparison.newer(), comparison.attempt({}, "all")[0]
        channels = _channels(target, project)
    except ProvisionError as error:
        return Outdated(target.name, error=error)
    count = None if later.error else len(later.changes)
    return Outdated(target.name, tuple(found), len(locked), count, channels, *known)


def _channels(target: Target, project: Project) -> dict[str, str]:
    """Return how old the catalogs of the conda layer are: the day of the newest record of each."""
    found = {}
    for name in target.conda.channels if target.conda else ():
        records = load_snapshot(project.catalog, name, Channel).packages
        newest = max((each.timestamp for each in records), default=0)
        found[name] = f"{dt.datetime.fromtimestamp(newest / 1000, dt.UTC):%Y-%m-%d}"
    return found


@dataclass(frozen=True, slots=True)
class _Comparison:
    target: Target
    project: Project
    resolver: Resolver
    locked: Mapping[str, str]

    def newer(self) -> list[Newer]:
        """Return the requirements that have a newer version."""
        system, asked = markers(self.target.platform, self.target.python), {}
        for text in self.target.pip.requirements:
            wanted, name = Requirement(text), requirement_name(text)
            if name not in self.locked or wanted.url:
                continue
            if wanted.marker is None or wanted.marker.evaluate(system):
                asked[name] = text
        latest = self.resolver.newest(self._at({}, "all"), list(asked))
        return [
            self._examined(name, asked[name], version, day)
            for name, (version, day) in latest.items()
            if Version(version) > Version(self.locked[name])
        ]

    def _examined(self, name: str, text: str, newest: str, day: dt.date) -> Newer:
        self.resolver.progress.step(f"{self.target.name}: {name} {newest}")
        pip, index, place = (
            self.target.pip,
            self.target.pip.index_of(name),
            self._place(text),
        )
        held = [f"{text} in {': '.join(filter(None, place))}"] * (
            moved(text, newest) != text
        )
        cutoff = pip.cutoffs.get(name, pip.cutoff)
        if late := index == "default" and day >= cutoff:
            held.append(f"the cut-off {cutoff}, as it was uploaded on {day}")
        if legacy := self.target.status == "legacy":
            held.append("a legacy target, not tried")
        known = Newer(
            name, self.locked[name], newest, f"{day}", index, text, place[0], (*held,)
        )
        exact, above = (
            {text: moved(text, newest)},
            {text: _other(text, ">", self.locked[name])},
        )
        # The least edit first: one cut-off, then all of them, then what there was before them.
        ways = [(exact, "own"), (exact, "all")] if late else [(exact, "")]
        for moves, cutoffs in [] if legacy else [*ways, (above, "")]:
            result, tried = self.attempt(moves, cutoffs)
            held += [f"{other}, which moves along" for other in tried if other != text]
            if not result.error:
                return self._locked(
                    replace(known, held_by=(*held,)), tried, cutoffs, result
                )
            held += (result.error.cause or result.error.what).splitlines()
        return replace(known, held_by=tuple(dict.fromkeys(held)))

    def _locked(
        self, known: Newer, tried: Moves, cutoffs: str, result: LockResult
    ) -> Newer:
        """Return a requirement with the edit that was found to lock."""
        after = {**self.locked, **{c.name: c.after or "" for c in result.changes}}
        listed = [text for text in self.target.pip.requirements if text in tried]
        edit = {text: moved(text, after[requirement_name(text)]) for text in listed}
        new = tuple(text for old, text in edit.items() if text != old)
        own = f"{program_name()} lock {self.target.name}"
        dated = [
            n
            for n in map(requirement_name, edit)
            if self.target.pip.index_of(n) == "default"
        ]
        names = {"": [], "own": dated, "all": [""]}[cutoffs]  # a catalog has no cut-off
        commands = [f"{own} --upgrade {name}".strip() for name in names]
        add = f"{program_name()} add {self.target.name} {shlex.join(new)} --no-build"
        commands += [add] if new else [] if commands else [own]
        floor, cuda = self.target.hardware.driver, _cuda(after)
        least = read_devices(self.project.catalog).least_driver(
            cuda, self.target.platform
        )
        held = dict.fromkeys(known.held_by)
        if changed := least and floor and cuda != _cuda(self.locked):
            changed = min(
                Version(each.version) for each in SpecifierSet(floor)
            ) < Version(least)
            held |= {f"driver {floor} of the spec": None} if changed else {}
        return replace(
            known,
            held_by=tuple(held),
            locks=after[known.name],
            edit=new,
            commands=tuple(commands),
            driver=f">={least}" if changed else None,
            changes=result.changes,
        )

    def attempt(self, moves: Moves, cutoffs: str) -> tuple[LockResult, Moves]:
        """Try to lock with requirements moved; what stands in their way moves along."""
        while True:
            (result,) = lock(
                [self._at(moves, cutoffs)], self.project, self.resolver, write=False
            )
            stuck = result.error.requirements if result.error else ()
            more = {
                text: _other(text, ">=", self.locked[requirement_name(text)])
                for text in stuck
                if text in self.target.pip.requirements
                and text not in moves
                and requirement_name(text) in self.locked
            }
            if not more:
                return result, moves
            moves = moves | more

    def _at(self, moves: Moves, cutoffs: str) -> Target:
        """Return the target with requirements moved, and their own cut-offs or all of them."""
        pip, today = self.target.pip, dt.datetime.now(dt.UTC).date()
        own = (
            dict.fromkeys(map(requirement_name, moves), today)
            if cutoffs == "own"
            else {}
        )
        days: Data = {"cutoff": today, "cutoffs": {}} if cutoffs == "all" else {}
        requirements = tuple(moves.get(text, text) for text in pip.requirements)
        tried = self.target.with_pip(
            **{
                "requirements": requirements,
                "files": (),
                "cutoffs": pip.cutoffs | own,
                **days,
            }
        )
        return tried.model_copy(
            update={"conda": None}
        )  # slow, and no matter to the pip layer

    def _place(self, text: str) -> tuple[str, str]:
        """Return where a requirement is written, and the comment beside it."""
        root = self.project.root.resolve()
        said = re.compile(
            rf"""(?:|.*["']){re.escape(text)}["']?(?:[\s,;].*?)?(?:#\s*(.*))?"""
        )
        chain = spec_chain(self.project.specs / f"{self.target.name}.toml")
        files = read_requirement_files(root, self.target.pip.files).read
        for path in [*(file.path.resolve() for file in chain), *files]:
            for number, line in enumerate(read_text(path).splitlines(), 1):
                if found := said.fullmatch(line.strip()):
                    return f"{path}:{number}".removeprefix(f"{root}/"), found[1] or ""
        return f"envs/{self.target.name}.toml", ""


def moved(text: str, version: str) -> str:
    """Return a requirement that allows a version; as it is if it does already."""
    allowed, new = Requirement(text).specifier, Version(version)
    kept = filter(None, (_raised(each, new) for each in allowed))
    return (
        text if allowed.contains(new, prereleases=True) else _only(text, ",".join(kept))
    )


def _raised(part: Specifier, new: Version) -> str:
    """Return one part of a specifier for a newer version; "" where it only forbids that."""
    number, every = part.version.removesuffix(".*"), part.version.endswith(".*")
    if part.contains(new, prereleases=True):
        return str(part)
    if part.operator == "~=" or (every and part.operator == "=="):
        numbers = (*new.release, 0, 0)[: len(Version(number).release)]
        return f"{part.operator}{'.'.join(map(str, numbers))}{'.*' * every}"
    return (
        f"=={new if '+' in number else new.public}" if part.operator[:2] == "==" else ""
    )


def _only(text: str, versions: str) -> str:
    wanted = Requirement(text)
    wanted.specifier = SpecifierSet(versions)
    return str(wanted)


def _other(text: str, operator: str, version: str) -> str:
    return _only(text, f"{operator}{Version(version).public}")


def _cuda(versions: Mapping[str, str]) -> str:
    """Return the major version of the CUDA that locked packages bring; "" for none."""
    local = versions.get("torch", "").partition("+cu")[2]
    brought = (
        v
        for name, v in versions.items()
        if v and name.startswith("nvidia-cuda-runtime")
    )
    return local[:2] or next(brought, "").partition(".")[0]


def _known(
    target: Target, versions: Mapping[str, str], run: Run
) -> tuple[tuple[Vulnerability, ...], str]:
    """Return what pip-audit's service knows against versions; why it says nothing, or ""."""
    if not importlib.util.find_spec("pip_audit"):
        return (), "pip-audit is not installed beside provision"
    own = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_AUDIT_")
    }
    with session() as shared, scratch() as folder:
        own |= (
            {} if shared.verify is True else {"REQUESTS_CA_BUNDLE": str(shared.verify)}
        )
        # A vendor's build of a release, such as 2.13.0+cpu, is known by the release's own version.
        pins = [
            f"{name}=={Version(version).public}" for name, version in versions.items()
        ]
        write_lines(folder, {PINS: pins})
        done = run(
            [
                sys.executable,
                "-I",
                "-m",
                "pip_audit",
                "--disable-pip",
                "--no-deps",
                "-f",
                "json",
                "--progress-spinner",
                "off",
                "-r",
                PINS,
            ],
            env=clean_environment(extra=own),
            cwd=folder,
        )
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return (
            (),
            f"pip-audit ended with {done.returncode}: {done.stderr.strip()[-200:]}",
        )
    if all("skip_reason" in package for package in found):
        return (), "the service knows none of the packages"
    return tuple(
        _judged(target, versions, package, vulnerability)
        for package in found
        for vulnerability in package.get("vulns", [package])
    ), ""


def _judged(
    target: Target, versions: Mapping[str, str], package: Data, one: Data
) -> Vulnerability:
    name, known = str(package["name"]), str(one.get("id", package["name"]))
    aliases, fixed = tuple(one.get("aliases", ())), tuple(one.get("fix_versions", ()))
    entry = next(
        (each for each in target.pip.accepted if each.id in {known, *aliases}), None
    )
    state, reason = "open", str(one.get("skip_reason", ""))
    if entry:
        state = (
            "accepted" if dt.datetime.now(dt.UTC).date() <= entry.until else "expired"
        )
        reason = f"{entry.reason} (until {entry.until})"
    return Vulnerability(name, versions[name], known, aliases, fixed, state, reason)
