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
from provision.commands.new_specs import BASE, Common, base_text, spec_text
from provision.commands.repository import (
    Asked,
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
from provision.lockfile.pip import PIP_LAYER
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
    """Whether it has the shipped lock, since nothing was added."""
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
    names = list(dict.fromkeys(names))
    bases = [load_target(shipped().specs, name) for name in names]
    choice = choice or Choice()
    undo_killed_edit(project, progress)
    plan = _plan(project, choice, bases)
    if plan.asked.is_empty and plan.kept is None:
        left = [*plan.asked.left, *not_used(plan.asked, names)]
        return Initialized(project.root, (), (), tuple(left), empty=True)
    with editing(project, progress):
        # Once more: another command may have made a project of it meanwhile.
        return _initialize(project, names, bases, _plan(project, choice, bases))


def _initialize(
    project: Project, names: Sequence[str], bases: Sequence[Target], plan: "_Plan"
) -> Initialized:
    left = [*plan.asked.left, *not_used(plan.asked, names)]
    targets, written, unmet = _write_specs(project, bases, plan)
    left += _elsewhere(project, plan, unmet)
    left += _faults(project, [t.spec for t in targets if t.spec], left)
    if _ignore(project.root / ".gitignore"):
        written.append(".gitignore")
    noxfile = project.root / "noxfile.py"
    if not _exists(noxfile):
        rewrite(noxfile, _NOXFILE)
        written.append(noxfile.name)
    elif b"add_sessions" not in _content(noxfile, project.root):
        lines = "; ".join(line for line in _NOXFILE.splitlines() if line)
        left.append(
            f"noxfile.py: exists; add these lines to it for the sessions: {lines}"
        )
    return Initialized(project.root, targets, tuple(written), tuple(left), empty=False)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a repository requires, and what of it new files refer to."""

    asked: Asked
    kept: dict[str, Any] | None  # `[pip]` of the common file, where it exists
    new: list[str]  # entries of `[pip] files` that are not there
    local: list[str]  # entries of `[pip] local` that are not there
    accelerators: set[str]  # of the targets

    def common(self) -> Common:
        """Return what all targets get."""
        files = [entry for entry in self.new if not accelerators_named(entry)]
        drop = (self.kept or {}).get("drop", ())
        return Common(tuple(files), tuple(self.local), tuple(drop))

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
        kept = self.kept or {}
        files = [*kept.get("files", ()), *self.common().files]
        lines = read_lines(root, [*files, *self.of_hardware(target)])
        lines += [Wanted(Requirement(t), BASE) for t in kept.get("requirements", ())]
        return [*lines, *self.asked.conda]


def _plan(project: Project, choice: Choice, targets: Iterable[Target]) -> _Plan:
    root, path = project.root, project.root / BASE
    found, kept = find_files(root), None
    if _exists(path):
        with damage_in(path, "correct the file"):
            kept = dict(read_spec_file(path, project.specs).data.get("pip", {}))
    named = named_files(root, choice.files)
    if not named and kept is None:
        named = usual_files(root, found)
    files = with_parts(root, named, choice.extras, choice.groups)
    of_base = list((kept or {}).get("files", ()))
    new = [entry for entry in files if entry not in of_base]
    whole = not choice.files
    asked = read_repository(root, [*of_base, *new], found, whole=whole)
    local: list[str] = []
    if kept is None or choice.files:  # else the common file has what the user requires
        of_base = list((kept or {}).get("local", ()))
        local = [text for text in asked.local if text not in of_base]
    accelerators = {target.accelerator for target in targets}
    return _Plan(asked, kept, new, local, accelerators)


def _write_specs(
    project: Project, targets: Sequence[Target], plan: _Plan
) -> tuple[tuple[InitializedTarget, ...], list[str], list[Fitter]]:
    """Write what is missing; return what was done, the files, and who cannot have the torch."""
    fitted, written = dict[str, Fitter](), list[str]()
    for target in targets:
        if not _exists(project.specs / f"{target.name}.toml"):
            fitted[target.name] = _fitted(project, target, plan)
    common = plan.common()
    if fitted and plan.kept is None:
        common = common.with_drop(fitted.values())
        rewrite(project.root / BASE, base_text(common))
        written.append(BASE)
        common = Common(drop=common.drop)  # of which the specs say nothing more
    done = []
    for target in targets:
        result = InitializedTarget(target.name, None)
        if target.name in fitted:
            own = replace(common, files=(*common.files, *plan.of_hardware(target)))
            result = _write_spec(project, target, fitted[target.name], own)
            written.append(str(result.spec))
        done.append(result)
    return tuple(done), written, [each for each in fitted.values() if each.unmet]


def _fitted(project: Project, target: Target, plan: _Plan) -> Fitter:
    fitter = Fitter(target, project.catalog, plan.asked.requires_python)
    fitter.fit(plan.lines(project.root, target))
    return fitter


def _elsewhere(project: Project, plan: _Plan, unmet: Sequence[Fitter]) -> Iterator[str]:
    """Yield which target of the same hardware has the torch that a repository asks for."""
    known = target_names(project.specs)
    for fitter in unmet:
        target = fitter.target
        for other in same_hardware(target):
            if other.name in known:
                continue
            if not (found := _fitted(project, other, plan)).unmet:
                yield (
                    f"{fitter.unmet} fits {other.name} with torch {found.torch}, and not "
                    f"{target.name}: `provision init --target {other.name}`"
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
    replaced.update(map(requirement_name, (*fitted.requirements, *fitted.overrides)))
    names = dict.fromkeys(map(requirement_name, base.pip.requirements))
    return tuple(name for name in names if name not in replaced)


def _faults(project: Project, specs: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return what keeps new specs from being read, such as a source that cannot be followed."""
    faults = dict[str, None]()
    for spec in specs:
        try:
            load_spec(project.root / spec)
        except SpecError as error:
            text = (error.evidence or error.what).replace(f"{project.root}/", "")
            faults |= dict.fromkeys(text.splitlines())
    return [fault for fault in faults if fault not in known]


def _take_lock(project: Project, base: Target, target: Target) -> bool:
    """Copy the shipped lock where it is the lock of a new spec too; whether that was so."""
    lock, own = shipped().lock(base.name), project.lock(base.name)
    catalogs = (
        catalog_digest(project.catalog, target),
        catalog_digest(shipped().catalog, base),
    )
    same = target.digest() == base.digest() and len({*catalogs}) == 1
    if same and lock.is_dir() and not (own / PIP_LAYER).exists():
        for layer in lock.iterdir():
            rewrite(own / layer.name, layer.read_bytes())
        return True
    return False


def _exists(path: Path) -> bool:
    # A link that leads nowhere is the user's, too: what is written through it is somewhere else.
    return path.exists() or path.is_symlink()


def _content(path: Path, root: Path) -> bytes:
    return (read_if_any(path) if is_inside(path, root) else None) or b""


def _ignore(path: Path) -> bool:
    """Add what the toolkit makes to a ``.gitignore``; whether anything was added."""
    if not is_inside(path, path.parent):
        return False
    content = _content(path, path.parent)
    text = content.decode(errors="replace")
    known = {line.strip().strip("/") for line in text.splitlines()}
    missing = [line for line in _IGNORED if line.strip("/") not in known]
    if missing:
        begun = "" if not text or text.endswith("\n") else "\n"
        added = begun + "".join(f"{line}\n" for line in missing)
        rewrite(path, content + added.encode())  # all bytes that were there stay
    return bool(missing)
