"""Model of a Python environment, read from disk: nothing in it is run or imported."""

import contextlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from provision.core.errors import UsageError
from provision.core.platforms import PLATFORMS
from provision.core.project import RECORD
from provision.doctor.sites import prefix_of, sites_of
from provision.environment.installed import InstalledDistribution, distributions_by_name
from provision.environment.reading import list_names, read_text, venv_settings

_ASSIGNED = re.compile(
    r"^(__version__|cuda|xpu|hip)\s*(?::[^=]+)?=\s*(?:'([^']*)'|\"([^\"]*)\"|None)",
    re.MULTILINE,
)


# Distributions of which another copy on sys.path breaks the environment.
STACK = (
    "torch",
    "torchvision",
    "torchaudio",
    "triton",
    "pytorch-triton-xpu",
    "numpy",
    "transformers",
    "accelerate",
    "intel-extension-for-pytorch",
    "ipex-llm",
    "bitsandbytes",
    "xformers",
    "vllm",
    "flash-attn",
)


@dataclass(frozen=True, slots=True)
class Torch:
    """The build of torch, from ``torch/version.py``."""

    version: str
    cuda: str | None = None
    xpu: str | None = None
    hip: str | None = None

    @property
    def accelerator(self) -> str:
        """``cuda``, ``xpu``, ``hip`` or ``cpu``."""
        if self.cuda:
            return "cuda"
        if self.xpu or "xpu" in self.version:
            return "xpu"
        return "hip" if self.hip else "cpu"

    def __str__(self) -> str:
        return f"torch {self.version}".strip()


@dataclass(frozen=True, slots=True)
class Environment:
    """One Python environment, built by Provision or not."""

    prefix: Path
    site: Path  # its site-packages; of several such folders the one that holds torch
    python: str = ""  # minor version, such as ``3.11``; "" if it is unknown
    windows: bool = False  # whether it has the folder layout of Windows
    virtual: bool = False  # a virtual environment, which excludes the per-user packages
    broken: str = ""  # why its interpreter cannot start, or sees no packages
    markers: Mapping[str, str] = field(default_factory=dict)  # their values (PEP 508)
    # By normalised name; more than one of a name if there are leftovers.
    distributions: Mapping[str, tuple[InstalledDistribution, ...]] = field(
        default_factory=dict
    )
    torch: Torch | None = None
    leftovers: tuple[str, ...] = ()  # of an interrupted installation, such as ``~orch``
    user_site: Mapping[str, tuple[InstalledDistribution, ...]] = field(
        default_factory=dict
    )
    state: str = "installed"  # what its packages are: or ``locked``, ``required``
    source: str = ""  # the file that requires them; "" where they are installed
    built_for: str = (
        ""  # the target whose lock or build it is; "" where Provision made neither
    )
    excluded: tuple[str, ...] = ()  # what that does without already
    brought: Mapping[str, str] = field(
        default_factory=dict
    )  # what requires each, as words

    @property
    def platform(self) -> str:
        """Conda's name of its platform, such as ``linux-64``."""
        if self.windows:
            return "win-64"
        if self.markers.get("sys_platform") == "darwin":
            return "osx-arm64"
        if self.markers.get("platform_machine") == "aarch64":
            return "linux-aarch64"
        return "linux-64"

    def says(self, dist: InstalledDistribution) -> str:
        """Return the evidence that a distribution is there: installed, locked or required."""
        return f"{dist} is {self.state}{self.brought.get(dist.name, '')}"

    def leave_out(self, *names: str) -> str:
        """Return how to get rid of distributions, in an environment or in what requires them."""
        if self.built_for:
            excluded = (*self.excluded, *names)
            every = ", ".join(f'"{name}"' for name in excluded)
            steps = f"then `provision lock {self.built_for}`"
            if self.state == "installed":
                steps += f" and `provision build {self.built_for}`"
            spec = f"envs/{self.built_for}.toml"
            return f"Write `exclude = [{every}]` into [pip] of {spec}, {steps}"
        if self.source:
            return f"Leave {' and '.join(names)} out of {self.source}"
        return f"Run `uv pip uninstall {self.option} {' '.join(names)}`"

    @property
    def option(self) -> str:
        """The option of uv that names it."""
        return f"--python {shlex.quote(str(self.prefix))}"

    def require(self, pin: str) -> str:
        """Return how to have another version by what requires it, "" where nothing does."""
        if self.built_for:
            return f"`provision add {self.built_for} '{pin}'`"
        return f"Require {pin} in {self.source}" if self.source else ""

    @property
    def accelerator(self) -> str:
        """The accelerator of its torch, or of an old IPEX, which adds the device to a CPU build."""
        ipex = self.get("intel-extension-for-pytorch")
        if ipex is not None and "xpu" in ipex.local:
            return "xpu"
        return self.torch.accelerator if self.torch else "cpu"

    @property
    def dists(self) -> list[InstalledDistribution]:
        """The distributions, each once: of several of one name the first."""
        return [several[0] for several in self.distributions.values()]

    def present(self, names: Iterable[str]) -> list[InstalledDistribution]:
        """The distributions that are there, of some names and in their order."""
        return [self.distributions[name][0] for name in names if self.get(name)]

    def get(self, name: str) -> InstalledDistribution | None:
        """Return the distribution of a name, or None."""
        return self.distributions.get(name, (None,))[0]


