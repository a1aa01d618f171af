"""The rule on files that are not as they were installed, and the way back for each package."""

from collections.abc import Iterable
from shlex import quote

from provision.doctor.context import DoctorContext, Findings, case
from provision.doctor.rules.companions import BUILD
from provision.environment.installed import InstalledDistribution


def installation(context: DoctorContext) -> Findings:
    """Files are gone, damaged or of two packages, or programs start another Python."""
    env = context.env
    for name, faults in context.files.items():
        dists = list(faults)
        names = []
        evidence = []
        for dist, files in faults.items():
            names.append(dist.name)
            evidence.append(f"{dist}: {_shortened(files)}")
        if name == "overwritten":
            dists = dists[-1:]
        yield case(
            name,
            evidence[:5],
            names=" ".join(names),
            leave=env.leave_out(*names[:-1] or names),
            env=env,
            prefix=quote(str(env.prefix)),
            command=_reinstall(context, dists),
        )


def _shortened(files: list[str]) -> str:
    shown = ", ".join(files[:3])
    more = len(files) - 3
    if more > 0:
        return f"{shown} and {more} more"
    return shown


def _reinstall(context: DoctorContext, dists: Iterable[InstalledDistribution]) -> str:
    """Return the commands that install packages again, in their versions, and nothing else."""
    prefix = quote(str(context.env.prefix))
    commands = []
    for dist in dists:
        pin = f"{dist.name}=={dist.version}"
        if dist.origin.endswith(".git"):
            pin = f"{dist.name} @ git+{dist.origin}"
        elif dist.origin:
            pin = f"{dist.name} @ {dist.origin}"
        index = ""
        if BUILD.fullmatch(dist.local):
            index = f" --index-url https://download.pytorch.org/whl/{dist.local}"
        options = f"--python {prefix} --reinstall --no-deps{index}"
        commands.append(f"`uv pip install {options} {quote(pin)}`")
    return ", then ".join(commands)
