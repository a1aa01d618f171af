"""The specs that ``init`` writes: what all targets of a project have, and the spec of each."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import tomlkit
from tomlkit.items import Array, Table

from provision.commands.fit import Fitter
from provision.spec.model import Target

BASE = "envs/base/project.toml"
_OF_INDEX = (
    "This installs nothing. If a package requires one of these, `lock` takes the build for",
    "this torch, from the index of torch and no other.",
)
_HEAD = "What all targets of this project have. A spec adds what is of its hardware."


@dataclass(frozen=True, slots=True)
class Common:
    """What is in one place for all targets."""

    files: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    def with_drop(self, fitted: Collection[Fitter]) -> "Common":
        """Return it with what every target drops, which is for no reason of its hardware."""
        first, *others = fitted
        drop = first.drop
        for other in others:
            drop = [name for name in drop if name in other.drop]
        return replace(self, drop=tuple(drop))


def base_text(common: Common) -> str:
    """Return the text of the file that the specs extend."""
    document = tomlkit.document()
    document.add(tomlkit.comment(_HEAD))
    pip = _lists(files=common.files, local=common.local, drop=common.drop)
    if pip:
        document.add(tomlkit.nl())
        document["pip"] = pip
    return tomlkit.dumps(document)


def spec_text(base: Target, fitted: Fitter, common: Common) -> str:
    """Return the text of a spec that extends the common file and a shipped one."""
    document = tomlkit.document()
    document["extends"] = ["base/project", base.name]
    document["extends"].comment(
        f"requirements of this project, and of the shipped {base.name}"
    )
    if fitted.target.python != base.python:
        document["python"] = fitted.target.python
    drop = [name for name in fitted.drop if name not in common.drop]
    pip = _lists(
        files=common.files,
        local=common.local,
        requirements=fitted.requirements,
        drop=drop,
    )
    if fitted.exclude:
        pip["exclude"] = _explained(fitted.exclude)
    if fitted.overrides:
        overrides = tomlkit.array().multiline(multiline=True)
        for requirement, reason in fitted.overrides.items():
            entry = tomlkit.inline_table()
            entry.update({"requirement": requirement, "reason": reason})
            overrides.append(entry)
        pip["overrides"] = overrides
    if fitted.index:
        pip["index"] = tomlkit.table()
        for line in _OF_INDEX:
            pip["index"].add(tomlkit.comment(line))
        pip["index"].update(fitted.index)
    if pip:
        document["pip"] = pip
    return tomlkit.dumps(document)


def _lists(**lists: Sequence[str]) -> Table:
    table = tomlkit.table()
    for key, values in lists.items():
        if values:
            table[key] = tomlkit.array().multiline(len(values) > 3)
            table[key].extend(dict.fromkeys(values))
    return table


def _explained(reasons: dict[str, str]) -> Array:
    """Return a list with the reason of each entry behind it."""
    array = tomlkit.array()
    for name, why in reasons.items():
        array.add_line(name, comment=why)
    array.add_line(indent="")
    return array
