"""Pairs of torch and driver whose numbers are wrong: ``envs/catalog/known-wrong.toml``."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from provision.core.errors import SpecError, damage_in
from provision.core.limits import read_parsed
from provision.core.platforms import MAKERS
from provision.core.project import fact
from provision.core.toml import parse_toml
from provision.spec.model import Specifier
from provision.spec.tables import Table, faults_of

FILE = "known-wrong.toml"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")  # it names a page
ANY = ("any",)
Texts = Annotated[tuple[str, ...], Field(min_length=1, strict=False)]


class DriverRanges(Table):
    """Drivers by system, each a version specifier; None where every one is meant."""

    linux: Specifier | None = None  # of Intel, compute-runtime's releases
    windows: Specifier | None = None


class KnownWrong(Table):
    """One row: where numbers are wrong, which, what is right instead, and who says so."""

    # As people search for it; heads its page.
    title: Annotated[str, Field(min_length=1)]
    vendor: Literal["intel", "nvidia"] = "intel"
    families: Texts  # of devices.toml, or ["any"]: all of the vendor
    devices: Annotated[tuple[str, ...], Field(strict=False)] = ()  # PCI ids, () for all
    systems: Annotated[
        tuple[Literal["linux", "windows"], ...], Field(min_length=1, strict=False)
    ] = ("linux", "windows")
    torch: Specifier | None = None
    driver: DriverRanges = DriverRanges()
    symptom: str
    right: str
    check: str  # of the quick suite, or of the full one, which looks for it
    # Whether the check records it as "known to fail" with such a torch, and passes.
    known_to_fail: bool = False
    sources: Texts
    measured: str = ""  # where this project saw it: device, torch, driver, day

    @property
    def has_ranges(self) -> bool:
        """Whether the report says which versions are affected."""
        return bool(self.torch or self.driver.linux or self.driver.windows)

    @property
    def gpus(self) -> str:
        """The affected families, in words."""
        if self.families == ANY:
            return f"any {MAKERS[self.vendor]} GPU"
        return ", ".join(self.families)

    def is_of(self, families: Iterable[str | None]) -> bool:
        """Whether a GPU of one of some families can be affected."""
        return self.families == ANY or not set(self.families).isdisjoint(families)

    def drivers_of(self, system: str) -> str | None:
        """Return the affected drivers of ``linux`` or ``windows``, None for all of them."""
        return self.driver.windows if system == "windows" else self.driver.linux

    def is_about(self, system: str) -> bool:
        """Whether it is about a system: not where it names drivers of the other one alone."""
        if system not in self.systems:
            return False
        named = self.driver.linux or self.driver.windows
        return not named or bool(self.drivers_of(system))

    def concerns(self, family: str | None, device_id: str, system: str) -> bool:
        """Whether a GPU of the vendor on a system can be affected at all."""
        if self.devices and device_id not in self.devices:
            return False
        return self.is_of([family]) and self.is_about(system)


def read_known_wrong(catalog: Path) -> dict[str, KnownWrong]:
    """Read the rows by their names; SpecError, with all its errors, if the file is not valid."""
    return read_rows(fact(catalog, FILE), "restore it from version control")


def read_rows(path: Path, remedy: str) -> dict[str, KnownWrong]:
    """Read the rows of one file by their names; SpecError with all its errors and the remedy."""
    rows = {}
    faults = []
    with damage_in(str(path), remedy):
        tables = read_parsed(path, parse_toml)
    for name, row in tables.items():
        if not _NAME.fullmatch(name):
            faults.append(
                f"{name!r} is no name of a row: lower-case words joined by '-'"
            )
        try:
            rows[name] = KnownWrong.model_validate(row)
        except ValidationError as error:
            faults += [f"{name}: {fault}" for fault in faults_of(error, KnownWrong)]
    if faults:
        raise SpecError(
            f"{path} is not valid", evidence="\n".join(faults), remedy=remedy
        )
    return rows
