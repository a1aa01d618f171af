"""The rule on files that are not as they were installed, and the way back for each package."""

import re
from collections.abc import Iterable
from shlex import quote

from provision.doctor.context import DoctorContext, Findings, case
from provision.environment.installed import InstalledDistribution

_OWN_INDEX = re.compile(
    r"cpu|cu\d+|xpu|rocm[\d.]+"
)  # local versions of torch's own builds


def installation(context: DoctorContext) -> Findings:
    """Files are gone, damaged or of two packages, or programs start another Python."""
    for name, faults in context.files.items():
        dists = list(faults)
        evidence = []
        for dist in dists[:5]:
            more = len(faults[dist]) - 3
            files = ", ".join(faults[dist][:3])
            evidence.append(
                f"{dist}: {files}" + (f" and {more} more" if more > 0 else "")
            )
        code = None
        if name == "overwritten":
            if all(dist.name.startswith("nvidia-") for dist in dists):
                code = "cuda-library-mismatch"
            dists = dists[-1:]
        yield case(
            name,
            evidence,
            code=code,
            names=" ".join(dist.name for dist in faults),
            prefix=quote(str(context.env.prefix)),
            command=reinstall(context, dists),
        )


def reinstall(
    context: DoctorContext, dists: Iterable[InstalledDistribution], how: str = ""
) -> str:
    """Return the commands that install packages again, in their versions, and nothing else."""
    pins: dict[str, list[str]] = {}
    prefix = quote(str(context.env.prefix))
    for dist in dists:
        command = f"uv pip install --python {prefix} --reinstall --no-deps {how}"
        origin = (
            f" @ {'git+' * dist.origin.endswith('.git')}{dist.origin}"
            if dist.origin
            else ""
        )
        pin = quote(dist.name + (origin or f"=={dist.version}"))
        if _OWN_INDEX.fullmatch(dist.local):
            command += f"--index-url https://download.pytorch.org/whl/{dist.local} "
        if dist.folder.suffix == ".json":
            command = f"conda install -p {prefix} --force-reinstall --no-deps "
            pin = f"{dist.name}={dist.version}"
        pins.setdefault(command, []).append(pin)
    return context.repair or ", then ".join(
        f"`{c}{' '.join(n)}`" for c, n in pins.items()
    )
