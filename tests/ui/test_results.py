"""What a lock says of itself: its changes, and of a first lock only how much it holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.cli.main import main
from provision.commands.export import Export
from provision.commands.lock import ArtifactChange, LockResult
from provision.core.project import shipped
from provision.spec.reader import load_targets, target_names
from provision.ui.console import Console
from provision.ui.results import show_lock, show_page
from tests.small import TARGET

if TYPE_CHECKING:
    from tests.lab import Lab

NEW = tuple(ArtifactChange(f"p{n}", None, "1.0", ("the spec",)) for n in range(3))


def test_a_first_lock_lists_its_packages_only_if_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = LockResult("tiny", 3, NEW, differs=True)
    show_lock(first, Console("provision"))
    assert capsys.readouterr().out == "tiny: 3 packages, locked for the first time\n"
    show_lock(first, Console("provision", detailed=True))
    assert len(capsys.readouterr().out.splitlines()) == 4
    more = LockResult("tiny", 5, NEW, differs=True)  # two were there before
    show_lock(more, Console("provision"))
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_how_many_reports_a_page_shows_is_no_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = Export("tiny", "html", Path("tiny.html"), "", (), ("it shows 2 reports",))
    show_page(page, Console("provision"))
    assert capsys.readouterr() == ("tiny.html: it shows 2 reports\n", "")


def test_a_search_for_a_state_finds_no_summary() -> None:
    """`provision targets | grep unproven` finds the rows of that state only."""
    specs = shipped().specs
    states = r"(un)?proven|skipped|fresh|stale|passed|failed|unreadable|none|no"
    for target in load_targets(specs, target_names(specs))[0]:
        assert not re.search(rf"\b({states})\b", target.summary), target.name


@pytest.mark.machine
def test_a_rollback_says_that_it_ran_no_check(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    ready.relock(ready.wheel("alpha", "2.0"), ready.wheels[1])
    ready.build()
    capsys.readouterr()
    assert main(["rollback", TARGET, "--project", str(ready.project.root)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("no check was run, as no file differs from that build; `")
    assert last.endswith(f" smoke {TARGET}` runs them")
