"""The verb ``init``: make a project of a repository, or of an empty folder; asks nothing."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from provision.catalog.digest import catalog_digest
from provision.commands.edit_journal import editing, rewrite, undo_killed_edit
from provision.commands.find_files import (
    accelerators_named,
    find_files,
    named_files,
)
from provision.commands.fit import Fitter
from provision.commands.freshness import staleness
from provision.commands.new_specs import BASE, Common, base_text, spec_text
from provision.commands.repository import (
    Required,
    not_used,
    read_lines,
    read_repository,
    usual_files,
    with_parts,
)
from provision.commands.wanted import Wanted
from provision.core.errors import SpecError, UsageError, damage_in
from provision.core.limits import is_inside, read_if_any
from provision.core.progress import Progress
from provision.core.project import Project, shipped
from provision.lockfile.pip import PIP_LAYER, read_lock
from provision.spec.extends import read_spec_file
from provision.spec.model import Target, requirement_name
from provision.spec.reader import (
    load_spec,
    load_target,
    same_hardware,
    target_names,
)

_IGNORED = ("/.envs/", "/.tools/", "/.cache/")
_NOXFILE = """\
from provision.sessions import add_sessions  # `nox -l` lists them

add_sessions(__file__)
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a repository is to be read for; by default what it is known for."""

    files: tuple[str, ...] = ()
    """Requirement files, pyproject.toml or environment.yml, by their paths."""
    extras: tuple[str, ...] = ()
    """Extras of the pyproject.toml."""
    groups: tuple[str, ...] = ()
    """Dependency groups of the pyproject.toml."""


@dataclass(frozen=True, slots=True)
class InitializedTarget:
    """What was done for one target."""

    name: str
    """Name of the target."""
    spec: str | None
    """The file; null where it existed, and was left as it is."""
    changed: tuple[str, ...] = ()
    """Versions that were changed to fit the target, each with its place."""
    left_out: tuple[str, ...] = ()
    """Requirements that are left out, each with its place and why."""
    locked: bool = False
    """Whether its lock is fresh: the shipped one, where nothing was added, or one of the project."""
    inherited: tuple[str, ...] = ()
    """Names of what it requires because the shipped target does."""
    packages: int | None = None
    """How many packages the lock of the shipped target has; null where it has none."""


@dataclass(frozen=True, slots=True)
class Initialized:
    """A project that was made, or completed."""

    root: Path
    """Path of the project."""
    targets: tuple[InitializedTarget, ...]
    """What was done for each target."""
    written: tuple[str, ...]
    """Files that were written or got lines."""
    to_do: tuple[str, ...]
    """What has to be done by hand, each with its place."""
    empty: bool
    """Whether the repository has requirements, none was chosen, and nothing was written."""


def initialize(
    project: Project,
    names: Sequence[str],
    progress: Progress,
    choice: Choice | None = None,
) -> Initialized:
    """Make a project with a spec for each target; no file of the user's is overwritten.

    It is made whole or not at all.
    """
    if project == shipped():
        raise UsageError(
            "this is the toolkit's own folder, which has every target",
            remedy="change into your repository, or name it with --project",
        )
    specs = shipped().specs
    bases = [load_target(specs, name) for name in dict.fromkeys(names)]
    choice = choice or Choice()
    undo_killed_edit(project, progress)
    plan = _plan(project, choice, bases)
    if plan.required.is_empty and not plan.has_base:
        left = tuple(plan.required.left)
        return Initialized(project.root, (), (), left, empty=True)
    with editing(project, progress):
        # Once more: another command may have made a project of it meanwhile.
        return _initialize(project, bases, _plan(project, choice, bases))


def _initialize(
    project: Project, bases: Sequence[Target], plan: "_Plan"
) -> Initialized:
    left = plan.required.left
    targets, written, fitted = _write_specs(project, bases, plan)
    left += _elsewhere(project, plan, fitted)
    left += _faults(project, targets, left)
    if _ignore(project.root / ".gitignore"):
        written.append(".gitignore")
    noxfile = project.root / "noxfile.py"
    if not _exists(noxfile):
        rewrite(noxfile, _NOXFILE)
        written.append(noxfile.name)
    elif b"add_sessions" not in _content(noxfile, project.root):
        lines = "; ".join(filter(None, _NOXFILE.splitlines()))
        left.append(
            f"noxfile.py: exists; add these lines to it for the sessions: {lines}"
        )
    return Initialized(project.root, targets, tuple(written), tuple(left), empty=False)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a repository requires, and what of it new files refer to."""

    required: Required
    base: dict[str, Any]  # `[pip]` of the common file
    has_base: bool  # whether that exists
    new: list[str]  # entries of `[pip] files` that are not there
    local: list[str]  # entries of `[pip] local` that are not there
    accelerators: set[str]  # of the targets

    def common(self) -> Common:
        """Return what all targets get."""
        files = [entry for entry in self.new if not accelerators_named(entry)]
        drop = tuple(self.base.get("drop", ()))
        return Common(tuple(files), tuple(self.local), drop)

    def of_hardware(self, target: Target) -> list[str]:
        """Return what a target gets of the files that are named after an accelerator."""
        entries = []
        for entry in self.new:
            named = accelerators_named(entry)
            # A file for none of the targets was named for all of them.
            if named and (target.accelerator in named or not named & self.accelerators):
                entries.append(entry)
        return entries

    def lines(self, root: Path, target: Target) -> list[Wanted]:
        """Return what the repository requires on a target."""
        files = list(self.base.get("files", ()))
        files += self.common().files
        files += self.of_hardware(target)
        lines = read_lines(root, files)
        for text in self.base.get("requirements", ()):
            lines.append(Wanted(Requirement(text), BASE))
        return lines + self.required.conda


