"""The reader of specs: a whole validated spec, or one part of it without loading pydantic."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from provision.core.errors import SpecError, UsageError
from provision.core.project import shipped
from provision.core.text import nearest, plural
from provision.spec.extends import SpecFile, origin, resolved, spec_chain
from provision.spec.parts import (
    ForbiddenDistribution,
    TargetHardware,
    forbidden_of,
    hardware_of,
)

if TYPE_CHECKING:
    from provision.spec.model import Target

# It also names folders, nox sessions and images.
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
Part = TypeVar("Part")


def load_spec(path: Path) -> Target:
    """Read and validate one spec; SpecError names all faults at once."""
    return _validate(*_parse(path))


def load_target(folder: Path, name: str) -> Target:
    """Read and validate the spec of one target."""
    return load_spec(_path(folder, name))


def load_targets(
    folder: Path, names: Sequence[str]
) -> tuple[list[Target], dict[str, SpecError]]:
    """Return the valid specs and the error of each other one; UsageError for an unknown name."""
    found: list[Target] = []
    broken: dict[str, SpecError] = {}
    for name in names:
        try:
            found.append(load_target(folder, name))
        except SpecError as error:  # one broken file must not hide all other targets
            broken[name] = error
    return found, broken


def read_hardware(folder: Path) -> list[TargetHardware]:
    """Read the hardware of all targets, sorted by name; faults in other parts are ignored."""
    return [
        _read_part(_path(folder, name), hardware_of) for name in target_names(folder)
    ]


def read_forbidden(folder: Path, target: str) -> tuple[ForbiddenDistribution, ...]:
    """Read the forbidden distributions of one target; faults in other parts are ignored."""
    return _read_part(_path(folder, target), forbidden_of)


def target_names(folder: Path) -> list[str]:
    """Return the names of all targets that have a spec in a folder, sorted; reads no file."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def _path(folder: Path, name: str) -> Path:
    if name not in (known := target_names(folder)):
        close = nearest(name, known)
        remedy = (
            f"did you mean `{close}`?" if close else "`provision targets` lists them"
        )
        if name in target_names(shipped().specs):
            remedy = f"it is shipped with Provision: `provision init --target {name}` adds it"
        cause = f"{folder} holds: {', '.join(known) or 'no specs'}"
        raise UsageError(f"there is no target {name!r}", cause=cause, remedy=remedy)
    return folder / f"{name}.toml"


def _read_part(path: Path, part_of: Callable[[dict[str, Any]], Part]) -> Part:
    chain, data = _parse(path)
    try:
        return part_of(data)
    except (ValueError, KeyError, TypeError, AttributeError):
        # The validation of the whole file is slow, and raises an error that names each fault.
        return part_of(_validate(chain, data).model_dump())


def _parse(path: Path) -> tuple[list[SpecFile], dict[str, Any]]:
    chain = spec_chain(path)
    return chain, resolved(chain) | {"name": path.stem}


def _validate(chain: list[SpecFile], data: dict[str, Any]) -> Target:
    from pydantic import ValidationError  # noqa: PLC0415 - slow to import; not for reading a part

    from provision.spec.model import Target  # noqa: PLC0415
    from provision.spec.tables import faults_of  # noqa: PLC0415

    path = chain[0].path
    if not _NAME.fullmatch(path.stem):
        raise SpecError(
            f"{path}: the file's name becomes the target's name",
            remedy="use lower-case words joined by '-', such as cuda-linux.toml",
        )
    try:
        # Strict mode accepts an array for a tuple, and a date as text, only when they come as JSON.
        # default: TOML's dates become text.
        target = Target.model_validate_json(json.dumps(data, default=str))
    except ValidationError as error:
        faults = faults_of(error, Target, lambda place: origin(chain, data, place))
        count = plural(len(faults), "fault")
        raise SpecError(
            f"{path} has {count}",
            evidence="\n".join(faults),
            remedy="correct each of them; `provision schema` prints all that is "
            "allowed",
        ) from error
    if not target.pip.files:
        return target
    from provision.spec.requirement_files import with_files  # noqa: PLC0415 - few specs name files

    return with_files(target, path.absolute().parents[1])
