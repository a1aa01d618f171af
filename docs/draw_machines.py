"""Write ``docs/reference/machines.md``: the targets of each GPU of the catalog, and how sure it is.

``nox -s docs`` runs it, and ``tests/test_docs.py`` fails where the committed page differs.
"""
# ruff: noqa: INP001 - a program, not a module of a package

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "machines.md"
sys.path.append(str(ROOT))

from provision.catalog.devices import Device, read_devices  # noqa: E402
from provision.commands.detect import FitVerdict, detect  # noqa: E402
from provision.core.platforms import ACCELERATORS, MAKERS, PLATFORMS  # noqa: E402
from provision.core.project import Project  # noqa: E402
from provision.host.model import Driver, Gpu, Host, Runtimes  # noqa: E402
from provision.spec.reader import read_hardware  # noqa: E402
from tests.smoke.profiles import Profile, profiles  # noqa: E402

PROJECT = Project(ROOT)
TARGETS = read_hardware(PROJECT.specs)
LESSER = {t.name: t.status for t in TARGETS if t.status != "supported"}
DEVICES = read_devices(PROJECT.catalog)
CHIPS = PROJECT.catalog / "devices.toml"

HEAD = """# Which GPU gets which target

Made by `docs/draw_machines.py` from the catalog (`envs/catalog/devices.toml`), the specs and the
code of `provision detect`. If the driver is new enough, `build auto` takes the first target of a
platform. Each build of a `legacy` target prints what is lost. An `unlocked` target has no lock yet,
because a hash is missing. A dash means that no target supports the GPU on this platform; `detect`
says where to go instead. CPU targets run on every machine of their platform.

The last column has what this project tried itself. [The matrix](known-wrong.md) has what owners of a
device proved and signed.

- *checked*: all checks ran on the named device, in an environment that was there.
- *simulated*: the checks ran on a pretend device, which behaves as the named profile of
  `tests/smoke/profiles.toml`; for an NVIDIA GPU the profile has the same compute capability.
- *facts*: nothing ran. The ids, families and compiled architectures fit.

A Mac that nobody has proved is called unproven.
"""
TABLE = """
## {title}

| GPU | ids | {platforms} | evidence |
|---|---|{dashes}|---|
"""
OWN_RUN = "a run of this suite"  # a source of a profile
# What a machine with nothing to repair has, so that only the hardware decides.
HEALTHY = Runtimes(level_zero="1.99", compute_runtime="99.1.99999")


def draw() -> str:
    """Return the page."""
    return HEAD + "".join(
        _table(vendor, list(rows))
        for vendor, rows in (
            ("nvidia", _nvidia()),
            ("intel", _intel()),
            ("apple", _apple()),
        )
    )


def _table(vendor: str, rows: list[tuple[str, str, Device]]) -> str:
    own = {t.platform for t in TARGETS if ACCELERATORS[t.accelerator].vendor == vendor}
    platforms = [name for name in PLATFORMS if name in own]
    text = TABLE.format(
        title=MAKERS[vendor],
        platforms=" | ".join(platforms),
        dashes="---|" * (len(platforms) - 1) + "---",
    )
    for ids, name, device in rows:
        served = [_served(vendor, ids, device, platform) for platform in platforms]
        known = _evidence(vendor, name, device) if any(served) else "*facts*"
        cells = [", ".join(_target(each) for each in names) or "-" for names in served]
        text += f"| {name} | {ids} | {' | '.join(cells)} | {known} |\n"
    return text


def _intel() -> Iterator[tuple[str, str, Device]]:
    """Yield ids, name and entry of each model, those of one family together."""
    models: dict[tuple[str, str], list[str]] = {}
    for key, device in DEVICES.intel.items():
        models.setdefault((device.family or "", device.name), []).append(key)
    for (family, name), keys in models.items():
        yield (
            " ".join(keys),
            f"{name.removeprefix('Intel ')} ({family})",
            DEVICES.intel[keys[0]],
        )


def _nvidia() -> Iterator[tuple[str, str, Device]]:
    for first, last, device in DEVICES.chips:
        capability = device.compute_capability or "not known yet"
        name = f"{device.name.removeprefix('NVIDIA ')}, {capability}"
        yield f"{first:04x}-{last:04x}", name, device


def _apple() -> Iterator[tuple[str, str, Device]]:
    for name in tomllib.loads(CHIPS.read_text(encoding="utf-8"))["apple"]["chips"]:
        yield "-", name, Device(name, None, supported=True, integrated=True)


def _served(vendor: str, ids: str, device: Device, platform: str) -> list[str]:
    """Return the targets that a GPU gets on a platform, the best one first."""
    gpu = Gpu(
        vendor,
        ids[:4].strip("-"),
        device.name,
        "0000:01:00.0",
        device.family,
        device.supported,
        device.integrated,
        device.compute_capability,
        Driver("any"),
    )
    found = detect(TARGETS, Host(platform, "", gpus=(gpu,), runtimes=HEALTHY))
    return [
        fit.target
        for fit in found.fits
        if fit.device and fit.verdict is not FitVerdict.NO
    ]


def _target(name: str) -> str:
    return f"`{name}` ({LESSER[name]})" if name in LESSER else f"`{name}`"


def _evidence(vendor: str, name: str, device: Device) -> str:
    checked, simulated = [], []
    for key, profile in profiles().items():
        if not _plays(profile, vendor, name, device):
            continue
        if OWN_RUN in profile.sources.get("names", ()):
            checked.append(key)
        else:
            simulated.append(key)
    words = []
    if checked:
        words.append(f"*checked*: {', '.join(checked)}")
    if simulated:
        words.append(f"*simulated*: {', '.join(simulated)}")
    unproven = "unproven: " if vendor == "apple" else ""
    return unproven + ("; ".join(words) or "*facts*")


def _plays(profile: Profile, vendor: str, name: str, device: Device) -> bool:
    if profile.vendor != vendor:
        return False
    if vendor == "nvidia":
        return bool(profile.seen["capability"] == device.compute_capability)
    names = profile.played("names", ())
    if vendor == "apple":
        return name in names
    return device.family in profile.played("families", ()) and any(
        _is_of(n, name) for n in names
    )


def _is_of(reported: str, name: str) -> bool:
    """Whether a name that torch reports is of a model, such as ``Arc A770``."""
    model = re.sub(r" \(\w+\)$", "", name)
    plain = re.sub(r"\((?:R|TM)\)", "", reported)
    return re.search(rf"\b{re.escape(model)}(?: Graphics)?$", plain) is not None


if __name__ == "__main__":
    PAGE.write_text(draw(), encoding="utf-8")
