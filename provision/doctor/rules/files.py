"""The rule on files that are not as they were installed, and the way back for each package."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from provision.doctor.context import DoctorContext, Findings, case

if TYPE_CHECKING:
    from collections.abc import Iterable

    from provision.environment.installed import InstalledDistribution

_OWN_INDEX = re.compile(r"cpu|cu\d+|xpu|rocm[\d.]+")  # local versions of torch's own builds


def installation(context: DoctorContext) -> Findings:
    """Files are gone, damaged, changed or of two packages; programs or sources are elsewhere."""
    for name, faults in context.files.items():
        worse = context.files.get("damaged", {}) if name == "changed-file" else {}
        dists = [dist for dist in faults if dist not in worse]
        evidence = [f"{dist}: {_some(faults[dist])}" for dist in dists[:5]]
        twice, names = name == "overwritten", [dist.name for dist in dists]
        cuda = twice and all(name.startswith("nvidia-") for name in names)
        code, prefix = "cuda-library-mismatch" if cuda else None, context.env.prefix
        again = reinstall(context, dists[-1:] if twice else dists)
        if dists:
            yield case(
                name, evidence, code=code, names=" ".join(names), prefix=prefix, command=again
            )


def reinstall(context: DoctorContext, dists: Iterable[InstalledDistribution], how: str = "") -> str:
    """Return the commands that install packages again, in their versions, and nothing else."""
    pins: dict[str, list[str]] = {}
    for dist in dists:
        command = f"uv pip install --python {context.env.prefix} --reinstall --no-deps {how}"
        pin = f"'{dist.name}{f' @ {dist.origin}' if dist.origin else f'=={dist.version}'}'"
        if _OWN_INDEX.fullmatch(dist.local):
            command += f"--index-url https://download.pytorch.org/whl/{dist.local} "
        if dist.folder.suffix == ".json":
            command, pin = "conda install --force-reinstall ", f"{dist.name}={dist.version}"
        pins.setdefault(command, []).append(pin)
    return ", then ".join(f"`{command}{' '.join(named)}`" for command, named in pins.items())


def _some(files: list[str]) -> str:
    return f"{', '.join(files[:3])}{f' and {len(files) - 3} more' if files[3:] else ''}"
