"""``extends``: a spec inherits another one, of its project or shipped, and says what differs.

Only the standard library: noxfiles read specs with it too.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from provision.core.errors import SpecError, damage_in
from provision.core.limits import read_parsed, require_inside
from provision.core.project import shipped
from provision.core.toml import Keys, parse_toml

# Folders are for specs that only others extend: a target is in envs/ itself.
_NAME = re.compile(r"[a-z0-9-]+(/[a-z0-9-]+)*")
# Lists in which an entry replaces the inherited one of the same distribution.
_BY_NAME = frozenset({"requirements", "overrides", "forbid", "exclude"})
Data = dict[str, Any]


class SpecFile(NamedTuple):
    """One file of a chain: a spec, what it extends, what that extends …."""

    path: Path
    folder: Path
    data: Data


def read_spec_file(path: Path, folder: Path) -> SpecFile:
    """Read one file of a folder of specs; nothing of it is validated yet."""
    with damage_in(path, "correct the file"):
        if folder != shipped().specs:  # which installers may link from a cache
            require_inside(path, folder.parent)
        data = read_parsed(path, parse_toml)
    if "name" in data:
        raise SpecError(
            f"{path}: name: unknown key",
            cause="a target has the name of its file",
            remedy="remove the key, and rename the file to rename the target",
        )
    return SpecFile(path, folder, data)


Read = Callable[[Path, Path], SpecFile]


def spec_chain(path: Path, read: Read = read_spec_file) -> list[SpecFile]:
    """Read a spec and all that it extends, those of priority first: the spec itself, its bases."""
    chain: list[SpecFile] = []
    _collect(read(path, path.parent), (), chain, read)
    # What several extend comes after the last of them, which all may differ from it.
    once = {file.path: file for file in reversed(chain)}
    return list(reversed(once.values()))


def _collect(
    file: SpecFile, users: tuple[Path, ...], chain: list[SpecFile], read: Read
) -> None:
    users = (*users, file.path)
    if file.path in users[:-1]:
        raise SpecError(
            f"{users[0]} extends itself",
            evidence=" → ".join(map(str, users)),
            remedy="remove one `extends` of these",
        )
    chain.append(file)
    for name in bases(file):
        _collect(_find(name, file, read), users, chain, read)


def bases(file: SpecFile) -> list[Any]:
    """Return what a file extends itself, that of priority first."""
    names = file.data.get("extends", [])
    return names if isinstance(names, list) else [names]


def _find(name: object, user: SpecFile, read: Read) -> SpecFile:
    folders = dict.fromkeys((user.folder, shipped().specs))
    if isinstance(name, str) and _NAME.fullmatch(name):
        for folder in folders:
            path = folder / f"{name}.toml"
            # A project's cpu-linux may extend the shipped one of the same name.
            if path.is_file() and path != user.path:
                return read(path, folder)
    names = set()
    for folder in folders:
        names |= {path.stem for path in folder.glob("*.toml")}
    raise SpecError(
        f"{user.path} extends {name!r}, which is no spec",
        cause=f"there are {', '.join(sorted(names))}",
        remedy='name one of these, such as `extends = "cpu-linux"`',
    )


def resolved(chain: Sequence[SpecFile]) -> Data:
    """Return what a chain of files says together, in the keys of one spec without ``extends``."""
    whole: Data = {}
    for file in reversed(chain):
        try:
            whole = _extended(file, whole)
        except (AttributeError, TypeError):  # not of its type, which validation reports
            whole = whole | file.data
    whole.pop("extends", None)
    return whole


def _extended(file: SpecFile, base: Data) -> Data:
    # Tables merge and lists add, an entry in place of its distribution's; other values replace.
    whole = base | file.data
    if "drop" in file.data.get("pip", {}):
        inherited = base.get("pip", {}).get("requirements", [])
        kept = _without_dropped(file, inherited)
        pip = base.get("pip", {}) | {"requirements": kept}
        base = base | {"pip": pip}
    for name in base.keys() & file.data.keys():
        own = file.data[name]
        inherited = base[name]
        if isinstance(inherited, dict):
            whole[name] = inherited | own
        if name == "conda":
            dependencies = _added(own, inherited, "dependencies", by_name=True)
            whole[name]["dependencies"] = dependencies
        if name == "pip":
            whole[name] = _extended_pip(file, inherited)
    return whole


def _extended_pip(file: SpecFile, inherited: Data) -> Data:
    own = file.data["pip"]
    pip: Data = inherited | own
    if "cutoff" in own:  # single cut-offs would now hold their packages back
        inherited = inherited | {"cutoffs": {}}
    for key, value in inherited.items():
        if isinstance(value, list):
            pip[key] = _added(own, inherited, key, by_name=key in _BY_NAME)
    pip["cutoffs"] = inherited.get("cutoffs", {}) | own.get("cutoffs", {})
    if "variants" in pip:
        pip["variants"] = inherited.get("variants", {}) | own.get("variants", {})
    pip["index"] = _extended_index(own.get("index", {}), inherited.get("index", {}))
    return pip


def _added(own: Data, inherited: Data, key: str, *, by_name: bool) -> list[Any]:
    name = _name if by_name else str
    added = list(_checked(own.get(key, [])))
    names = set(map(name, added))
    for entry in _checked(inherited.get(key, [])):
        if name(entry) not in names:
            added.append(entry)
    return added


def _checked(entries: list[Any]) -> list[Any]:
    if not isinstance(entries, list):  # a string would be taken for its letters
        raise TypeError
    return entries


def _without_dropped(file: SpecFile, requirements: list[Any]) -> list[Any]:
    drop = file.data["pip"]["drop"]
    inherited = set(map(_name, requirements))
    dropped = set(map(_name, drop))
    unknown = sorted(dropped - inherited)
    # What has no base itself is for several specs, whose other bases need not agree.
    if unknown and ("extends" in file.data or not inherited):
        raise SpecError(
            f"{file.path}: pip.drop: not a list of inherited requirements "
            f"(is {drop!r})",
            evidence=f"not inherited: {', '.join(unknown)}",
            cause=f"inherited are {', '.join(sorted(inherited)) or 'none'}",
            remedy="name some of these, or remove the key; `exclude` leaves out what "
            "files and packages require",
        )
    return [text for text in requirements if _name(text) not in dropped]


def _extended_index(own: Data, inherited: Data) -> Data:
    # A name that the spec assigns no longer comes from the index that it had.
    moved = set()
    for names in own.values():
        moved |= set(map(_name, _checked(names)))
    index = dict(own)
    for key, names in inherited.items():
        kept = [name for name in _checked(names) if _name(name) not in moved]
        if kept:
            index[key] = own.get(key, []) + kept
    index.pop("default", None)  # no catalog: it only takes names from another one
    return index


def _name(entry: object) -> str:
    """Return the distribution of a requirement, or of a table with one."""
    if isinstance(entry, dict):
        entry = entry.get("name") or entry.get("requirement")
    match = re.match(r"\s*([\w.-]+)", str(entry))
    if not match:
        return str(entry)
    return re.sub(r"[-_.]+", "-", match[1]).lower()


def origin(
    chain: Sequence[SpecFile], whole: Data, place: Keys
) -> tuple[SpecFile, Keys]:
    """Return the file of a chain that says a value of the whole, or its table; and its keys there."""
    for end in range(len(place), 0, -1):
        for file in chain:
            keys = _keys_in(file.data, whole, place[:end])
            if keys is not None:
                return file, keys
    return chain[0], ()


def _keys_in(data: Any, whole: Any, place: Keys) -> Keys | None:  # noqa: ANN401 - TOML's values
    keys = []
    try:
        for part in place:
            whole = whole[part]
            keys.append(data.index(whole) if isinstance(part, int) else part)
            data = data[keys[-1]]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None
    return keys
