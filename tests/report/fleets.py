"""Fleets of verdicts, each from a fixed seed: what many nodes with the same card would write."""

from __future__ import annotations

import json
import math
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import datetime as dt
    from pathlib import Path

CHECKS = 25  # of the quick suite, with two numbers each
LOCK = "79f30a889753b18cf3ff3bf39ccae4eb6c7d39a830b0c354248f6f4a8a055e17"


def verdict(node: str, chance: Random, at: dt.datetime, **parts: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a good verdict of a node."""
    stack = {
        "platform": "linux-64",
        "kernel": "6.1.0-41",
        "driver nvidia": "580.95.05",
        "CUDA driver library": "580.95.05",
    }
    gpu = f"GPU 0000:{chance.randrange(16, 99)}:00.0"
    return {
        "schema": 2,
        "node": node,
        "target": "cuda-linux",
        "suite": "quick",
        "verdict": "keep",
        "code": "",
        "reason": "",
        "remedy": "",
        "time": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "seconds": 8.0,
        "provision": "0.1.0",
        "lock": LOCK,
        "torch": "2.13.0+cu130",
        "python": "3.11.9",
        "device": "NVIDIA H100 80GB HBM3",
        "devices": 8,
        "stack": stack | {gpu: "NVIDIA H100 80GB HBM3"},
        "counts": {"required": 27, "passed": 27, "failed": 0, "not_run": 0},
        "numbers": _numbers(chance),
    } | parts


def _numbers(chance: Random) -> dict[str, dict[str, dict[str, Any]]]:
    """Return what checks measured: rates vary by 2 % from card to card, errors by none."""
    numbers: dict[str, dict[str, dict[str, Any]]] = {
        "device.ready": {
            "count": {"value": 8.0, "unit": "count"},
            "memory": {"value": 79.1, "unit": "GiB"},
        }
    }
    for number in range(CHECKS):
        rate = 900.0 * math.exp(chance.gauss(0, 0.02))
        numbers[f"operators.check{number}"] = {
            "rate": {"value": rate, "unit": "images/s"},
            "float16": {"value": 3.1e-4 + 1e-7 * number, "unit": "1", "limit": 4e-3},
        }
    return numbers


def write_fleet(
    folder: Path, count: int, at: dt.datetime, seed: int = 19
) -> list[Path]:
    """Write a verdict of each of so many nodes, and return their files."""
    chance, paths = Random(seed), []
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        name = f"gpu{number:05d}"
        path = folder / f"{name}.cuda-linux.quick.json"
        path.write_text(json.dumps(verdict(name, chance, at)), encoding="utf-8")
        paths.append(path)
    return paths


def change(path: Path, **parts: Any) -> None:  # noqa: ANN401 - parts of a verdict
    """Change parts of a stored verdict; a dictionary is merged."""
    document = json.loads(path.read_text(encoding="utf-8"))
    for name, part in parts.items():
        if isinstance(part, dict):
            document[name] |= part
        else:
            document[name] = part
    path.write_text(json.dumps(document), encoding="utf-8")