def _plan(project: Project, choice: Choice, targets: Sequence[Target]) -> _Plan:
    root = project.root
    path = root / BASE
    base: dict[str, Any] = {}
    has_base = _exists(path)
    if has_base:
        with damage_in(path, "correct the file"):
            base = dict(read_spec_file(path, project.specs).data.get("pip", {}))
    candidates = find_files(root)
    named = named_files(root, choice.files)
    if not named and not has_base:
        named = usual_files(root, candidates)
    files = with_parts(root, named, choice.extras, choice.groups)
    base_files = list(base.get("files", ()))
    new = [entry for entry in files if entry not in base_files]
    whole = not choice.files
    required = read_repository(root, [*base_files, *new], candidates, whole=whole)
    required.left += not_used(required, [target.name for target in targets])
    local: list[str] = []
    # Else the common file has what the user requires.
    if not has_base or choice.files:
        base_local = base.get("local", ())
        local = [text for text in required.local if text not in base_local]
    accelerators = {target.accelerator for target in targets}
    return _Plan(required, base, has_base, new, local, accelerators)


def _write_specs(
    project: Project, targets: Sequence[Target], plan: _Plan
) -> tuple[tuple[InitializedTarget, ...], list[str], list[Fitter]]:
    """Write what is missing; return what was done, the files, and what was fitted."""
    fitted: dict[str, Fitter] = {}
    written = []
    for target in targets:
        if not _exists(project.specs / f"{target.name}.toml"):
            fitted[target.name] = _fitted(project, target, plan)
    common = plan.common()
    if fitted and not plan.has_base:
        common = common.with_drop(fitted.values())
        rewrite(project.root / BASE, base_text(common))
        written.append(BASE)
        common = Common(drop=common.drop)  # of which the specs say nothing more
    done = []
    for target in targets:
        if target.name in fitted:
            files = (*common.files, *plan.of_hardware(target))
            lists = replace(common, files=files)
            result = _write_spec(project, target, fitted[target.name], lists)
            written.append(str(result.spec))
        else:
            locked = _is_locked(project, target.name)
            result = InitializedTarget(target.name, None, locked=locked)
        done.append(result)
    return tuple(done), written, list(fitted.values())


def _fitted(project: Project, target: Target, plan: _Plan) -> Fitter:
    fitter = Fitter(target, project.catalog, plan.required.requires_python)
    fitter.fit(plan.lines(project.root, target))
    return fitter


