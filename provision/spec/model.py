"""The model of a spec: ``envs/<target>.toml``, the only file a person writes for a target.

The text below a key is its description in `provision schema` and docs/reference/spec.md.
"""

import datetime as dt
import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from provision.core.platforms import ACCELERATORS, PLATFORMS, markers
from provision.core.wheel_name import LABEL
from provision.spec.tables import Table

if TYPE_CHECKING:
    Accelerator = str  # for mypy
    Platform = str  # for mypy
else:
    Accelerator, Platform = Literal[tuple(ACCELERATORS)], Literal[tuple(PLATFORMS)]


REMEMBERED = 20_000  # requirements: `init` reads those of a project a dozen times
LONGEST = 4_000  # characters; URLs reach 300


def parse_requirement(text: str) -> Requirement:
    """Parse a requirement."""
    if len(text) > LONGEST:  # of more digits Python makes no number
        raise ValueError(f"{text[:60]}… is not a requirement: it is too long")
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"{text!r} is not a requirement (PEP 508): {error}") from error


@lru_cache(REMEMBERED)
def requirement_name(text: str) -> str:
    """Return the normalised name of a requirement."""
    return canonicalize_name(parse_requirement(text).name)


@lru_cache(REMEMBERED)
def source_requirement(text: str) -> str:
    """Return a requirement, or raise ValueError if it is invalid or its URL cannot be locked."""
    if url := parse_requirement(text).url:
        if not url.startswith(_SOURCES):
            raise ValueError(
                f"{text!r}: the URL has to begin with {', '.join(_SOURCES)}"
            )
        if url.startswith(ARCHIVE) and not _is_inside(url.removeprefix(ARCHIVE)):
            raise ValueError(f"{text!r}: the file is not in the project's folder")
        parts = urlsplit(url)
        if parts.password or (parts.username and parts.scheme != "git+ssh"):
            raise ValueError("its URL has a login, which would end up in the lock")
    return text


def _is_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or path.startswith("/"):
        return False
    # Windows has further ways to say that a path begins elsewhere.
    return ":" not in path and "\\" not in path


def index_requirement(text: str) -> str:
    """Return a requirement, or raise ValueError if it is invalid or names a URL."""
    if parse_requirement(text).url:
        raise ValueError(f"{text!r} names a URL; write it into `requirements`")
    return text


def with_slashes(text: str) -> str:
    r"""Return a path such as ``.\pkg[dev]`` as any system reads it; a URL and a marker stay."""
    path, semicolon, marker = text.partition(";")
    if "://" in path:
        return text
    return path.replace("\\", "/") + semicolon + marker


def _local(text: str) -> str:
    if not text.removeprefix("-e ").strip() or "://" in text:
        raise ValueError(f"{text!r} is neither a folder nor '-e ' and a folder")
    return with_slashes(text)


