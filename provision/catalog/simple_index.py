"""Read a vendor's wheel index: its project pages, and the metadata of a wheel."""

import json
import re
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pypi_simple
from packaging.metadata import parse_email
from packaging.utils import InvalidWheelFilename, canonicalize_name
from packaging.version import Version
from pypi_simple import DistributionPackage, ProjectPage
from requests import Response, Session

from provision.core.errors import ToolError
from provision.core.limits import METADATA, bounded
from provision.core.network import TIMEOUT
from provision.core.wheel_name import parse_wheel_name
from provision.lockfile.tags import fits

# The requirements in a wheel's metadata, in the fields of provision.catalog.snapshot.Wheel.
CoreMetadata = dict[str, Any]
_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")


def list_files(
    session: Session, url: str | None, name: str
) -> list[DistributionPackage]:
    """Return the files of a distribution on a simple index; None is the default index.

    ToolError: the index lacks the distribution, or does not answer with a page of an index.
    """
    where = url or "the default index"
    root = url or pypi_simple.PYPI_SIMPLE_ENDPOINT
    accept = {"Accept": pypi_simple.ACCEPT_ANY}
    try:
        page = f"{root.rstrip('/')}/{canonicalize_name(name)}/"
        reply = session.get(page, headers=accept, timeout=TIMEOUT)
        # Buckets answer 403 for each name that they do not have, to whoever may not list them.
        if reply.status_code not in {403, 404}:
            reply.raise_for_status()
            return _parse_page(reply, name)
    except Exception as error:  # parsers raise errors of any type on garbage
        raise ToolError(
            f"{where} does not answer for {name}",
            evidence=str(error),
            remedy="try again later; nothing was changed",
        ) from error
    raise ToolError(
        f"{where} lists no {name}",
        evidence=f"{reply.status_code} for {reply.url}",
        cause="it was removed, or was never listed",
    )


def _parse_page(reply: Response, name: str) -> list[DistributionPackage]:
    """Return the files of a page, in either form (PEP 503, 691); links are relative to it."""
    kind = reply.headers.get("Content-Type", "none")
    text = reply.text
    if "core-metadata" not in text:  # the name that it had before PEP 714
        text = text.replace("dist-info-metadata", "core-metadata")
    if "json" in kind:
        return ProjectPage.from_json_data(json.loads(text), base_url=reply.url).packages
    if "html" not in kind:
        raise ValueError(f"its Content-Type is {kind}")
    return ProjectPage.from_html(name, text, base_url=reply.url).packages


def is_wanted(
    filename: str,
    platforms: Iterable[tuple[str, str, str | None]],
    oldest: Version | None,
) -> bool:
    """Whether a platform and Python can install a wheel that is not older than the oldest known.

    Older wheels are not added to a catalog: a vendor's index lists hundreds of them.
    """
    try:
        version = parse_wheel_name(filename).version
    except InvalidWheelFilename:
        return False
    recent = oldest is None or version >= oldest
    return recent and any(fits(filename, *platform) for platform in platforms)


def published_metadata(
    session: Session, package: DistributionPackage
) -> CoreMetadata | None:
    """Return the metadata that an index publishes beside a wheel (PEP 658).

    None where it publishes none or does not serve it: then the wheel itself has to be read.
    ToolError: it does not have the hash that the index lists.
    """
    if not package.has_metadata:
        return None
    # Checked against the listed hash where there is one: requirements decide a lock as files do.
    client = pypi_simple.PyPISimple(package.url, session=session)
    verify = bool(package.metadata_digests)
    try:
        text = client.get_package_metadata(package, verify=verify, timeout=TIMEOUT)
        return _parse(text)
    except (OSError, UnicodeDecodeError, pypi_simple.NoMetadataError):
        return None  # an index can announce metadata and refuse to serve it
    except pypi_simple.DigestMismatchError as error:
        raise ToolError(
            f"the metadata of {package.filename} does not have the hash "
            "that its index lists",
            evidence=str(error),
            remedy="report it to the vendor; the catalog is unchanged",
        ) from error


def embedded_metadata(path: Path) -> CoreMetadata:
    """Return the metadata inside a wheel; ToolError if the file is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            # Exactly one, or unpacking fails: of two, an installer might take the other. Those
            # in folders are of vendored packages, as setuptools has them.
            (member,) = filter(_METADATA.fullmatch, archive.namelist())
            with archive.open(member) as stream:
                # What it states of its size need not be true.
                pieces = iter(lambda: stream.read(1 << 20), b"")
                text = b"".join(bounded(pieces, METADATA, member))
            return _parse(text.decode("utf-8"))
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ToolError(
            f"{path.name} is not a wheel",
            evidence=str(error),
            remedy=f"remove {path} and run it again",
        ) from error


def _parse(text: str) -> CoreMetadata:
    raw, _ = parse_email(text)
    fields: CoreMetadata = {"requires_dist": tuple(raw.get("requires_dist", ()))}
    if raw.get("requires_python"):
        fields["requires_python"] = raw["requires_python"]
    return fields
