"""File names of wheels (PEP 427), with the variant label of PEP 825 where there is one.

The draft of PEP 825 of 2026-08-10 puts the label last, after a further hyphen:
``torch-2.15.0-cp312-cp312-linux_x86_64-cu130.whl``. ``packaging`` refuses such names, and so does
each installer that reads no variants.
"""

import re
from typing import NamedTuple

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

NULL = "null"  # the label of the variant without properties, which fits every machine
LABEL = r"[0-9a-z_.]+"
_BUILD = re.compile(r"[0-9][^-]*")


class WheelName(NamedTuple):
    """The parts of a wheel's file name."""

    name: str  # the distribution, normalised
    version: Version
    build: tuple[int, str] | tuple[()]
    tags: frozenset[Tag]
    variant: str  # its label; "" of a wheel that is no variant


def parse_wheel_name(filename: str) -> WheelName:
    """Return the parts of a wheel's file name; InvalidWheelFilename if it is none."""
    plain, variant = split_variant(filename)
    name, version, build, tags = parse_wheel_filename(plain)
    return WheelName(str(name), version, build, tags, variant)


def split_variant(filename: str) -> tuple[str, str]:
    """Return the name that a wheel would have without its variant label, and the label.

    InvalidWheelFilename: the label has a character that PEP 825 does not allow.
    """
    stem, is_wheel, _ = filename.rpartition(".whl")
    parts = stem.split("-")
    tags = 3
    if len(parts) > 2 and _BUILD.fullmatch(parts[2]):
        tags = 4
    if not is_wheel or len(parts) != 2 + tags + 1:
        return filename, ""
    label = parts.pop()
    if not re.fullmatch(LABEL, label):
        raise InvalidWheelFilename(
            f"the variant label {label!r} of {filename!r} may have only lowercase "
            "letters, digits, underscores and periods (PEP 825)"
        )
    return f"{'-'.join(parts)}.whl", label