def _elsewhere(
    project: Project, plan: _Plan, fitted: Iterable[Fitter]
) -> Iterator[str]:
    """Yield which target of the same hardware has the torch that a repository asks for."""
    existing = target_names(project.specs)
    for fitter in fitted:
        if not fitter.unmet:
            continue
        for target in same_hardware(fitter.target):
            if target.name in existing:
                continue
            other = _fitted(project, target, plan)
            if not other.unmet:
                yield (
                    f"{fitter.unmet} fits {target.name} with torch {other.torch}, and not "
                    f"{fitter.target.name}: `provision init --target {target.name}`"
                )
                break


def _write_spec(
    project: Project, base: Target, fitted: Fitter, common: Common
) -> InitializedTarget:
    path = project.specs / f"{base.name}.toml"
    rewrite(path, spec_text(base, fitted, common))
    locked = False
    with contextlib.suppress(SpecError):  # said of all specs together
        locked = _take_lock(project, base, load_spec(path))
    place = path.relative_to(project.root).as_posix()
    return InitializedTarget(
        base.name,
        place,
        tuple(fitted.done),
        tuple(fitted.left),
        locked,
        _inherited(base, fitted),
        len(fitted.locked) or None,
    )


def _inherited(base: Target, fitted: Fitter) -> tuple[str, ...]:
    """Return the names of the shipped requirements that a new spec does not replace."""
    replaced = {*fitted.drop, *fitted.exclude}
    replaced.update(map(requirement_name, fitted.requirements))
    replaced.update(map(requirement_name, fitted.overrides))
    names = dict.fromkeys(map(requirement_name, base.pip.requirements))
    return tuple(name for name in names if name not in replaced)


def _faults(
    project: Project, targets: Iterable[InitializedTarget], reported: Sequence[str]
) -> list[str]:
    """Return what keeps new specs from being read, such as a source that cannot be followed."""
    faults: list[str] = []
    for target in targets:
        if not target.spec:
            continue
        try:
            load_spec(project.root / target.spec)
        except SpecError as error:
            text = (error.evidence or error.what).replace(f"{project.root}/", "")
            for fault in text.splitlines():
                if fault not in (*reported, *faults):
                    faults.append(fault)
    return faults


def _is_locked(project: Project, name: str) -> bool:
    """Whether a target that the project has already has a fresh lock."""
    try:
        target = load_target(project.specs, name)
        return not staleness(target, project.catalog, read_lock(project.lock(name)))
    except SpecError:  # other verbs say it
        return False


def _take_lock(project: Project, base: Target, target: Target) -> bool:
    """Copy the shipped lock where it is the lock of a new spec too; whether that was so."""
    shipped_lock = shipped().lock(base.name)
    lock = project.lock(base.name)
    if not shipped_lock.is_dir() or (lock / PIP_LAYER).exists():
        return False
    if target.digest() != base.digest():
        return False
    catalog = catalog_digest(project.catalog, target)
    if catalog != catalog_digest(shipped().catalog, base):
        return False
    for layer in shipped_lock.iterdir():
        rewrite(lock / layer.name, layer.read_bytes())
    return True


def _exists(path: Path) -> bool:
    # A link that leads nowhere is the user's, too: what is written through it is somewhere else.
    return path.exists() or path.is_symlink()


def _content(path: Path, root: Path) -> bytes:
    if not is_inside(path, root):
        return b""
    return read_if_any(path) or b""


def _ignore(path: Path) -> bool:
    """Add what the toolkit makes to a ``.gitignore``; whether anything was added."""
    if not is_inside(path, path.parent):
        return False
    content = _content(path, path.parent)
    text = content.decode(errors="replace")
    ignored = {line.strip().strip("/") for line in text.splitlines()}
    missing = [line for line in _IGNORED if line.strip("/") not in ignored]
    if not missing:
        return False
    added = "\n".join([*missing, ""])
    if text and not text.endswith("\n"):
        added = f"\n{added}"
    rewrite(path, content + added.encode())  # all bytes that were there stay
    return True
