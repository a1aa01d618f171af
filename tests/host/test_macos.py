"""Macs: what is asked of macOS, and what its answers, or none, make of a host."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.catalog.devices import read_devices
from provision.core.errors import ToolError
from provision.core.process import Completed
from provision.host import macos
from provision.host.model import host_layers
from provision.host.probe import read_host

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parents[2]
DEVICES = read_devices(ROOT / "envs" / "catalog")
MACS = json.loads(
    (ROOT / "tests/commands/detect/macs.json").read_text(encoding="utf-8")
)


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let this process run on a Mac whose programs print this."""

    def be(profiler: str, *, machine: str = "arm64", translated: str = "0") -> None:
        def run(argv: Sequence[str], timeout: float = 0.0) -> Completed:
            printed = {
                "/usr/sbin/system_profiler": profiler,
                "/usr/sbin/sysctl": translated
                if argv[-1] == "sysctl.proc_translated"
                else "",
            }
            assert timeout >= 0
            if not (text := printed[argv[0]]):
                raise ToolError(f"could not start `{argv[0]}`")
            return Completed(tuple(argv), 0, text, "", 0.1)

        monkeypatch.setattr(macos, "run", run)
        monkeypatch.setattr(sys, "platform", "darwin")
        monkeypatch.setattr(platform, "machine", lambda: machine)

    return be


def test_a_live_mac_is_asked(mac: Callable[..., None]) -> None:
    mac(json.dumps(MACS["m2-max"]))
    host = read_host(
        DEVICES, environ={"PYTORCH_MPS_HIGH_WATERMARK_RATIO": "0.0", "HOME": "/"}
    )
    assert (host.platform, host.kernel, host.firmware) == (
        "osx-arm64",
        "24.6.0",
        "11881.140.96",
    )
    (gpu,) = host.gpus
    assert (gpu.vendor, gpu.name, gpu.integrated) == ("apple", "Apple M2 Max", True)
    assert host.variables == {"PYTORCH_MPS_HIGH_WATERMARK_RATIO": "0.0"}
    # An update of macOS is one of the driver: what `--if-driver-changed` looks at.
    assert host_layers(host)["driver Metal"] == "15.7.9"


def test_a_translated_python_is_told_apart_from_an_intel_mac(
    mac: Callable[..., None],
) -> None:
    mac(json.dumps(MACS["m1"]), machine="x86_64", translated="1")
    assert "Rosetta" in read_host(DEVICES, environ={}).elsewhere
    mac(json.dumps(MACS["intel-with-amd"]), machine="x86_64")
    host = read_host(DEVICES, environ={})
    assert "2.2.2" in host.elsewhere
    assert [(gpu.vendor, gpu.device_id, gpu.driver) for gpu in host.gpus] == [
        ("intel", "3e9b", None),
        ("amd", "7340", None),
    ]


@pytest.mark.parametrize("printed", ["", "Segmentation fault", "{"])
def test_without_an_answer_nothing_is_claimed(
    mac: Callable[..., None], printed: str
) -> None:
    mac(printed)
    host = read_host(DEVICES, environ={})
    assert (host.gpus, host.kernel, host.surroundings) == ((), "", ())
