"""The view of a search for the first bad release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.core.text import plural, size
from provision.ui.results import show_changes

if TYPE_CHECKING:  # a verb loads what makes its own result
    from provision.commands.bisect_result import Bisection, Release
    from provision.ui.console import Console


def plan_lines(result: Bisection) -> list[str]:
    """Return what a search would build, in lines."""
    first, last = result.releases[0], result.releases[-1]
    count = plural(len(result.releases), "release")
    offered = f"{count} of {result.package} in {result.offered}"
    lines = [f"{result.target}: {offered}, from {first.version} to {last.version}"]
    for release in result.releases:
        lines.append(f"  {release.version}: {_cost(release)}")
    lines.append(
        f"at most {plural(result.builds, 'build')} and {size(result.download)}"
        f"{_unsized(result.unsized)} to download, more where a release gives no verdict; less where "
        "uv's cache has files"
    )
    return lines


def _cost(release: Release) -> str:
    if release.lock is None:
        return f"cannot be locked: {release.why}"
    if release.built:
        return "is built"
    unsized = _unsized(release.unsized)
    return f"{size(release.download)}{unsized} to download, about {size(release.disk)} on disk"


def _unsized(files: int) -> str:
    if not files:
        return ""
    return f" and {plural(files, 'file')} of unknown size"


def show_bisection(result: Bisection, console: Console) -> None:
    """Print the plan, or what was tried and the answer."""
    if result.state == "plan":
        for line in plan_lines(result):
            console.line(line)
        _show_drivers(result, console)
        return
    rows = []
    for release in result.releases:
        name = f"{result.package} {release.version}"
        rows.append((name, release.outcome, release.why))
    console.table(("release", "is", "why"), rows, spare=("why",))
    console.verdict(_answer(result), good=result.state == "found")
    if result.changes:
        console.line(f"from {result.package} {result.good} to {result.bad}:")
        show_changes(result.changes, console)
    if result.remedy:
        console.line(
            "Next, until a release without the failure is there, in the spec, then `provision lock "
            f"{result.target}`:"
        )
        for line in result.remedy:
            console.command(line)


def _answer(result: Bisection) -> str:
    package, first, last = result.package, result.releases[0], result.releases[-1]
    if result.state == "found":
        return (
            f"{package} {result.bad} is the first bad release; {result.good} is good "
            f"(of the releases in {result.offered})"
        )
    if result.state == "range":
        names = ", ".join(result.suspects)
        return f"the first bad release of {package} is one of {names}: not all could be tried"
    if result.state == "unstable":
        release = next(each for each in result.releases if "; run again, " in each.why)
        return f"{package} {release.version} did not end twice in the same way: {release.why}"
    if result.state == "good":
        return f"{package} {last.version} is good, so there is nothing to search: {last.why}"
    if result.state == "bad":
        oldest = next(each for each in result.releases if each.outcome == "bad")
        return (
            f"{package} {oldest.version} is bad, too: name an older release with --good, or"
            " another package"
        )
    end = last if last.outcome == "skipped" else first
    return f"there is no verdict on {package} {end.version}: {end.why}"


def _show_drivers(result: Bisection, console: Console) -> None:
    if not result.drivers:
        return
    console.line(
        "the driver is no package: an image has one of these by `drivers` in [docker] of the spec, "
        "then `provision docker`"
    )
    for driver in result.drivers:
        cost = size(driver.download)
        console.line(f"  {driver.name}: driver {driver.version}, {cost}")
