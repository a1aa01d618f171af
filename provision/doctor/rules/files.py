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
    """Files are gone, damaged, changed or of two packages; programs or sources are elsewhere."""
    for name, faults in context.files.items():
        worse = context.files.get("damaged", {}) if name == "changed-file" else {}
        dists = [dist for dist in faults if dist not in worse]
        shown = [(d, ", ".join(faults[d][:3]), len(faults[d]) - 3) for d in dists[:5]]
        evidence = [f"{d}: {some}" + f" and {n} more" * (n > 0) for d, some, n in shown]
        twice, names = name == "overwritten", " ".join(dist.name for dist in dists)
        cuda = twice and all(dist.name.startswith("nvidia-") for dist in dists)
        code, prefix = (
            "cuda-library-mismatch" if cuda else None,
            quote(str(context.env.prefix)),
        )
        again = reinstall(context, dists[-1:] if twice else dists)
        if dists:
            yield case(
                name, evidence, code=code, names=names, prefix=prefix, command=again
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
