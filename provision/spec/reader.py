"""The reader of specs, which validates them."""

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from provision.core.errors import SpecError, UsageError
from provision.core.limits import read_text
from provision.core.project import shipped
from provision.core.text import nearest, plural
from provision.core.toml import Keys, place_of
from provision.spec.extends import (
    Data,
    Read,
    SpecFile,
    origin,
    read_spec_file,
    resolved,
    spec_chain,
)
from provision.spec.model import Target
from provision.spec.parts import TargetHardware, hardware_of
from provision.spec.pyproject import relative
from provision.spec.requirement_files import with_files
from provision.spec.tables import faults_of

# It also names folders, nox sessions and images.
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def load_spec(path: Path, read: Read = read_spec_file) -> Target:
    """Read and validate one spec; SpecError names all errors at once."""
    if not _NAME.fullmatch(path.stem):
        raise _misnamed(path)
    chain = spec_chain(path, read)
    data = resolved(chain) | {"name": path.stem}
    try:
        # Strict mode accepts an array for a tuple, and a date as text, only when they come as JSON.
        # default: TOML's dates become text.
        target = Target.model_validate_json(json.dumps(data, default=str))
    except ValidationError as error:
        faults = faults_of(error, Target, lambda place: _place(chain, data, place))
        raise SpecError(
            f"{path} has {plural(len(faults), 'error')}",
            evidence="\n".join(faults),
            remedy="correct each of them; `provision schema` prints all that is "
            "allowed",
        ) from error
    root = path.absolute().parents[1]
    target = with_files(target, root)
    specs = []
    for file in chain:
        path = file.path.absolute()
        if not path.is_relative_to(root):
            specs.append(f"the shipped {path.stem}")
            break  # what that extends changes with it
        specs.append(relative(path, root))
    return target.with_inputs(replace(target.inputs, specs=tuple(specs)))


def _place(chain: Sequence[SpecFile], whole: Data, keys: Keys) -> str:
    """Return the file of an error, if it is an inherited one, and the line, as another line."""
    file, own_keys = origin(chain, whole, keys)
    parts = [] if file is chain[0] else [str(file.path)]
    if line := place_of(read_text(file.path), own_keys):
        parts.append(line)
    if not parts:
        return ""
    return "\n  " + ", ".join(parts)


def load_target(folder: Path, name: str) -> Target:
    """Read and validate the spec of one target; UsageError if there is none."""
    return _load_one(folder, name, target_names(folder), read_spec_file)


def _load_one(folder: Path, name: str, names: Sequence[str], read: Read) -> Target:
    if name in names:
        return load_spec(folder / f"{name}.toml", read)
    if error := misnamed_specs(folder).get(name):
        raise error
    close = nearest(name, names)
    remedy = f"did you mean `{close}`?" if close else "`provision targets` lists them"
    if name in target_names(shipped().specs):
        remedy = (
            f"it is shipped with Provision: `provision init --target {name}` adds it"
        )
    raise UsageError(
        f"there is no target {name!r}",
        cause=f"{folder} holds: {', '.join(names) or 'no specs'}",
        remedy=remedy,
    )


def load_targets(
    folder: Path, names: Sequence[str]
) -> tuple[list[Target], dict[str, SpecError]]:
    """Return the valid specs and the error of each other one; UsageError for an unknown name."""
    targets = []
    broken = {}
    present = target_names(folder)
    read = functools.cache(read_spec_file)  # many extend the same file
    for name in names:
        try:
            targets.append(_load_one(folder, name, present, read))
        except SpecError as error:  # one broken file must not hide all other targets
            broken[name] = error
    return targets, broken


def read_hardware(folder: Path) -> list[TargetHardware]:
    """Read the hardware of all targets whose specs are valid, sorted by name."""
    targets, _ = load_targets(folder, target_names(folder))
    return [hardware_of(target) for target in targets]


def same_hardware(target: Target) -> list[Target]:
    """Return the other shipped targets for the hardware of one."""
    others = []
    for name in target_names(shipped().specs):
        other = load_target(shipped().specs, name)
        if name != target.name and _kind(other) == _kind(target):
            others.append(other)
    return others


def _kind(target: Target) -> tuple[object, ...]:
    families = target.hardware.families
    return target.platform, target.accelerator, target.status, families


def target_names(folder: Path) -> list[str]:
    """Return the names of all targets that have a spec in a folder, sorted; reads no file."""
    # They reach shells, command lines and paths: a name of another form is no target anywhere.
    return sorted(filter(_NAME.fullmatch, _stems(folder)))


def misnamed_specs(folder: Path) -> dict[str, SpecError]:
    """Return the error of each file in a folder of specs whose name cannot be a target's."""
    errors = {}
    for name in sorted(_stems(folder)):
        if not _NAME.fullmatch(name):
            errors[name] = _misnamed(folder / f"{name}.toml")
    return errors


def _stems(folder: Path) -> list[str]:
    return [path.stem for path in folder.glob("*.toml")]


def _misnamed(path: Path) -> SpecError:
    return SpecError(
        f"{path}: the file's name becomes the target's name",
        remedy="use lower-case words joined by '-', such as cuda-linux.toml",
    )
