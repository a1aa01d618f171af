"""``update --known-wrong``: add the rows of a file to the project's list of wrong numbers."""

from pathlib import Path

import tomlkit

from provision.catalog.devices import read_devices
from provision.catalog.known_wrong import ANY, FILE, read_known_wrong, read_rows
from provision.commands.update import RefreshResult
from provision.core.errors import SpecError
from provision.core.filesystem import write_atomic
from provision.core.limits import read_text
from provision.core.project import Project, fact


def extend_known_wrong(project: Project, file: Path) -> RefreshResult:
    """Add the rows of a file, each valid and with a source; a row of the same name is replaced.

    Nothing on the network lists such rows in a form that a program can read, so a person supplies
    the file. SpecError: it cannot be read, a row is not valid, or a family is not in the catalog.
    """
    remedy = f"correct {file}; nothing was added"
    new = read_rows(file, remedy)
    families = read_devices(project.catalog).families()
    for row in new.values():
        known = (*families[row.vendor], *ANY)
        unknown = [family for family in row.families if family not in known]
        if unknown:
            raise SpecError(
                f"{file} names families that are not in the catalog",
                evidence=", ".join(unknown),
                cause=f"there are {', '.join(known)}",
                remedy=remedy,
            )
    old = read_known_wrong(project.catalog)
    result = RefreshResult("known-wrong")
    for name, row in new.items():
        if name not in old:
            result.added.append(name)
        elif row != old[name]:
            result.completed.append(name)
    if result.added or result.completed:
        # A project without its own list begins with the shipped one.
        document = tomlkit.parse(read_text(fact(project.catalog, FILE)))
        rows = tomlkit.parse(read_text(file))
        for name in (*result.added, *result.completed):
            document[name] = rows[name]
        write_atomic(project.catalog / FILE, tomlkit.dumps(document))
    return result
