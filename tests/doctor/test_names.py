"""The table of names that libraries gained and lost, and what is told of a name in it."""

from __future__ import annotations

import pytest

from provision.doctor import diagnose_log

PLACE = "(/opt/env/lib/python3.11/site-packages/x/__init__.py)"
GONE = (
    f"ImportError: cannot import name 'cached_download' from 'huggingface_hub' {PLACE}"
)
CAME = f"ImportError: cannot import name 'Flux2Pipeline' from 'diffusers' {PLACE}"
FRAME = '  File "/opt/env/lib/python3.11/site-packages/{}/a.py", line 2, in <module>\n'
TRACEBACK = "Traceback (most recent call last):\n" + FRAME


@pytest.mark.parametrize(
    ("log", "cause", "remedy"),
    [
        (GONE, "up to 0.25.2 only", "'huggingface_hub==0.25.2'"),
        (CAME, "came to diffusers with 0.36", "'diffusers>=0.36'"),
        (
            TRACEBACK.format("gradio") + GONE,
            "newer than gradio was",
            "release of gradio that",
        ),
        (
            TRACEBACK.format("torchtnt")
            + "AttributeError: module 'torch.amp' has no attribute 'GradScaler'",
            "came to torch with 2.3",
            "older release of torchtnt",
        ),
        (
            TRACEBACK.format("basicsr")
            + "ModuleNotFoundError: No module named 'torchvision.transforms.functional_tensor'",
            "up to 0.16.2 only",
            "an environment of its own",
        ),
    ],
)
def test_finding_names_the_release(log: str, cause: str, remedy: str) -> None:
    found = diagnose_log(log)[0]
    assert found.code == "package-versions-disagree"
    assert cause in found.cause
    assert remedy in found.remedy


def test_remedy_never_moves_torch() -> None:
    log = TRACEBACK.format("torchtnt") + (
        "AttributeError: module 'torch.amp' has no attribute 'GradScaler'"
    )
    assert "pip install" not in diagnose_log(log)[0].remedy


def test_installed_release_decides() -> None:
    # The installed release has it: something else is wrong, and the table says nothing.
    assert "0.25.2" not in diagnose_log(f"huggingface_hub==0.24.1\n{GONE}")[0].cause
    assert (
        "up to 0.25.2 only" in diagnose_log(f"huggingface_hub==0.30.0\n{GONE}")[0].cause
    )


@pytest.mark.parametrize(
    "line",
    [
        "ImportError: cannot import name 'load_metric' from 'datasets' (/u/datasets/a.py)",
        "TypeError: Trainer.__init__() got an unexpected keyword argument 'gpus'",
        "AttributeError: 'DataFrame' object has no attribute 'append'",
        "ImportError: cannot import name 'cached_download' from 'utils.hub' (/home/u/utils/hub.py)",
        # The top level exports it since some release: that tells nothing of a module inside.
        f"ImportError: cannot import name 'AutoBackbone' from 'transformers.modeling_quux' {PLACE}",
    ],
)
def test_names_of_the_program_are_not_told(line: str) -> None:
    log = f'Traceback (most recent call last):\n  File "/home/u/run.py", line 3, in <module>\n{line}'
    assert not any(
        "only" in each.cause or "came to" in each.cause for each in diagnose_log(log)
    )
