"""The part of a spec that is compared with a machine."""

from dataclasses import dataclass

from provision.spec.model import Target


@dataclass(frozen=True, slots=True)
class TargetHardware:
    """The hardware that a target is for, in the keys of `provision.spec.model.Target`."""

    name: str
    accelerator: str
    platform: str
    status: str = "supported"
    reason: str = ""  # why it is legacy or unlocked
    families: tuple[str, ...] = ()
    driver: str | None = None
    compute_capability: str | None = None
    glibc: str | None = None


def hardware_of(target: Target) -> TargetHardware:
    """Return the hardware of a target."""
    return TargetHardware(
        target.name,
        target.accelerator,
        target.platform,
        target.status,
        target.reason or "",
        target.hardware.families,
        target.hardware.driver,
        target.hardware.compute_capability,
        target.glibc,
    )
