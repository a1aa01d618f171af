"""The checks of models: what runs in the models of their users runs in them, and is compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.core.process import clean_environment, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from provision.core.process import Completed

pytestmark = [pytest.mark.machine, pytest.mark.profiles]  # half a minute each
FOUR = Path(__file__).with_name("four_models.py")
COMPARED = (
    *(
        "models.llama",
        "models.unet",
        "models.whisper",
        "models.plates",
        "models.generate",
    ),
    *("autocast.gradient", "training.checkpointing", "fused.adamw"),
)


@pytest.fixture
def compared(suite: Callable[..., tuple[Completed, Any]]) -> set[str]:
    """The operators of which the suite's report says that a check has run them."""
    done, report = suite(
        "--full", *(part for name in COMPARED for part in ("--only", name))
    )
    assert done.returncode == 0, done.stdout
    assert report["operators"] == sorted(set(report["operators"]))
    return set(report["operators"])


def test_the_operators_of_four_models_are_compared(
    python: Path, compared: set[str]
) -> None:
    env = clean_environment(extra={"OMP_NUM_THREADS": "1"})  # see the fixture `suite`
    done = run([python, "-I", FOUR], env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    models: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    assert set(models) == {"llama", "unet", "whisper", "lprnet"}
    assert min(map(len, models.values())) > 10
    ran = {name for names in models.values() for name in names}
    # The loss of LPRNet, CTC, is computed by the CPU for many devices.
    assert len(ran & compared) >= 0.95 * len(ran), sorted(ran - compared)


WITHOUT = ("transformers", "tokenizers")


def test_without_transformers_a_llama_of_torch_is_compared(
    suite: Callable[..., tuple[Completed, Any]], sound: Path
) -> None:
    packages = json.loads(sound.read_text(encoding="utf-8"))["packages"]
    kept = {name: version for name, version in packages.items() if name not in WITHOUT}
    done, report = suite("--full", "--only", "models.llama", packages=kept)
    assert done.returncode == 0, done.stdout
    (result,) = [check for check in report["checks"] if check["id"] == "models.llama"]
    assert set(result["numbers"]) >= {
        "float32 output",
        "float32 gradient",
        "bfloat16 output",
    }
    done, _ = suite("--full", "--only", "models.generate", packages=kept)
    assert "needs transformers, which is not locked" in done.stderr
