"""What a resolver accepts and a program cannot import is refused: in a lock, and once built."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.catalog.snapshot import Index, load_snapshot
from provision.core.errors import SpecError, ToolError
from provision.doctor.locked import (
    diagnose_built,
    diagnose_lock,
    refuse_built,
    refuse_lock,
)
from provision.lockfile.pip import Artifact, Lock, read_lock
from provision.spec.model import ForbiddenDistribution, Inputs, Pip, Target
from provision.spec.reader import load_target
from tests.checkout import LOCKABLE, PROJECT

if TYPE_CHECKING:
    from tests.doctor.conftest import Env

INDEX = {
    "pytorch-cpu": ("torch",),
    "pytorch-xpu": ("torch", "torchvision", "pytorch-triton-xpu"),
    "intel-xpu": ("torch", "intel-extension-for-pytorch"),
    "both-cpu": ("torch", "torchvision"),
    "vision-cpu": ("torchvision",),
}


def target(
    index: str | None, platform: str = "linux-64", accelerator: str = "cpu"
) -> Target:
    return Target(
        name="thing",
        summary="a target",
        accelerator=accelerator,
        platform=platform,
        python="3.11",
        pip=Pip(
            cutoff=dt.date(2026, 11, 1),
            requirements=("torch",),
            index={index: INDEX[index]} if index else {},
        ),
    )


def locked(of: Target, *pins: str) -> Lock:
    artifacts = []
    for pin in pins:
        name, version = pin.split("==")
        wheel = f"{name.replace('-', '_')}-{version}-cp311-cp311-linux_x86_64.whl"
        index = of.pip.index_of(name)
        artifacts.append(
            Artifact(name, version, wheel, "0" * 64, 1, index, ("the spec",))
        )
    header = {"python": "3.11", "platform": of.platform}
    return Lock(Path("lockfiles") / of.name, header, tuple(artifacts), None)


REFUSED = {
    "the companion of another index": (
        target("pytorch-cpu"),
        ("torch==2.13.0+cpu", "torchvision==0.28.0"),
        "torch-companion-mismatch",
        'write `pytorch-cpu = ["torch", "torchvision"]` into [pip.index] of envs/thing.toml',
    ),
    "torch of the default index and a companion of a vendor's": (
        target("vision-cpu"),
        ("torch==2.13.0", "torchvision==0.28.0+cpu"),
        "torch-companion-mismatch",
        'write `vision-cpu = ["torchvision", "torch"]` into [pip.index] of envs/thing.toml',
    ),
    "an old torchaudio of another index": (
        target("pytorch-cpu"),
        ("torch==2.8.0+cpu", "torchaudio==2.8.0"),
        "torch-companion-mismatch",
        '`pytorch-cpu = ["torch", "torchaudio"]`',
    ),
    "the last torchaudio with an older torch": (
        target("both-cpu"),
        ("torch==2.10.0+cpu", "torchaudio==2.11.0"),
        "torch-companion-mismatch",
        '`both-cpu = ["torch", "torchvision", "torchaudio"]`',
    ),
    "a companion of another release": (
        target("both-cpu"),
        ("torch==2.13.0+cpu", "torchvision==0.27.1+cpu"),
        "torch-companion-mismatch",
        "`provision add thing 'torchvision==0.28.*' --only-here`",
    ),
    "a companion of another build": (
        target("both-cpu"),
        ("torch==2.13.0+cpu", "torchvision==0.28.0+cu130"),
        "torch-companion-mismatch",
        "",
    ),
    "an extension for another torch": (
        target(None),
        ("torch==2.9.1", "flash-attn==2.8.3+cu12torch2.8cxx11abitrue"),
        "compiled-extension-abi-mismatch",
        "",
    ),
    "IPEX for another torch": (
        target("intel-xpu", accelerator="xpu"),
        ("torch==2.9.1+xpu", "intel-extension-for-pytorch==2.8.10+xpu"),
        "ipex-torch-version-mismatch",
        '`exclude = ["intel-extension-for-pytorch"]` into [pip] of envs/thing.toml',
    ),
    "two packages of triton": (
        target("pytorch-xpu", accelerator="xpu"),
        ("torch==2.9.1+xpu", "pytorch-triton-xpu==3.5.0", "triton==3.5.0"),
        "triton-missing-or-incompatible",
        (
            'Write `exclude = ["triton"]` into [pip] of envs/thing.toml, '
            "then `provision lock thing`"
        ),
    ),
    "what the spec forbids": (
        target(None).with_pip(
            forbid=(ForbiddenDistribution(name="triton", reason="no use here"),)
        ),
        ("torch==2.13.0+cpu", "triton==3.7.1"),
        "forbidden-package",
        '`exclude = ["triton"]`',
    ),
    "triton-windows of another release": (
        target(None, platform="win-64", accelerator="cuda"),
        ("torch==2.9.1", "triton-windows==3.4.0"),
        "triton-missing-or-incompatible",
        "",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_lock_is_refused_with_the_line_to_write(name: str) -> None:
    of, pins, code, remedy = REFUSED[name]
    with pytest.raises(SpecError) as error:
        refuse_lock(of, locked(of, *pins), {}, Path())
    assert error.value.evidence.startswith(f"{code}: ")
    assert pins[-1].replace("==", " ") in error.value.evidence
    assert remedy in error.value.remedy
    assert error.value.cause
    assert " is installed" not in error.value.evidence


def test_who_brings_what_is_in_the_way_is_told_with_the_line_that_asks_for_it(
    tmp_path: Path,
) -> None:
    places = {"liger==0.8.0": "needs.txt, line 4"}
    of = target("pytorch-xpu", accelerator="xpu").with_pip(
        requirements=("torch", "liger==0.8.0"), exclude=("flash-attn",)
    )
    of = of.with_inputs(Inputs(places=places))
    pins = ("torch==2.9.1+xpu", "pytorch-triton-xpu==3.5.0", "triton==3.5.0")
    lock = locked(of, *pins, "kernels==1.0", "liger==0.8.0")
    asked = {"triton": ("kernels",), "kernels": ("liger",)}
    artifacts = [
        dataclasses.replace(artifact, via=asked.get(artifact.name, ("the spec",)))
        for artifact in lock.artifacts
    ]
    lock = dataclasses.replace(lock, artifacts=tuple(artifacts))
    with pytest.raises(SpecError) as error:
        refuse_lock(of, lock, {}, tmp_path)
    assert (
        "triton 3.5.0 is locked, for kernels, for liger; needs.txt, line 4 requires liger"
        in error.value.evidence
    )
    assert '`exclude = ["flash-attn", "triton"]`' in error.value.remedy


def test_what_is_in_the_way_is_left_out_by_one_line() -> None:
    forbid = (ForbiddenDistribution(name="triton", reason="it is not for this GPU"),)
    of = target("pytorch-xpu", accelerator="xpu").with_pip(forbid=forbid)
    pins = ("torch==2.9.1+xpu", "pytorch-triton-xpu==3.5.0", "triton==3.5.0")
    with pytest.raises(SpecError) as error:
        refuse_lock(of, locked(of, *pins, "xformers==0.0.33"), {}, Path())
    assert error.value.remedy == (
        'Write `exclude = ["triton", "xformers"]` into [pip] of envs/thing.toml, then '
        "`provision lock thing`"
    )


ACCEPTED = {
    "one index": (target("both-cpu"), ("torch==2.13.0+cpu", "torchvision==0.28.0+cpu")),
    "the default index": (
        target(None),
        ("torch==2.13.0", "torchvision==0.28.0", "triton==3.7.1"),
    ),
    # One build for all accelerators.
    "a new torchaudio": (
        target("pytorch-cpu"),
        ("torch==2.9.1+cpu", "torchaudio==2.9.1"),
    ),
    # It has the stable ABI of torch 2.11, and there is no newer torchaudio.
    "the last torchaudio": (
        target("both-cpu"),
        ("torch==2.13.0+cpu", "torchaudio==2.11.0"),
    ),
    "no torch": (target(None), ("torchvision==0.28.0", "numpy==2.4.6")),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_works_together_is_accepted(name: str) -> None:
    of, pins = ACCEPTED[name]
    assert diagnose_lock(of, locked(of, *pins), {}) == []


def test_requirements_of_the_catalog_are_judged() -> None:
    of = target("pytorch-xpu", accelerator="xpu")
    lock = locked(of, "torch==2.9.1+xpu", "pytorch-triton-xpu==3.4.0")
    needs = {
        lock.artifacts[0].filename: (
            'pytorch-triton-xpu==3.5.0; platform_system == "Linux"',
            'triton==3.5.0; platform_system == "Windows"',
        )
    }
    (found,) = diagnose_lock(of, lock, needs)
    assert found.code == "triton-missing-or-incompatible"
    assert diagnose_lock(of, lock, {}) == []
    alone = locked(of, "torch==2.9.1+xpu")
    assert diagnose_lock(of, alone, needs)
    without = of.with_pip(exclude=("pytorch-triton-xpu",))
    assert diagnose_lock(without, alone, needs) == []


@pytest.mark.parametrize("name", LOCKABLE)
def test_no_committed_lock_is_refused(name: str) -> None:
    of = load_target(PROJECT.specs, name)
    catalog = PROJECT.catalog
    wheels = [
        wheel
        for index in of.pip.index
        for wheel in load_snapshot(catalog, index, Index).files
    ]
    requires = {wheel.filename: wheel.requires_dist or () for wheel in wheels}
    assert diagnose_lock(of, read_lock(PROJECT.lock(name)), requires) == []


def test_what_was_built_is_judged_by_its_metadata(env: Env) -> None:
    of = target("both-cpu")
    env.add("torch", "2.13.0+cpu")
    assert diagnose_built(env.prefix, of) == []
    env.add("torchvision", "0.28.0", "torch==2.12.1")
    with pytest.raises(ToolError, match="do not work together") as error:
        refuse_built(env.prefix, of)
    assert "torchvision 0.28.0 is for torch 2.12.1" in error.value.evidence
    assert "envs/thing.toml" in error.value.remedy
    assert "pip" not in error.value.remedy
