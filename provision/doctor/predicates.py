"""Conditions of log rules, named in ``test``, that no pattern can express."""

import re
import sys
from collections.abc import Callable

from provision.doctor.data import data
from provision.doctor.failures import any_of
from provision.doctor.matcher import Hit, Search
from provision.doctor.names import moved

_MODULE = re.compile(r"(?:[Nn]o module named '?|module ')(\w+)")


def _below_all(hit: Hit, _search: Search) -> bool:
    """Whether the index offers newer versions only, of the wanted build: for an older Python."""
    local, listed = hit[1].groupdict().get("local") or "", hit[1]["listed"]
    words = (word.partition("+")[0] for word in (*listed.split(","), hit[1]["version"]))
    *versions, wanted = (
        [int(n) for n in re.findall(r"\d+", word)[:3]] for word in words
    )
    return local in listed and wanted < min(filter(None, versions), default=wanted)


def _no_gpu_listed(hit: Hit, search: Search) -> bool:
    """Whether the last listing of sycl-ls names no GPU."""
    first = hit[0]
    while first and search.lines[first - 1].text.startswith("["):
        first -= 1
    return not any(
        found[0] >= first for found in search.find(r"^\[\w+:(gpu[:\]]|\d+\] gpu)")
    )


def _origin(hit: Hit, search: Search) -> str:
    """Return whose the module of a line is: "own" of the program, "known", or "" where unknown."""
    *above, text = (line.text for line in search.lines[: hit[0] + 1][-200:])
    tables, name = data("packages"), "".join(_MODULE.findall(text)[:1])
    installed = re.compile(data("evidence")["inside"]["library"]).search
    if "is not a package" in text or re.fullmatch(
        tables["own_modules"], name, re.IGNORECASE
    ):
        return "own"
    last = [each for each in above if any_of("frame").match(each)][-1:]
    names = {"", *tables["modules"].split(), *sys.stdlib_module_names}
    if {name, name.lower()} & names or any(map(installed, last)):
        return "known"
    place = re.compile(rf"(?:^|[\\/\s\"'(]){name}(?:[\\/]|\.py\b)").search
    return "own" if any(place(each) and not installed(each) for each in above) else ""


PREDICATES: dict[str, Callable[[Hit, Search], bool]] = {
    "below-all": _below_all,
    "moved": lambda hit, search: bool(moved(search.lines, hit)),
    "not-moved": lambda hit, search: not moved(search.lines, hit),
    "more-is-free": lambda hit, _search: (
        float(hit[1]["free"]) > float(hit[1]["wanted"])
    ),
    "no-gpu-listed": _no_gpu_listed,
    "installable": lambda hit, search: _origin(hit, search) == "known",
    "not-installable": lambda hit, search: _origin(hit, search) != "known",
    "own": lambda hit, search: _origin(hit, search) == "own",
}
