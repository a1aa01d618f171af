"""The family of an Intel GPU, by the device list that ``expect.json`` has."""

import re
from collections.abc import Mapping

DeviceList = Mapping[str, Mapping[str, list[str]]]


def families(
    known: DeviceList, name: str, device_id: str | None = None
) -> frozenset[str]:
    """Return the families that a device can be of; empty for a device that is not in the list.

    The id decides where there is one: "Arc Graphics" is sold in three families.

    Args:
        known: Family -> ``ids`` and ``names``, see `smoke.engine.expect.Expect`.
        name: As torch reports it. Drivers older than a device give its id there:
            ``Intel(R) Graphics [0x7d55]``.
        device_id: Four hexadecimal digits, where torch reports them.
    """
    in_name = re.search(r"\[0x([0-9a-f]{4})\]", name, re.IGNORECASE)
    if in_name and not device_id:
        device_id = in_name[1].lower()
    short = essence(name)
    by_id, by_name = set(), set()
    for family, entry in known.items():
        if device_id in entry["ids"]:
            by_id.add(family)
        for full_name in entry["names"]:
            if short and short in map(essence, _parts(full_name)):
                by_name.add(family)
    return frozenset(by_id or by_name)


def _parts(name: str) -> list[str]:
    """Return both names of ``Arc Pro A40/A50``, which one id stands for."""
    head, space, models = name.rpartition(" ")
    return [head + space + model for model in models.split("/")]


def essence(name: str) -> str:
    """Return ``arc 140v`` for ``Intel(R) Arc(TM) 140V GPU (16GB)``: what all spellings share."""
    words = re.sub(r"\(.*?\)|\[.*?\]", " ", name.lower()).split()
    words = [word for word in words if word not in {"intel", "gpu", "graphics"}]
    return " ".join(words)
