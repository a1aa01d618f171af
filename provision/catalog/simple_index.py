"""Read a vendor's wheel index: what it lists, and the metadata of a wheel."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.metadata import parse_email
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from provision.core.errors import ToolError
from provision.core.network import TIMEOUT
from provision.lockfile.tags import best_wheel

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from packaging.version import Version
    from pypi_simple import DistributionPackage
    from requests import Session


@dataclass(frozen=True, slots=True)
class CoreMetadata:
    """What a wheel's metadata asks for.

    Attributes:
        requires_dist: Its Requires-Dist lines.
        requires_python: Its Requires-Python, if any.
    """

    requires_dist: tuple[str, ...]
    requires_python: str | None


def list_wheels(session: Session, url: str, name: str) -> list[DistributionPackage]:
    """Return the wheels that an index lists for a distribution, yanked ones left out.

    Raises:
        ToolError: The index has no such distribution, refuses, or does not answer properly.
    """
    import pypi_simple  # noqa: PLC0415
    import requests  # noqa: PLC0415

    client = pypi_simple.PyPISimple(url, session=session)
    try:
        page = client.get_project_page(name, timeout=TIMEOUT)
    except pypi_simple.NoSuchProjectError as error:
        raise ToolError(
            f"{url} lists no {name}", evidence=str(error), cause="it was removed, or never there"
        ) from error
    except (
        requests.RequestException,
        pypi_simple.UnsupportedContentTypeError,
        pypi_simple.UnsupportedRepoVersionError,
        ValueError,
    ) as error:
        raise ToolError(
            f"{url} does not answer for {name}",
            evidence=str(error),
            remedy="try again later; the catalog keeps what it has",
        ) from error
    return [p for p in page.packages if p.package_type == "wheel" and not p.is_yanked]


def is_wanted(filename: str, platforms: Iterable[tuple[str, str]], oldest: Version | None) -> bool:
    """Whether some target could install a wheel, and it is not older than what is known.

    Args:
        filename: Of the wheel.
        platforms: Platform and Python of each target.
        oldest: The oldest version in the catalog.
    """
    try:
        version = parse_wheel_filename(filename)[1]
    except InvalidWheelFilename:
        return False
    recent = oldest is None or version >= oldest
    return recent and any(best_wheel([filename], *platform) for platform in platforms)


def published_metadata(session: Session, package: DistributionPackage) -> CoreMetadata | None:
    """Return what the metadata that an index publishes beside a wheel (PEP 658) asks for.

    None where it publishes none, or where it cannot be had: then the wheel itself must tell.
    """
    import pypi_simple  # noqa: PLC0415
    import requests  # noqa: PLC0415

    if not package.has_metadata:
        return None
    client = pypi_simple.PyPISimple(package.url, session=session)
    try:
        return _needs(
            client.get_package_metadata(
                package, verify=bool(package.metadata_digests), timeout=TIMEOUT
            )
        )
    except (requests.RequestException, pypi_simple.NoMetadataError):
        return None
    except pypi_simple.DigestMismatchError as error:
        raise ToolError(
            f"the metadata of {package.filename} is not what its index promises",
            evidence=str(error),
            remedy="tell the vendor; the catalog keeps what it has",
        ) from error


def embedded_metadata(path: Path) -> CoreMetadata:
    """Return what the metadata inside a wheel asks for.

    Raises:
        ToolError: The file is no wheel.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            (member,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
            return _needs(archive.read(member).decode("utf-8"))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ToolError(
            f"{path.name} is no wheel",
            evidence=str(error),
            remedy=f"remove {path} and run it again",
        ) from error


def _needs(text: str) -> CoreMetadata:
    raw, _ = parse_email(text)
    return CoreMetadata(tuple(raw.get("requires_dist", ())), raw.get("requires_python"))
