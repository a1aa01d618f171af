"""Which targets a person sees before a build: those that could be built here, and how many others."""

from __future__ import annotations

import pytest

from provision.commands.detect import Detection, FitVerdict, TargetFit
from provision.host.model import Host
from provision.ui.console import Console
from provision.ui.detection import show_choice, show_detection

FITS = (
    TargetFit("cpu-linux", FitVerdict.FITS, ("the CPU always works",), ""),
    TargetFit("arc-linux", FitVerdict.BLOCKED, ("no driver",), "install it"),
    TargetFit("cuda-linux", FitVerdict.NO, ("no such GPU",), ""),
    TargetFit("mps-macos", FitVerdict.NO, ("it is for macOS",), ""),
)


def found(chosen: str | None) -> Detection:
    return Detection(Host("linux-64", "6.8"), FITS, chosen, (), (), ("plug it in",))


@pytest.mark.parametrize(
    ("chosen", "detailed", "hidden"),
    [("cpu-linux", False, 2), ("cpu-linux", True, 0), (None, False, 0)],
)
def test_a_build_shows_what_could_be_built_here(
    capsys: pytest.CaptureFixture[str],
    chosen: str | None,
    *,
    detailed: bool,
    hidden: int,
) -> None:
    show_choice(found(chosen), Console("provision", detailed=detailed))
    shown = capsys.readouterr().out
    names = [fit.target for fit in FITS if f" {fit.target} " in shown]
    assert names == [fit.target for fit in FITS[: len(FITS) - hidden]]
    said = "2 targets for other machines: `provision detect` says why"
    assert (said in shown) == bool(hidden)
    assert "! plug it in" in shown


def test_detect_shows_every_target(capsys: pytest.CaptureFixture[str]) -> None:
    show_detection(found("cpu-linux"), Console("provision"))
    shown = capsys.readouterr().out
    assert all(fit.target in shown for fit in FITS)
