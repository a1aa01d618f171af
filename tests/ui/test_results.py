"""What a lock says of itself: its changes, and of a first lock only how much it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.commands.lock import ArtifactChange, LockResult
from provision.ui.console import Console
from provision.ui.results import show_lock

if TYPE_CHECKING:
    import pytest

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