def _specifier(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier as error:
        raise ValueError(
            f"{text!r} is not a version range such as '>=580.65.06'"
        ) from error
    return text


def _driver_range(text: str) -> str:
    """A range of drivers: a build stands for several numbers, so none can be equal to one."""
    operators = {specifier.operator for specifier in SpecifierSet(_specifier(text))}
    if unordered := operators - {">=", ">", "<=", "<"}:
        raise ValueError(
            f"{text!r} compares drivers by {' '.join(sorted(unordered))}: "
            "only >=, >, <= and < can be compared"
        )
    return text


def _capability_range(text: str) -> str:
    """A range of compute capabilities, of which each is one number or two."""
    for specifier in SpecifierSet(_specifier(text)):
        if not _CAPABILITY.fullmatch(specifier.version):
            raise ValueError(
                f"{text!r} has {specifier.version}, which is no compute capability such as 8.6"
            )
    return text


def _channel(text: str) -> str:
    if not re.fullmatch(FILE_STEM, text):
        raise ValueError(
            "is not the name of a channel's catalog in envs/catalog, such as conda-forge"
        )
    return text


_CAPABILITY = re.compile(r"\d+(\.\d+)?(\.\*)?", re.ASCII)
ARCHIVE = "file:"  # and a path from the project's folder
_SOURCES = (
    "git+https://",
    "git+ssh://",
    "git+http://",
    "git+file://",
    "https://",
    "http://",
    ARCHIVE,
)
# Validated, but kept as text: it reaches the resolvers and the digest as the author wrote it.
IndexRequirement = Annotated[str, AfterValidator(index_requirement)]
Specifier = Annotated[str, AfterValidator(_specifier)]
# Of the catalog: these become parts of paths.
FILE_STEM = r"^[a-z0-9][a-z0-9._-]*$"
FileStem = Annotated[str, Field(pattern=FILE_STEM)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Distribution = Annotated[str, AfterValidator(canonicalize_name)]


class Hardware(Table):
    """The devices and drivers that the target is for."""

    families: tuple[str, ...] = ()
    """Device families of envs/catalog/devices.toml."""
    driver: Annotated[str, AfterValidator(_driver_range)] | None = None
    """Versions of the GPU driver, or of macOS."""
    compute_capability: Annotated[str, AfterValidator(_capability_range)] | None = None
    """CUDA compute capabilities that the wheels are compiled for."""


class Conda(Table):
    """The optional conda layer below pip: the interpreter and native libraries."""

    channels: tuple[Annotated[str, AfterValidator(_channel)], ...] = Field(min_length=1)
    dependencies: tuple[str, ...] = ()
    """Packages besides the spec's Python, which is always there."""


class Override(Table):
    """A requirement that replaces those of all packages for its distribution, and why."""

    requirement: IndexRequirement
    reason: str = Field(min_length=1)


class ForbiddenDistribution(Table):
    """A distribution that must not be installed, and why."""

    name: Distribution
    reason: str = Field(min_length=1)


class Accepted(Table):
    """A known vulnerability that the spec accepts, until a day."""

    id: str = Field(pattern=r"^[A-Za-z0-9][\w.-]*$")
    """Such as CVE-2025-3000; or a package that the service does not know."""
    reason: str = Field(min_length=1)
    until: dt.date
    """The last day on which it is accepted."""


class Pip(Table):
    """The Python packages."""

    cutoff: dt.date
    """Packages uploaded on this day or later do not exist."""
    cutoffs: dict[Distribution, dt.date] = {}
    """Distributions with their own cut-off, as `lock --upgrade` sets."""
    requirements: tuple[Annotated[str, AfterValidator(source_requirement)], ...] = ()
    """PEP 508; `name @ git+https://…@tag`, `name @ https://…` and `name @ file:…` are built."""
    files: tuple[Annotated[str, AfterValidator(with_slashes)], ...] = ()
    """Requirements files, `environment.yml`, `pyproject.toml`; of that also `[extra]` or `:group`."""
    drop: tuple[Distribution, ...] = ()
    """Distributions whose inherited requirement does not hold; others require them."""
    exclude: tuple[Distribution, ...] = ()
    """Distributions to do without, whatever requires them: specs, files, packages."""
    constraints: tuple[IndexRequirement, ...] = ()
    """Limits on the versions of what others require."""
    local: tuple[Annotated[str, AfterValidator(_local)], ...] = ()
    """Folders of own packages, such as '-e .'; installed last, not locked."""
    build: tuple[Distribution, ...] = ()
    """Distributions that are built from their sdist: this runs their code."""
    overrides: tuple[Override, ...] = ()
    forbid: tuple[ForbiddenDistribution, ...] = ()
    """Distributions that must not be installed."""
    accepted: tuple[Accepted, ...] = ()
    index: dict[FileStem, tuple[Distribution, ...]] = {}
    """Catalog index -> the distributions that come from it and nowhere else."""
    variants: dict[Distribution, Annotated[str, Field(pattern=f"^{LABEL}$")]] = {}
    """Distributions of a catalog -> the label of the wheel variant (PEP 825) to take."""

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not (self.requirements or self.files or self.local):
            raise ValueError("has neither requirements, nor files, nor local packages")
        return self

    @model_validator(mode="after")
    def _one_index_each(self) -> Self:
        # With two, the order of the indexes would decide: uv takes a name from the first with it.
        seen: dict[str, str] = {}
        for index, names in self.index.items():
            for name in names:
                if name in seen:
                    raise ValueError(
                        f"{name} is assigned to both {seen[name]} and {index}"
                    )
                seen[name] = index
        return self

    @model_validator(mode="after")
    def _variants_of_catalogs(self) -> Self:
        for name in self.variants:
            if self.index_of(name) == "default":
                raise ValueError(
                    f"takes a variant of {name}, which no [pip.index] assigns to a catalog: "
                    "variants of the default index are not locked"
                )
        return self

    def index_of(self, name: str) -> str:
        """Return the catalog index that a distribution comes from, or ``default``."""
        for index, names in self.index.items():
            if name in names:
                return index
        return "default"


class Smoke(Table):
    """Smoke checks that this target needs beyond those of every target."""

    fused_ops: tuple[str, ...] = ()
    rotary: tuple[Literal["half", "interleaved", "ipex-llm"], ...] = (
        "half",
        "interleaved",
    )
    speedup_over_cpu: float | None = Field(None, gt=0)
    """Least ratio of training throughput, device to CPU."""


class Run(Table):
    """How `run` starts the user's programs."""

    keep: tuple[Variable, ...] = ()
    """Variables of the caller that pass although `run` drops them."""


class Docker(Table):
    """What the container image needs besides the environment."""

    # Names alone: apt would take `-o…` for an option, and `name-` for a removal.
    apt: tuple[
        Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9+.-]*[a-z0-9+]$")], ...
    ] = ()
    """Packages of the image's Linux distribution."""
    drivers: FileStem | None = None
    """Driver set of the catalog to install, such as 'intel-gpu-24-48'."""


@dataclass(frozen=True)
class Inputs:
    """What is known of the files that say a spec; their requirements are the target's."""

    specs: tuple[str, ...] = ()
    """The spec and what it extends: paths relative to the project, names of shipped ones."""
    digests: dict[str, str] = field(default_factory=dict)
    """Of what each file says, by its path relative to the project."""
    places: dict[str, str] = field(default_factory=dict)
    """Requirement, constraint or own package -> where it is: `requirements.txt, line 8`."""
    notes: tuple[str, ...] = ()
    """What of them is not used, each with its place."""
    left_out: dict[str, list[str]] = field(default_factory=dict)
    """What the spec excludes -> the places that require it."""
    limits: dict[str, str] = field(default_factory=dict)
    """Constraint -> where it is, though a requirement says the same elsewhere."""


class Target(Table):
    """One kind of hardware on one platform that gets an environment."""

    model_config = {"serialize_by_alias": True, "validate_default": True}
    _inputs: Inputs = PrivateAttr(default_factory=Inputs)

    # The file's; a spec may have that key in its place.
    name: str = Field(title="extends")
    summary: str = Field(min_length=1)
    accelerator: Accelerator
    platform: Platform
    """conda's platform name."""
    python_version: str = Field(alias="python", pattern=r"^3\.\d+(\.\d+)?$")
    """Minor version, such as '3.11', or an exact one, such as '3.11.9'."""
    glibc: Annotated[str, Field(pattern=r"^2\.(3[1-9]|40)$")] | None = None
    """Least glibc of the machines where wheels need a newer one than 2.28."""
    status: Literal["supported", "legacy", "unlocked"] = "supported"
    """`legacy`: for existing programs only; `unlocked`: no lock, until `update` finds a hash."""
    reason: str | None = None
    """Why the target is legacy or unlocked; printed at each build."""
    hardware: Hardware = Hardware()
    conda: Conda | None = None
    pip: Pip
    smoke: Smoke = Smoke()
    environment: dict[
        Variable, Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$")]
    ] = {}
    """Set by run, smoke and the image; {prefix} is filled in."""
    run: Run = Run()
    docker: Docker | None = None

    # Of one field, not of the whole: so an error names the file that says it, which may be extended.
    @field_validator("reason")
    @classmethod
    def _lesser_has_a_reason(
        cls, reason: str | None, info: ValidationInfo
    ) -> str | None:
        is_lesser = info.data.get("status", "supported") != "supported"
        if is_lesser != (reason is not None):
            raise ValueError(
                "`reason` goes with status = 'legacy' or 'unlocked', and only with them"
            )
        return reason

    @field_validator("glibc")
    @classmethod
    def _glibc_is_of_linux(cls, glibc: str | None, info: ValidationInfo) -> str | None:
        if glibc and not info.data.get("platform", "linux-64").startswith("linux"):
            raise ValueError(f"{info.data['platform']} has no glibc")
        return glibc

    @field_validator("docker")
    @classmethod
    def _images_are_linux(
        cls, docker: Docker | None, info: ValidationInfo
    ) -> Docker | None:
        platform = info.data.get("platform", "linux-64")
        if docker and not PLATFORMS[platform].docker:
            raise ValueError(f"[docker] is for targets of Linux, not {platform}")
        return docker

    @property
    def python(self) -> str:
        """The minor version of Python, which decides wheel tags."""
        return ".".join(self.python_version.split(".")[:2])

    @property
    def machine(self) -> tuple[str, str, str | None]:
        """What decides wheel tags: platform, Python and glibc."""
        return self.platform, self.python, self.glibc

    @property
    def markers(self) -> dict[str, str]:
        """The environment markers (PEP 508) of the machines that it is for."""
        return markers(self.platform, self.python)

    @property
    def channels(self) -> tuple[str, ...]:
        """The conda channels; () where it has no conda layer."""
        return self.conda.channels if self.conda else ()

    def applies(self, requirement: Requirement) -> bool:
        """Whether a requirement holds on the machines that it is for, by its marker."""
        marker = requirement.marker
        return marker is None or marker.evaluate(self.markers)

    def digest(self) -> str:
        """Return the SHA-256 of the keys that decide the lock: platform, Python, conda and pip.

        Other keys (summary, hardware, smoke …) may change without making the lock stale.
        """
        # What `files` say is among the requirements, what `drop` leaves out is not there, and a
        # resolver never reads the other two.
        unread = {"pip": {"files", "drop", "forbid", "accepted"}}
        keys = self.model_dump(
            mode="json", include={"platform", "conda", "pip"}, exclude=unread
        )
        keys["python"] = self.python_version
        if self.glibc:  # unknown to older locks
            keys["glibc"] = self.glibc
        for later in ("exclude", "constraints", "local", "build", "variants"):
            if not keys["pip"][later]:  # unknown to older locks
                del keys["pip"][later]
        return hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()

    def with_pip(self, **values: Any) -> Self:  # noqa: ANN401 - values of fields
        """Return the target with other values in its table ``[pip]``."""
        return self.model_copy(update={"pip": self.pip.model_copy(update=values)})

    @property
    def inputs(self) -> Inputs:
        """What is known of the files that it refers to."""
        return self._inputs

    def with_inputs(self, inputs: Inputs) -> Self:
        """Return the target with what is known of its files."""
        copy = self.model_copy()
        copy._inputs = inputs  # noqa: SLF001 - of this class
        return copy

    def variables(self, prefix: Path) -> dict[str, str]:
        """Return the variables that the spec sets, for an environment at ``prefix``."""
        # Not str.format(), which fails on any other brace in a value.
        variables = {}
        for name, value in self.environment.items():
            variables[name] = value.replace("{prefix}", str(prefix))
        return variables
