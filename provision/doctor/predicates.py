"""Conditions of log rules, named in ``test``, that a pattern within one line cannot express."""

import re
from collections.abc import Callable

from provision.doctor.failures import importing, library_part
from provision.doctor.matcher import Hit, Search


def _below_all(hit: Hit, _search: Search) -> bool:
    """Whether the index offers newer versions only: older ones have wheels for an older Python.

    False if it offers no build of the wanted kind, such as ``+xpu``: then it is the wrong index.
    """
    local, listed = hit[1].groupdict().get("local") or "", hit[1]["listed"]
    words = [re.findall(r"\d+", word.partition("+")[0])[:3] for word in listed.split(",")]
    versions = [[int(part) for part in word] for word in words if word]
    wanted = [int(part) for part in re.findall(r"\d+", hit[1]["version"])[:3]]
    return local in listed and bool(versions) and wanted < min(versions)


def _other_python(hit: Hit, search: Search) -> bool:
    """Whether NumPy's compiled modules are for another Python than the one that runs."""
    built = search.find(r"_umath\.c(?:python-|p)3(?P<minor>\d+)\b")
    built += search.find(r"/lib/python3\.(?P<minor>\d+)/site-packages/numpy")
    return any(other[1]["minor"] != hit[1]["minor"] for other in built)


def _satisfied_elsewhere(hit: Hit, search: Search) -> bool:
    """Whether an installer reported the missing module as already installed."""
    found = search.find(r"Requirement already satisfied: (?P<name>[\w.-]+)")
    return any(other[1]["name"].replace("-", "_") == hit[1]["module"] for other in found)


def _other_soname(hit: Hit, search: Search) -> bool:
    """Whether the log names another version of the missing library."""
    name = hit[1]["lib"]
    base = re.escape(name.rpartition(".")[0])
    return any(other[1][0] != name for other in search.find(rf"{base}\.\d+"))


def _no_gpu_listed(hit: Hit, search: Search) -> bool:
    """Whether the last listing of sycl-ls names no GPU."""
    first = hit[0]
    while first and search.lines[first - 1].text.startswith("["):
        first -= 1
    return not any(found[0] >= first for found in search.find(r"^\[\w+:(gpu[:\]]|\d+\] gpu)"))


def _flag_given_as_false(hit: Hit, search: Search) -> bool:
    """Whether a flag that was given as False is printed as True."""
    flag = hit[1]["flag"].replace("-", "_")
    return bool(search.find(rf"\b{re.escape(flag)}['\"]?\s*[=:]\s*True\b"))


def _answered(pattern: str) -> Callable[[Hit, Search], bool]:
    """Return the condition that the next line, the result in an interactive session, matches."""
    answer = re.compile(pattern, re.IGNORECASE)

    def condition(hit: Hit, search: Search) -> bool:
        return any(answer.search(line.text) for line in search.lines[hit[0] + 1 :][:1])

    return condition


PREDICATES: dict[str, Callable[[Hit, Search], bool]] = {
    "answered-no": _answered(r"^\s*(False|0)\s*$"),
    "answered-yes": _answered(
        r"^\s*(True|[1-9])\s*$|:gpu|^(?!\[opencl:(cpu|acc)).*Intel\(R\)|NVIDIA"
    ),
    "answered-igpu": _answered(r"\b(UHD|Iris|HD) ?(\(R\))?.*Graphics"),
    "below-all": _below_all,
    "in-library": lambda hit, search: bool(library_part(search.lines[: hit[0]])),
    "more-is-free": lambda hit, _search: float(hit[1]["free"]) > float(hit[1]["wanted"]),
    "no-gpu-listed": _no_gpu_listed,
    # Whether modules come from more than one site-packages folder.
    "other-prefix": lambda hit, search: any(
        other[1]["prefix"] != hit[1]["prefix"] for other in search.find(hit[1].re.pattern)
    ),
    "other-soname": _other_soname,
    "other-python": _other_python,
    "while-importing": lambda hit, search: importing(search.lines[: hit[0]]),
    "satisfied-elsewhere": _satisfied_elsewhere,
    "flag-given-as-false": _flag_given_as_false,
}
