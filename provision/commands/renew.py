"""What catalogs of images become from what a release and a distribution list today."""

import re
from collections.abc import Collection

from packaging.version import Version
from pydantic import ValidationError

from provision.catalog.snapshot import DriverFile, DriverSet, Interpreter
from provision.core.errors import ToolError

_GLIBC = re.compile(r"\blibc6 \(>= (2\.\d+)")


def listed_pythons(
    sums: str, address: str, minors: Collection[str]
) -> list[Interpreter]:
    """Return the archives for images of some minor versions that a release's SHA256SUMS lists."""
    files = []
    for line in sums.splitlines():
        digest, _, filename = line.partition("  ")
        url = f"{address}/{filename.replace('+', '%2B')}"
        try:
            file = Interpreter(filename=filename, url=url, sha256=digest)
        except ValidationError:  # of another system, or with debug symbols
            continue
        if f"{file.version.major}.{file.version.minor}" in minors:
            files.append(file)
    return files


def packages_of_distribution(drivers: DriverSet) -> list[str]:
    """Return the packages of a driver set that apt has, by name."""
    return [file.package for file in drivers.files if file.url is None]


def renewed(drivers: DriverSet, shown: str) -> DriverSet:
    """Return a distribution's driver set with the versions that ``apt-cache show`` prints.

    ToolError: apt has not all of its packages.
    """
    tables: dict[str | None, dict[str, str]] = {}
    for paragraph in shown.strip().split("\n\n"):
        table = dict(re.findall(r"^(\S+): (.*)$", paragraph, re.MULTILINE))
        tables[table.get("Package")] = table
    files = []
    version = drivers.version
    for file in drivers.files:
        if file.url is None and file.package in tables:
            table = tables[file.package]
            if f"_{drivers.version}" in file.filename:  # the driver itself
                version = re.sub(r"^\d+:|-[^-]*$", "", table["Version"])
            files.append(_described(table))
    absent = {*packages_of_distribution(drivers)} - {file.package for file in files}
    if absent:
        raise ToolError(
            f"apt of this machine does not have {', '.join(sorted(absent))}",
            cause="the packages are of a newer release than its sources name",
            remedy="run this where they are known, as in a container of Debian sid, after "
            "`apt-get update`",
        )
    others = [file for file in drivers.files if file.url]
    facts: dict[str, object] = {"version": version}
    facts["files"] = (*files, *others)
    needs = set[str]()
    for table in tables.values():
        needs.update(_GLIBC.findall(table.get("Depends", "")))
    if needs:
        facts["glibc"] = max(needs, key=Version)
    return drivers.model_copy(update=facts)


def _described(table: dict[str, str]) -> DriverFile:
    return DriverFile(
        filename=table["Filename"].rpartition("/")[2],
        sha256=table["SHA256"],
        size=int(table["Size"]),
        confirmed=True,
        sources=("its distribution's signed package index",),
    )
