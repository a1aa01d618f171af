"""A target in the formats of other installers: ``pylock.toml`` (PEP 751), others by templates.

What a format cannot hold stands in :data:`LOST`, so that nobody takes the copy for the lock.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import tomlkit
from packaging.markers import Marker
from packaging.pylock import Package, PackageWheel, Pylock
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import Artifact, Lock
from provision.spec.model import Target
from provision.spec.requirement_files import requirement_name

MARKERS = {
    "linux-64": "sys_platform == 'linux' and platform_machine == 'x86_64'",
    "win-64": "sys_platform == 'win32' and platform_machine == 'AMD64'",
}
_CONDA = "the conda layer: interpreter and native libraries come from the machine"
_INDEX = "which index each package comes from: the installer searches all of them"
_HASHES = "the hashes of the wheels"
_UV_HASHES = "the hashes: `uv lock` takes those that the indexes state"
_VARIABLES = "the variables of [environment]"
_BUILT = "what was built from source: name its folders in wheelhouse/ with --find-links"
_OWN = "the own packages of the spec"
LOST = {
    "pylock": (_CONDA, _VARIABLES, _OWN),
    "requirements": (_CONDA, _INDEX, _VARIABLES, _BUILT, _OWN),
    "environment": (_HASHES, _INDEX, _BUILT, _OWN, "the hashes of the conda packages"),
    "uv": (_CONDA, _UV_HASHES, _VARIABLES, _BUILT, _OWN),
    "devcontainer": (),
    "ci": (),
    "module": (),
    "apptainer": (),
}


def lost(target: Target, lock: Lock, kind: str) -> tuple[str, ...]:
    """Return what of a target its copy in a format does not hold."""
    absent = {_CONDA: lock.conda is None, _VARIABLES: not target.environment,
              _INDEX: not target.pip.index, _OWN: not lock.local,
              _BUILT: not any(artifact.source for artifact in lock.artifacts)}  # fmt: skip
    return tuple(words for words in LOST[kind] if not absent.get(words))


def render(
    kind: str, *, target: Target, lock: Lock, indexes: Mapping[str, str], toolkit: str, prefix: Path
) -> str:
    """Return a format's text, from its template.

    The toolkit is what pip installs Provision from, and the prefix that of the environment, by the
    link that stays when a new generation is built.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - slow

    # These delimiters are in no text of the formats.
    templates = Environment(  # noqa: S701 - none is HTML; JSON, YAML and TOML quote with `json`
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True,
        block_start_string="<%", block_end_string="%>", comment_start_string="<%#",
        comment_end_string="%>", variable_start_string="<<", variable_end_string=">>",
    )  # fmt: skip
    templates.filters["json"] = json.dumps
    return templates.get_template(f"{kind}.j2").render(
        target=target, lock=lock, indexes=indexes, toolkit=toolkit, prefix=prefix,
        native=conda_packages(lock), marker=MARKERS[target.platform],
        direct=set(map(requirement_name, target.pip.requirements)),
    )  # fmt: skip


def pylock(lock: Lock, urls: Mapping[Artifact, str], indexes: Mapping[str, str]) -> str:
    """Return the pip layer of a lock as a validated ``pylock.toml``.

    The address of each wheel is without credentials, or its path in the project.
    """
    document = Pylock(
        lock_version=Version("1.0"),
        environments=[Marker(MARKERS[lock.header["platform"]])],
        requires_python=SpecifierSet(f"=={lock.header['python']}.*"),
        created_by="provision",
        packages=[_package(artifact, urls[artifact], indexes) for artifact in lock.artifacts],
    )
    document.validate()
    return tomlkit.dumps(document.to_dict())


def _package(artifact: Artifact, url: str, indexes: Mapping[str, str]) -> Package:
    wheel = PackageWheel(
        name=artifact.filename,
        url=url if "://" in url else None,
        path=None if "://" in url else url,  # built from source
        size=artifact.size,
        hashes={"sha256": artifact.sha256},
    )
    return Package(
        name=canonicalize_name(artifact.name),
        version=Version(artifact.version),
        index=indexes.get(artifact.index),
        wheels=[wheel],
    )
