"""What `explain` prints: a block for a few targets, an overview of many, and each way once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from provision.commands.explanation import (
    Chain,
    Change,
    Explanation,
    Limit,
    LockedFile,
    NewerRelease,
)
from provision.core.errors import SpecError
from provision.ui.console import Console
from provision.ui.explain import show_explanations

if TYPE_CHECKING:
    import pytest

TORCH = Explanation(
    ("arc-linux", "max-linux"),
    "torch",
    "pip",
    "2.12",
    (LockedFile(("arc-linux", "max-linux"), "torch.whl", 2_000_000, "ab" * 32),),
    "vendor",
    assigned="envs/base/xpu.toml, line 26",
    required_by=("vision",),
    why=(
        Chain((), "torch==2.12", "envs/base/xpu.toml, line 10", "inherited"),
        Chain(("vision",), "vision>=1", "requirements.txt, line 2", "file"),
    ),
    limits=(
        Limit("envs/base/xpu.toml, line 10", "line", "==2.12"),
        Limit("vision 1", "package", None),
        Limit("c.txt, line 1", "constraint", "<3"),
        Limit("audio 1", "package", ""),
        Limit("other 2", "package", None),
    ),
    newer=(
        NewerRelease("2.14", ("why",)),
        NewerRelease("2.13", ("why",)),
        NewerRelease("2.12.1", ()),
    ),
    notes=("the lock is stale",),
    changes=(Change("provision lock arc-linux", "locks"), Change("change it", "helps")),
)
BLOCK = f"""\
torch 2.12 (pip layer): arc-linux, max-linux
! the lock is stale
  file         torch.whl, 2 MB
               sha256 {"ab" * 32}
  index        vendor and no other, by [pip.index] of envs/base/xpu.toml, line 26
  required by  torch==2.12 (envs/base/xpu.toml, line 10, inherited)
               vision>=1 (requirements.txt, line 2)
  limits       envs/base/xpu.toml, line 10: ==2.12
               c.txt, line 1 (constraint): <3
               audio 1: any version
               vision 1, other 2: not stored in the lock
  newer        2.14, 2.13: why
               2.12.1: nothing that is known here holds it back
  to change it in arc-linux; in the others likewise:
               `provision lock arc-linux`: locks
               change it: helps
"""


def shown(
    capsys: pytest.CaptureFixture[str], *results: Explanation, detailed: bool = False
) -> tuple[str, str]:
    show_explanations(results, Console("provision", detailed=detailed))
    out, err = capsys.readouterr()
    return out, err


def test_a_block_says_it_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, TORCH) == (BLOCK, "")


def test_a_way_ends_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    place = "r.txt, line 1"
    for packages, line, shown_as in (
        ((), "Torch[all]>=2", "Torch[all]>=2"),
        (("a", "some-thing"), "Some_Thing>=1", "a <- Some_Thing>=1"),
        (("ours",), "torch>=2", "ours: torch>=2"),
        (("a", "ours"), "a>=2", "a <- ours: a>=2"),
        (("ours",), "-e .", "ours: -e ."),
    ):
        why = (Chain(packages, line, place, "file"),)
        out, _ = shown(capsys, replace(TORCH, why=why))
        assert f"  required by  {shown_as} ({place})\n" in out


def test_a_variant_is_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    for label, others, row in (
        ("cu13", ("bmg", "null"), "cu13; the catalog also has bmg, null"),
        ("cu13", (), "cu13"),
        ("", ("bmg",), "none; the catalog also has bmg"),
    ):
        out, _ = shown(capsys, replace(TORCH, variant=label, variants=others))
        assert f"  variant      {row}\n  index " in out


def test_blocks_are_parted_and_errors_are_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = Explanation(("b",), "torch", error=SpecError("b has 2 errors"))
    absent = Explanation(("c",), "torch", notes=("it is excluded",))
    out, err = shown(capsys, broken, TORCH, absent)
    assert out == f"{BLOCK}\ntorch is not in the lock of c\n! it is excluded\n"
    assert err == "error: b has 2 errors\n"


def test_many_ways_are_counted_unless_all_are_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chains = [Chain((f"p{n}", "p"), "p", "r.txt, line 1", "file") for n in range(7)]
    many = replace(TORCH, why=tuple(chains))
    out, _ = shown(capsys, many)
    assert out.count(" <- p ") == 4
    assert "… and 3 more ways; -v shows them" in out
    out, _ = shown(capsys, many, detailed=True)
    assert out.count(" <- p ") == 7
    assert "more ways" not in out


def test_of_many_targets_there_is_an_overview(
    capsys: pytest.CaptureFixture[str],
) -> None:
    blocks = [
        replace(TORCH, targets=(f"t{n}",), version=f"2.{n // 2}") for n in range(6)
    ]
    absent = Explanation(("c",), "torch", notes=("it is excluded",))
    out, _ = shown(capsys, *blocks, absent)
    assert out.splitlines() == [
        "version  index   required by  targets",
        "2.0      vendor  torch==2.12  t0, t1",
        "2.1      vendor  torch==2.12  t2, t3",
        "2.2      vendor  torch==2.12  t4, t5",
        "torch is not in the lock of c",
        "! it is excluded",
        "`provision explain torch -t t0` says the rest of one target, -v of all",
    ]
    out, _ = shown(capsys, *blocks, absent, detailed=True)
    assert out.count("required by") == 6
