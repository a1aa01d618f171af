"""``extends``: a spec inherits another one, of its project or shipped, and says what differs.

Only the standard library: noxfiles and a build with nothing to do read specs with it too.
"""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from provision.core.errors import SpecError, damage_in
from provision.core.limits import read_parsed, read_text
from provision.core.project import shipped

# Folders are for specs that only others extend: a target lies in envs/ itself.
_NAME = re.compile(r"[a-z0-9-]+(/[a-z0-9-]+)*")
# Lists in which an entry replaces the inherited one of the same distribution.
_BY_NAME = frozenset({"requirements", "overrides", "forbid", "dependencies"})
Data = dict[str, Any]


class SpecFile(NamedTuple):
    """One file of a chain: a spec, what it extends, what that extends …."""

    path: Path
    folder: Path
    data: Data


def spec_chain(path: Path) -> list[SpecFile]:
    """Read a spec and all that it extends, the spec itself first."""
    chain = [_read(path, path.parent)]
    while (name := chain[-1].data.get("extends")) is not None:
        last = chain[-1]
        found = _find(name, last)
        if found.path in [file.path for file in chain]:
            names = " → ".join(str(file.path) for file in [*chain, found])
            raise SpecError(
                f"{path} extends itself",
                evidence=names,
                remedy="remove one `extends` of these",
            )
        chain.append(found)
    return chain


def _find(name: object, user: SpecFile) -> SpecFile:
    folders = dict.fromkeys((user.folder, shipped().specs))
    if isinstance(name, str) and _NAME.fullmatch(name):
        for folder in folders:
            # A project's cpu-linux may extend the shipped one of the same name.
            own = folder / f"{name}.toml" == user.path and len(folders) > 1
            if not own and (folder / f"{name}.toml").is_file():
                return _read(folder / f"{name}.toml", folder)
    known = sorted({p.stem for folder in folders for p in folder.glob("*.toml")})
    raise SpecError(
        f"{user.path} extends {name!r}, which is no spec",
        cause=f"there are {', '.join(known)}",
        remedy='name one of these, such as `extends = "cpu-linux"`',
    )


def _read(path: Path, folder: Path) -> SpecFile:
    with damage_in(path, "correct the file"):
        data = read_parsed(path, tomllib.loads)
    if "name" in data:
        raise SpecError(
            f"{path}: name: unknown key",
            cause="a target has the name of its file",
            remedy="remove the key, and rename the file to rename the target",
        )
    return SpecFile(path, folder, data)


def resolved_text(path: Path) -> str:
    """Return the text of a spec that says the same as a file, without ``extends``."""
    chain = spec_chain(path)
    if len(chain) == 1:
        return read_text(path)
    import tomlkit  # noqa: PLC0415 - slow, and only bundles and images are made of the text

    return tomlkit.dumps(resolved(chain))


def resolved(chain: Sequence[SpecFile]) -> Data:
    """Return what a chain of files says together, in the keys of one spec without ``extends``."""
    # Tables merge and lists add, an entry in place of its distribution's; other values replace.
    whole = chain[-1].data
    for file in reversed(chain[:-1]):
        whole = _merge(file.data, _inherited(file, whole), ())
        pip = whole.get("pip")
        if isinstance(pip, dict) and isinstance(index := pip.get("index"), dict):  # noqa: SIM102 - one is too long
            if isinstance(index.get("default"), list) and {
                *map(type, index["default"])
            } <= {str}:
                del index["default"]  # no catalog: it only takes names from another one
    return {key: value for key, value in whole.items() if key != "extends"}


def _inherited(file: SpecFile, whole: Data) -> Data:
    """Return what is left of a spec for a file that extends it."""
    own, pip = file.data.get("pip"), whole.get("pip", {})
    if not isinstance(own, dict) or not isinstance(pip, dict):
        return whole
    left = dict(pip)
    if "cutoff" in own:
        left.pop("cutoffs", None)  # single cut-offs would now hold their packages back
    if "drop" in own and "requirements" in pip:
        left["requirements"] = _without(file, own["drop"], pip["requirements"])
    if isinstance(index := own.get("index"), dict):
        moved = {name for names in index.values() for name in _names(names)}
        indexes = found if isinstance(found := pip.get("index"), dict) else {}
        kept = {
            key: [n for n in names if _name(n) not in moved]
            if isinstance(names, list)
            else names
            for key, names in indexes.items()
        }
        left["index"] = {key: names for key, names in kept.items() if names != []}
    return whole | {"pip": left}


def _without(file: SpecFile, drop: object, requirements: object) -> list[Any]:
    inherited, dropped = _names(requirements), _names(drop)
    unknown = sorted(dropped - inherited)
    # What is not inherited may be in a file.
    if not isinstance(drop, list) or (unknown and "files" not in file.data["pip"]):
        evidence = (
            f"not inherited: {', '.join(unknown)}" if isinstance(drop, list) else ""
        )
        raise SpecError(
            f"{file.path}: pip.drop: not a list of inherited requirements "
            f"(is {drop!r})",
            evidence=evidence,
            cause=f"{file.data['extends']} asks for {', '.join(sorted(inherited))}",
            remedy="name some of these, or remove the key",
        )
    listed = requirements if isinstance(requirements, list) else []
    return [text for text in listed if _name(text) not in dropped]


def _merge(own: Any, inherited: Any, place: tuple[str, ...]) -> Any:  # noqa: ANN401 - TOML's values
    if isinstance(own, dict) and isinstance(inherited, dict):
        pairs = inherited.items()
        return own | {
            k: _merge(own[k], v, (*place, k)) if k in own else v for k, v in pairs
        }
    adds = place[:1] == ("pip",) or place == ("conda", "dependencies")
    if adds and isinstance(own, list) and isinstance(inherited, list):
        key = _name if place[-1] in _BY_NAME else str
        said = {key(entry) for entry in own}
        return [*own, *(entry for entry in inherited if key(entry) not in said)]
    return own


def _name(entry: object) -> str:
    """Return the distribution of a requirement, or of a table with one."""
    if isinstance(entry, dict):
        entry = entry.get("name") or entry.get("requirement")
    found = re.match(r"\s*([\w.-]+)", str(entry))
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else str(entry)


def _names(entries: object) -> set[str]:
    return {_name(entry) for entry in entries} if isinstance(entries, list) else set()


def origin(chain: Sequence[SpecFile], whole: Data, place: Sequence[int | str]) -> str:
    """Return `, in ` and the file of a chain that says a value of the whole; "" for the first."""
    said = next(
        (file.path for file in chain if _says(file.data, whole, place)), chain[0].path
    )
    return "" if said == chain[0].path else f", in {said}"


def _says(data: Any, whole: Any, place: Sequence[int | str]) -> bool:  # noqa: ANN401 - TOML's values
    for part in place:
        try:
            whole = whole[part]
            data = data[data.index(whole)] if isinstance(part, int) else data[part]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            return False
    return True
