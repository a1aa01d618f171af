"""Put into a wheel what ``provision.core.project:shipped`` finds in a checkout."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHIPPED = (
    "docker",
    "envs",
    "lockfiles",
    "smoke",
    # A bundle sets itself up with these, as a clone does.
    "LICENSE",
    "README.md",
    "hatch_build.py",
    "noxfile.py",
    "pyproject.toml",
)


class ShippedData(BuildHookInterface[Any]):
    """Adds the folders to wheels; an editable installation uses those of the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folders."""
        if version == "standard":
            build_data["force_include"] |= {
                name: f"provision/shipped/{name}" for name in SHIPPED
            }
