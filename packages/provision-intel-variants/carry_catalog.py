"""Carry what Provision's catalog has of Intel's devices and drivers into the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CARRIED = "provision_intel_variants/catalog.json"


class CarriedCatalog(BuildHookInterface[Any]):
    """Writes the data file in a clone; an sdist already has it."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        """Make the file, and put it into what is built."""
        root = Path(self.root)
        if not (root / "PKG-INFO").is_file():
            text = carried_text(root.parents[1] / "envs" / "catalog")
            (root / CARRIED).write_text(text, encoding="utf-8")
        # It is in no commit, and hatchling leaves out what git ignores.
        build_data["artifacts"].append(CARRIED)


def carried_text(catalog: Path) -> str:
    """Return the families by device id, which of them are part of processors, and the releases."""
    # Not at the top: who builds from an sdist may have a Python without it.
    import tomllib  # noqa: PLC0415

    devices = tomllib.loads((catalog / "devices.toml").read_text(encoding="utf-8"))
    drivers = tomllib.loads((catalog / "drivers.toml").read_text(encoding="utf-8"))
    families = devices["intel"]["family"]
    ids = {
        device_id: family
        for family, row in families.items()
        for device_ids in row["devices"].values()
        for device_id in device_ids
    }
    builds = drivers["compute_runtime"].items()
    carried = {
        "families": dict(sorted(ids.items())),
        "integrated": sorted(f for f, row in families.items() if row["integrated"]),
        "releases": sorted(([build, name] for name, build in builds), reverse=True),
    }
    return json.dumps(carried, indent=1) + "\n"
