"""Conditions of log rules, named in ``test``, that no pattern can express."""

import re

from provision.doctor.matcher import Hit, Search


def _below_all(hit: Hit, _search: Search) -> bool:
    """Whether the index offers newer versions only, of the wanted build: for an older Python."""
    local, listed = hit[1].groupdict().get("local") or "", hit[1]["listed"]
    words = [re.findall(r"\d+", word.partition("+")[0])[:3] for word in listed.split(",")]
    versions = [[int(part) for part in word] for word in words if word]
    wanted = [int(part) for part in re.findall(r"\d+", hit[1]["version"])[:3]]
    return local in listed and bool(versions) and wanted < min(versions)


def _no_gpu_listed(hit: Hit, search: Search) -> bool:
    """Whether the last listing of sycl-ls names no GPU."""
    first = hit[0]
    while first and search.lines[first - 1].text.startswith("["):
        first -= 1
    return not any(found[0] >= first for found in search.find(r"^\[\w+:(gpu[:\]]|\d+\] gpu)"))


PREDICATES = {
    "below-all": _below_all,
    "more-is-free": lambda hit, _search: float(hit[1]["free"]) > float(hit[1]["wanted"]),
    "no-gpu-listed": _no_gpu_listed,
}
