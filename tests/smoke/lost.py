"""Take operators from a pretend device of each kind, and run the check that has to miss them.

Run by an environment's Python. Writes, for each kind and operator, the code of the finding.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path += [str(Path(__file__).resolve().parents[2]), str(Path(__file__).parent)]

import pretend
import torch

from smoke.checks import test_device, test_operators
from smoke.device import devices
from smoke.engine.check import Numbers
from smoke.engine.finding import CheckFailed
from smoke.engine.journal import Journal
from smoke.reference import offered

if TYPE_CHECKING:
    from collections.abc import Callable

Where = "Callable[[torch.Tensor], bool]"
ATTENTION = "aten::_scaled_dot_product_flash_attention_for_cpu"


def always(_x: torch.Tensor) -> bool:
    """Take every call of an operator."""
    return True


def in_half(x: torch.Tensor) -> bool:
    """Take the calls in half types."""
    return x.dtype in (torch.float16, torch.bfloat16)


TAKEN: dict[str, tuple[str, Any, Any]] = {
    "attention": ("aten::bmm", always, test_operators.test_attention),
    "convolution": ("aten::convolution", always, test_operators.test_gradient),
    "half products": ("aten::mm", in_half, test_device.test_matmul),
    "half softmax": ("aten::_softmax", in_half, test_operators.test_layers),
    "sort": ("aten::sort", always, test_operators.test_indexing),
}


def refuse(
    name: str, where: Callable[[torch.Tensor], bool], result: Any, *args: Any
) -> Any:
    """Refuse a call in the words of torch's dispatcher."""
    if where(next(x for x in args if isinstance(x, torch.Tensor))):
        raise NotImplementedError(
            f"Could not run '{name}' with arguments from the 'XPU'"
        )
    return result


def finding(check: Callable[..., None], folder: Path) -> str:
    """Return the code with which a check ends, "" where it passes."""
    numbers = Numbers(Journal(folder / "journal.jsonl"))
    try:
        check(pretend.DEVICE, numbers)
    except CheckFailed as verdict:
        return verdict.finding.code
    except NotImplementedError:
        return "op-fails"
    return "unknown" if numbers.unknown else ""


def main(out: Path) -> None:
    """Write what each check says of each kind of device that lost an operator."""
    found: dict[str, Any] = {"tables": {}}
    tables = {kind: offered.lacking(kind) for kind in offered.RELEASES}
    offered.table = tables.__getitem__  # type: ignore[assignment]
    found["tables"] = tables
    for kind in ("xpu", "cuda", "mps"):
        devices.kind = lambda device, kind=kind: "cpu" if device.type == "cpu" else kind
        devices.has_float64 = lambda _device: False
        for name, (operator, where, check) in TAKEN.items():
            with pretend.spoiled(operator, partial(refuse, operator, where)):
                found[f"{name} on {kind}"] = finding(check, out.parent)
    release, offered.RELEASES["xpu"] = offered.RELEASES["xpu"], ((1, 0), (1, 1))
    devices.kind = lambda device: "cpu" if device.type == "cpu" else "xpu"
    operator, where, check = TAKEN["sort"]
    with pretend.spoiled(operator, partial(refuse, operator, where)):
        found["sort in no list"] = finding(check, out.parent)
    offered.RELEASES["xpu"] = release
    out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