def read_environment(
    python: Path, *, home: Path | None = None, base: str = ""
) -> Environment:
    """Read an environment from its interpreter or its folder; garbage in it does not raise.

    Per-user packages are in ``home`` or ``base``. UsageError: there is no environment at that path.
    """
    prefix = prefix_of(python)
    sites = sites_of(python)
    if not sites:
        raise UsageError(
            f"there is no Python environment at {python}",
            cause="nothing is there, or it has no site-packages folder",
            remedy="give the path of its interpreter, for instance .venv/bin/python",
        )
    with_torch = [folder for folder in sites if (folder / "torch").is_dir()]
    site = (with_torch or sites)[0]
    leftovers = [name for name in list_names(site) if name.startswith("~")]
    config = venv_settings(prefix)
    version = config.get("version_info") or config.get("version") or _version_of(site)
    minor = ".".join(version.split(".")[:2])
    windows = site.parent.name == "Lib"
    distributions = distributions_by_name(sites)
    return Environment(
        prefix,
        site,
        minor,
        windows,
        virtual=bool(config) and config.get("include-system-site-packages") != "true",
        broken=_broken(prefix, site),
        markers=markers_of(version, distributions, windows=windows),
        distributions=distributions,
        torch=_torch(site),
        leftovers=tuple(leftovers),
        user_site=distributions_by_name(_user_sites(home, minor, base)),
        built_for=built_for(prefix),
    )


def markers_of(
    version: str,
    distributions: Mapping[str, tuple[InstalledDistribution, ...]],
    *,
    windows: bool,
) -> dict[str, str]:
    """Return the values of environment markers, with the platform from the wheels' tags."""
    tags = ""
    for dists in distributions.values():
        for dist in dists:
            tags += " ".join(dist.tags) + " "
    platform = "linux-64"
    if windows:
        platform = "win-64"
    elif tags.count("-macosx_") > tags.count("linux_"):
        platform = "osx-arm64"
    elif "aarch64" in tags:
        platform = "linux-aarch64"
    number = re.match(r"3\.\d+(?:\.\d+)?", version)  # virtualenv writes 3.11.9.final.0
    full = number[0] if number else "3.11"
    return PLATFORMS[platform].markers | {
        "python_version": ".".join(full.split(".")[:2]),
        "python_full_version": full,
    }


def built_for(prefix: Path) -> str:
    """Return the target that Provision built an environment for, or ""."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return str(json.loads(read_text(prefix / RECORD))["target"])
    return ""


def _version_of(site: Path) -> str:
    """Return the minor version of an environment without pyvenv.cfg, or ""."""
    dlls = " ".join(list_names(site.parent.parent)).lower()
    number = re.search(r"python3\.(\d+)", str(site)) or re.search(
        r"\bpython3(\d+)\.dll", dlls
    )
    return f"3.{number[1]}" if number else ""


def _broken(prefix: Path, site: Path) -> str:
    """Return why the interpreter cannot start, or sees none of its packages, or ""."""
    for name in ("bin/python", "bin/python3", "Scripts/python.exe"):
        link = prefix / name
        if link.is_symlink() and not link.exists():
            return f"{link} points to {os.readlink(link)}, which is gone"  # noqa: PTH115
    program = Path(os.path.realpath(prefix / "bin" / "python")).name
    versions = re.compile(r"python3\.\d+")
    replaced = program != site.parent.name and versions.fullmatch(site.parent.name)
    if venv_settings(prefix) and versions.fullmatch(program) and replaced:
        return f"{prefix}/bin/python is {program}, and the packages are in {site}"
    return ""


def _torch(site: Path) -> Torch | None:
    text = read_text(site / "torch" / "version.py")
    values = {m[1]: m[2] or m[3] for m in _ASSIGNED.finditer(text)}
    if "__version__" not in values:
        return None
    return Torch(
        values["__version__"] or "",
        values.get("cuda"),
        values.get("xpu"),
        values.get("hip"),
    )


def _user_sites(home: Path | None, minor: str, base: str) -> list[Path]:
    if home is None:
        return []
    posix = Path(base or home / ".local", f"lib/python{minor}")
    windows = Path(
        base or home / "AppData/Roaming/Python", f"Python{minor[:1]}{minor[2:]}"
    )
    return [posix / "site-packages", windows / "site-packages"]
