"""Read specs from a folder: all targets by name, one whole spec with all its faults."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from typing import TYPE_CHECKING

from pydantic import ValidationError

from provision.core.errors import SpecError, UsageError
from provision.spec.model import Target
from provision.spec.tables import faults_of

if TYPE_CHECKING:
    from pathlib import Path

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def load_spec(path: Path) -> Target:
    """Read one spec.

    Raises:
        SpecError: All faults of the file at once, each with its key and what is allowed.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SpecError(
            f"cannot read {path}", evidence=str(error), remedy="mend the file"
        ) from error
    if not _NAME.fullmatch(path.stem):
        raise SpecError(
            f"{path}: the file's name becomes the target's name",
            remedy="use lower-case words joined by '-', such as cuda-linux.toml",
        )
    try:
        # TOML's arrays are JSON's: strict mode takes them for tuples only when they come as JSON.
        return Target.model_validate_json(json.dumps({"name": path.stem} | data, default=str))
    except ValidationError as error:
        faults = faults_of(error, Target)
        raise SpecError(
            f"{path} has {len(faults)} fault{'s'[: len(faults) > 1]}",
            evidence="\n".join(faults),
            remedy="mend each of them; `provision schema` prints all that is allowed",
        ) from error


def target_names(folder: Path) -> list[str]:
    """Return the names of all targets that have a spec in a folder, sorted; reads no file."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def load_target(folder: Path, name: str) -> Target:
    """Read the spec of one target.

    Raises:
        UsageError: There is no such target; the nearest names are suggested.
        SpecError: The file has faults.
    """
    if name not in (known := target_names(folder)):
        close = difflib.get_close_matches(name, known, 1)
        raise UsageError(
            f"there is no target {name!r}",
            cause=f"{folder} holds: {', '.join(known) or 'no specs'}",
            remedy=f"did you mean `{close[0]}`?" if close else "`provision targets` lists them",
        )
    return load_spec(folder / f"{name}.toml")
