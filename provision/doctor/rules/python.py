"""Rules on the interpreter, and on code that it imports from outside the environment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from provision.core.findings import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.doctor.context import DoctorContext
    from provision.environment.installed import InstalledDistribution

# Distributions of which another copy on sys.path breaks the environment.
_STACK = ("torch", "torchvision", "torchaudio", "triton", "pytorch-triton-xpu", "numpy",
          "transformers", "accelerate", "intel-extension-for-pytorch", "ipex-llm", "bitsandbytes",
          "xformers", "vllm", "flash-attn")  # fmt: skip
_NEWEST_PYTHON = 14  # the newest that torch 2.14's wheels are built for


class Interpreter:
    """The interpreter of the environment does not start."""

    code: ClassVar[str] = "wrong-interpreter-site-packages"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        if context.env.broken:
            yield Finding(
                self.code,
                Level.ERROR,
                "The environment's Python does not start",
                "The Python that the environment was created from was moved or removed",
                f"Run `rm -r {context.env.prefix}`, then create the environment again",
                (context.env.broken,),
            )


class HalfInstalled:
    """A distribution is installed in part, or twice: an installation was interrupted."""

    code: ClassVar[str] = "half-installed"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        evidence = [f"leftover {context.env.site / name}" for name in context.env.leftovers]
        for name, several in context.env.distributions.items():
            if len(several) > 1:
                versions = ", ".join(dist.folder.name for dist in several)
                evidence.append(f"{name} is installed more than once: {versions}")
            evidence += [line for dist in several if (line := _incomplete(dist))]
        if evidence:
            names = {line.split()[0] for line in evidence if not line.startswith("leftover")}
            what = " ".join(sorted(names)) or "the package whose leftover is quoted"
            yield Finding(
                self.code,
                Level.ERROR if names else Level.WARNING,
                "A package is installed in part",
                "An installation was interrupted, or files of the package were removed",
                f"Delete the quoted leftovers, then run `uv pip install --reinstall {what}`, "
                "or build the environment again",
                tuple(evidence[:5]),
            )


def _incomplete(dist: InstalledDistribution) -> str:
    if dist.missing_modules is None:
        return f"{dist.name} has no readable METADATA or RECORD in {dist.folder}"
    if dist.missing_modules:
        return f"{dist.name} lacks {', '.join(dist.missing_modules[:3])}"
    return ""


class OtherPython:
    """Compiled packages are for another Python version than the environment's."""

    code: ClassVar[str] = "wrong-interpreter-site-packages"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        own = context.env.python
        foreign = [
            f"{dist.name} {dist.version} was built for Python {', '.join(sorted(built))}"
            for several in context.env.distributions.values()
            for dist in several
            if own and (built := _built_for(dist)) and own not in built
        ]
        if foreign:
            yield Finding(
                self.code,
                Level.ERROR,
                f"Compiled packages are for another Python than the environment's {own}",
                "They were installed with another interpreter, or the environment was copied",
                "Install them again with this Python: `uv pip install --reinstall NAME`",
                tuple(foreign[:5]),
            )


def _built_for(dist: InstalledDistribution) -> frozenset[str]:
    """Return the Python versions that its modules are for; none for stable-ABI and pure wheels."""
    tagged = (re.match(r"cp3(\d+)-cp3\d+-", tag) for tag in dist.tags)
    return dist.compiled_for or frozenset(f"3.{match[1]}" for match in tagged if match)


class Shadowed:
    """PYTHONPATH, PYTHONHOME or a .pth file makes Python import packages from elsewhere."""

    code: ClassVar[str] = "wrong-interpreter-site-packages"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        if home := context.host.variables.get("PYTHONHOME"):
            yield self._finding(Level.ERROR, "PYTHONHOME", (f"PYTHONHOME={home}",))
        shadows = [name for name in _STACK if name in context.elsewhere]
        if shadows:
            evidence = tuple(f"{name} is in {context.elsewhere[name]}" for name in shadows[:5])
            yield self._finding(Level.ERROR, "PYTHONPATH", evidence)
        elif path := context.host.variables.get("PYTHONPATH"):
            yield self._finding(Level.NOTE, "PYTHONPATH", (f"PYTHONPATH={path}",))

    def _finding(self, level: Level, variable: str, evidence: tuple[str, ...]) -> Finding:
        return Finding(
            self.code,
            level,
            "Python imports packages from outside the environment",
            f"{variable}, or a .pth file, puts other folders before the environment's own",
            f"Run `unset {variable}`, and remove any .pth file that names the quoted folder",
            evidence,
        )


class UserSite:
    """Packages of the per-user site-packages are imported instead of the environment's."""

    code: ClassVar[str] = "wrong-interpreter-site-packages"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        if context.env.virtual or context.host.variables.get("PYTHONNOUSERSITE"):
            return
        both = [n for n in _STACK if n in context.env.user_site and n in context.env.distributions]
        if both:
            yield Finding(
                self.code,
                Level.ERROR,
                "Per-user packages are imported instead of those of the environment",
                "This is no isolated virtual environment, so Python searches the per-user "
                "site-packages first",
                f"Run `export PYTHONNOUSERSITE=1`, or `python -m pip uninstall {' '.join(both)}` "
                "outside of any environment",
                tuple(f"{name} is in the per-user site-packages too" for name in both[:5]),
            )


class Startup:
    """A .pth file or a sitecustomize module runs code at every start of Python."""

    code: ClassVar[str] = "wrong-interpreter-site-packages"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        runs = [f"{n}: {line[:120]}" for n, line in context.env.pth if line.startswith("import")]
        runs += [f"{context.env.site / name} runs at every start" for name in context.env.customize]
        if runs:
            yield Finding(
                self.code,
                Level.NOTE,
                "Code in site-packages runs at every start of Python",
                "A .pth file or a sitecustomize module is in site-packages",
                "If you did not put it there, move it elsewhere and start the program again",
                tuple(runs[:5]),
            )


class NoWheels:
    """A package, or the target, is for another version of Python."""

    code: ClassVar[str] = "python-version-unsupported"
    unless: ClassVar[tuple[str, ...]] = ("wrong-interpreter-site-packages",)

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        own = context.env.python
        if not own:
            return
        if context.target is not None and context.target.python != own:
            wanted = context.target.python
            yield self._finding(own, (f"target {context.target.name} is for Python {wanted}",))
            return
        refusing = [
            f"{dist.name} {dist.version} requires Python {dist.requires_python}"
            for dist in (several[0] for several in context.env.distributions.values())
            if not _takes(dist, own)
        ]
        if refusing:
            yield self._finding(own, tuple(refusing[:5]))
        elif context.env.torch is None and int(own.partition(".")[2] or 0) > _NEWEST_PYTHON:
            yield self._finding(own, (f"torch has no wheels for Python {own} yet",))

    def _finding(self, own: str, evidence: tuple[str, ...]) -> Finding:
        return Finding(
            self.code,
            Level.ERROR,
            f"The packages do not support Python {own}",
            "The packages, or the target, require another version of Python",
            "Create the environment with an allowed version, such as `uv venv --python 3.11`",
            evidence,
        )


def _takes(dist: InstalledDistribution, python: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415

    try:
        return SpecifierSet(dist.requires_python).contains(f"{python}.99", prereleases=True) or (
            SpecifierSet(dist.requires_python).contains(f"{python}.0", prereleases=True)
        )
    except InvalidSpecifier:
        return True


RULES = (
    Interpreter(),
    HalfInstalled(),
    OtherPython(),
    Shadowed(),
    UserSite(),
    Startup(),
    NoWheels(),
)
