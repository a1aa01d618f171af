"""Parts of a spec read alone: equal to the validated spec, and as strict in their own keys."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from provision.core.errors import SpecError, UsageError
from provision.spec.parts import hardware_of
from provision.spec.reader import (
    load_spec,
    load_target,
    read_forbidden,
    read_hardware,
    target_names,
)

SPECS = Path(__file__).parents[2] / "envs"
WHOLE = (SPECS / "ipex-llm-linux.toml").read_text(encoding="utf-8")


def test_hardware_equals_that_of_the_validated_specs() -> None:
    whole = [load_spec(SPECS / f"{name}.toml") for name in target_names(SPECS)]
    assert read_hardware(SPECS) == [
        hardware_of(target.model_dump()) for target in whole
    ]
    assert [(target.accelerator, target.hardware.families) for target in whole] == [
        (hardware.accelerator, hardware.families) for hardware in read_hardware(SPECS)
    ]


@pytest.mark.parametrize("target", target_names(SPECS))
def test_forbidden_distributions_equal_those_of_the_validated_spec(target: str) -> None:
    assert read_forbidden(SPECS, target) == load_target(SPECS, target).pip.forbid


FAULTS = {
    'accelerator = "cpu"': ('accelerator = "gpu"', "accelerator:"),
    'platform = "linux-64"': ('platform = "linux"', "platform:"),
    "[pip]": ('[hardware]\ndriver = "580 or newer"\n[pip]', "hardware.driver:"),
    'python = "3.11"\n': (
        'python = "3.11"\nhardware.families = "dg2"\n',
        "hardware.families:",
    ),
    'python = "3.11"': ('python = "3.11"\nhardware = 5', "hardware:"),
    'summary = "': (
        'hardware.family = ["dg2"]\nsummary = "',
        "did you mean `families`?",
    ),
}


@pytest.mark.parametrize("before", FAULTS)
def test_a_fault_of_the_hardware_is_reported_in_full(
    before: str, tmp_path: Path
) -> None:
    after, place = FAULTS[before]
    text = (SPECS / "ipex-llm-cpu-linux.toml").read_text(encoding="utf-8")
    (tmp_path / "bad.toml").write_text(text.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(SpecError, match="has 1 fault") as caught:
        read_hardware(tmp_path)
    assert place in caught.value.evidence


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ('"triton"', "pip.forbid[0]: Input should be a table"),
        ('{ name = "triton" }', "pip.forbid[0].reason: is missing"),
        ('{ name = "triton", reason = "" }', "pip.forbid[0]: `reason` is empty"),
        ('{ name = 3, reason = "x" }', "pip.forbid[0].name:"),
        (
            '{ name = "triton", reason = "x", raeson = "y" }',
            "pip.forbid[0].raeson: unknown key, did you mean `reason`?",
        ),
        (
            '{ name = "triton", reason = "x", zzz = "y" }',
            "pip.forbid[0].zzz: unknown key; allowed are name, reason",
        ),
    ],
)
def test_a_fault_of_a_forbidden_distribution_is_reported_with_its_place(
    tmp_path: Path, entry: str, fault: str
) -> None:
    start, _, rest = WHOLE.partition("forbid = [")
    (tmp_path / "mine.toml").write_text(
        f"{start}forbid = [{entry},{rest}", encoding="utf-8"
    )
    with pytest.raises(SpecError, match="has 1 fault") as caught:
        read_forbidden(tmp_path, "mine")
    assert caught.value.evidence.startswith(fault)


def test_an_unknown_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no target 'none'"):
        read_forbidden(tmp_path, "none")


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("what is this")
    with pytest.raises(SpecError, match=r"cannot read .*bad\.toml"):
        read_hardware(tmp_path)


def test_a_fault_in_another_part_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text(
        'accelerator = "cpu"\nplatform = "linux-64"\nodd = 1\n'
    )
    assert [found.name for found in read_hardware(tmp_path)] == ["ours"]


@pytest.mark.machine
@pytest.mark.parametrize(
    "call", ["read_hardware(specs)", "read_forbidden(specs, 'cpu-linux')"]
)
def test_reading_a_part_does_not_load_pydantic(call: str) -> None:
    script = f"import pathlib, sys; specs = pathlib.Path({str(SPECS)!r}); "
    script += f"from provision.spec.reader import *; {call}; print(*sys.modules)"
    command = [sys.executable, "-I", "-c", script]
    loaded = subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.split()
    assert "provision.spec.reader" in loaded
    assert "pydantic" not in loaded
