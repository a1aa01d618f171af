"""A target in the formats of other installers: ``pylock.toml`` (PEP 751), others by templates.

What a format cannot hold stands in ``formats.toml``.
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

from provision.core.findings import toml_table
from provision.core.platforms import ACCELERATORS, PLATFORMS
from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import Artifact, Lock
from provision.spec.model import Target
from provision.spec.requirement_files import requirement_name

_TABLES = toml_table(Path(__file__).with_suffix(".toml"))
LOST = _TABLES["lost"]
MADE = _TABLES["made"]


def lost(target: Target, lock: Lock, kind: str) -> tuple[str, ...]:
    """Return what of a target its copy in a format does not hold."""
    absent = {
        "conda": lock.conda is None,
        "variables": not target.environment,
        "index": not target.pip.index,
        "own": not lock.local,
        "built": not any(artifact.source for artifact in lock.artifacts),
    }
    return tuple(_TABLES["words"][key] for key in LOST[kind] if not absent.get(key))


def render(
    kind: str,
    *,
    target: Target,
    lock: Lock,
    indexes: Mapping[str, str],
    toolkit: str,
    prefix: Path,
) -> str:
    """Return a format's text; ``toolkit`` is what pip installs, ``prefix`` the link to use."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - slow

    # These delimiters are in no text of the formats.
    templates = Environment(  # noqa: S701 - none is HTML; JSON, YAML and TOML quote with `json`
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<%#",
        comment_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
    )
    templates.filters["json"] = json.dumps
    return templates.get_template(f"{kind}.j2").render(
        target=target,
        lock=lock,
        indexes=indexes,
        toolkit=toolkit,
        prefix=prefix,
        native=conda_packages(lock),
        platform=PLATFORMS[target.platform],
        accelerator=ACCELERATORS[target.accelerator],
        direct=set(map(requirement_name, target.pip.requirements)),
    )


def pylock(lock: Lock, urls: Mapping[Artifact, str], indexes: Mapping[str, str]) -> str:
    """Return the pip layer as ``pylock.toml``; addresses have no credentials, or are paths."""
    document = Pylock(
        lock_version=Version("1.0"),
        environments=[Marker(PLATFORMS[lock.header["platform"]].marker)],
        requires_python=SpecifierSet(f"=={lock.header['python']}.*"),
        created_by="provision",
        packages=[
            _package(artifact, urls[artifact], indexes) for artifact in lock.artifacts
        ],
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
    name, version = canonicalize_name(artifact.name), Version(artifact.version)
    return Package(
        name=name, version=version, index=indexes.get(artifact.index), wheels=[wheel]
    )
