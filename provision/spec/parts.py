"""Parts of a spec that some verbs read alone: the hardware and the forbidden distributions.

Plain dataclasses, as pydantic takes longer to import than the whole of ``detect``. An invalid part
raises ValueError, KeyError, TypeError or AttributeError; the reader then names each fault.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from provision.core.platforms import ACCELERATORS, PLATFORMS

if TYPE_CHECKING:
    Accelerator = str  # for mypy
    Platform = str  # for mypy
else:
    Accelerator, Platform = Literal[tuple(ACCELERATORS)], Literal[tuple(PLATFORMS)]
Status = Literal["supported", "legacy"]


@dataclass(frozen=True, slots=True)
class ForbiddenDistribution:
    """A distribution that must not be installed, and why."""

    # pydantic reads this where a model has such a field; it makes the class as strict as a Table.
    __pydantic_config__: ClassVar = {
        "extra": "forbid",
        "strict": True,
        "json_schema_extra": lambda schema: schema["properties"]["reason"].update(
            minLength=1
        ),
    }

    name: str
    reason: str

    def __post_init__(self) -> None:
        # A frozen dataclass allows no plain assignment, not even here.
        object.__setattr__(self, "name", str(canonicalize_name(self.name)))
        if not self.reason:
            raise ValueError("`reason` is empty")


@dataclass(frozen=True, slots=True)
class TargetHardware:
    """The hardware that a target is for, in the keys of `provision.spec.model.Target`."""

    name: str
    accelerator: str
    platform: str
    status: str = "supported"
    reason: str = ""  # why it is legacy
    families: tuple[str, ...] = ()
    driver: str | None = None
    compute_capability: str | None = None


def forbidden_of(spec: Mapping[str, Any]) -> tuple[ForbiddenDistribution, ...]:
    """Return the forbidden distributions of a parsed spec."""
    return tuple(
        ForbiddenDistribution(**entry) for entry in spec["pip"].get("forbid", ())
    )


def hardware_of(spec: Mapping[str, Any]) -> TargetHardware:
    """Return the hardware of a parsed spec."""
    table = spec.get("hardware", {})
    status = spec.get("status", "supported")
    identity = [spec["name"], spec["accelerator"], spec["platform"], status]
    for value, allowed in zip(
        identity[1:], (Accelerator, Platform, Status), strict=True
    ):
        if value not in get_args(allowed):
            raise ValueError(value)
    if not isinstance(families := table.get("families", ()), (list, tuple)):
        raise TypeError(families)  # tuple() would take a string for its letters
    table = table | {"families": tuple(families), "reason": spec.get("reason") or ""}
    hardware = TargetHardware(*identity, **table)
    # SpecifierSet() raises where the text is not a version range.
    for versions in (hardware.driver, hardware.compute_capability):
        SpecifierSet(versions or "")
    return hardware
