"""The expectation: read whole, or refused with every fault."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from smoke.engine import expect

if TYPE_CHECKING:
    from pathlib import Path

GOOD: dict[str, Any] = {
    "schema": 4,
    "target": "max-linux",
    "accelerator": "xpu",
    "python": "3.11",
    "packages": {"torch": "2.13.0+xpu"},
    "requirements": ["torch"],
    "forbid": [{"name": "triton", "reason": "no use here"}],
    "driver": ">=1.6.33578",
    "families": ["pvc"],
    "intel_devices": {"pvc": {"ids": ["0bd5"], "names": ["Data Center GPU Max 1550"]}},
    "fused_ops": ["torch_ipex::mul_add"],
    "rotary": ["half", "ipex-llm"],
    "speedup_over_cpu": 2,
    "environment": {"SYCL_CACHE_PERSISTENT": "1"},
}


JUDGED = {
    "verdict": "too-old",
    "reason": "driver 1 is not >=2",
    "evidence": ["driver 1"],
}


def read(folder: Path, data: object) -> expect.Expect:
    path = folder / "expect.json"
    path.write_text(
        data if isinstance(data, str) else json.dumps(data), encoding="utf-8"
    )
    return expect.read(path)


def test_a_good_one_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD)
    assert found.on_gpu
    assert found.locks("torch")
    assert not found.locks_cuda
    assert found.forbid == {"triton": "no use here"}
    assert found.families == ("pvc",)


# One of each kind of shape.
WRONG: dict[str, list[object]] = {
    "accelerator": ["tpu", ["cpu"]],
    "target": [""],
    "packages": [{"torch": 2}],
    "requirements": ["torch"],
    "forbid": [["triton"], [{"name": "triton"}]],
    "driver": ["580"],
    "intel_devices": [["pvc"], {"pvc": {"ids": ["0bd5"]}}],
    "rotary": [["sideways"]],
    "speedup_over_cpu": [0, True],
    "driver_verdict": ["new-enough", JUDGED | {"verdict": "older"}],
    "foreign": ["yes", 1, None],
}


@pytest.mark.parametrize("key", WRONG)
def test_a_wrong_value_is_named(tmp_path: Path, key: str) -> None:
    for value in WRONG[key]:
        with pytest.raises(expect.BadExpect) as caught:
            read(tmp_path, GOOD | {key: value})
        (fault,) = caught.value.faults
        assert fault.startswith(f"{key}: ")


def test_all_faults_are_told_together(tmp_path: Path) -> None:
    data = {key: value for key, value in GOOD.items() if key != "python"}
    with pytest.raises(expect.BadExpect) as caught:
        read(tmp_path, data | {"driver": "580", "colour": "red"})
    assert [fault.partition(":")[0] for fault in caught.value.faults] == [
        "colour",
        "python",
        "driver",
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1}', "{"])
def test_what_is_no_expectation_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(expect.BadExpect, match=r"expect\.json"):
        read(tmp_path, text)
