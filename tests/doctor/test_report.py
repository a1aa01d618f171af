"""The text for an issue: what it tells, and what it must not."""

from __future__ import annotations

import dataclasses
import platform
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.doctor import diagnose_environment
from provision.doctor.report import private, report
from provision.host.model import Driver, Gpu, Host, User

if TYPE_CHECKING:
    from tests.doctor.conftest import Env

CARD = Gpu("nvidia", "2204", "RTX 3090", "0000:01:00.0", driver=Driver("nvidia", "580.95.05"))
LINUX = Host("linux-64", "6.8")
PRIVATE = [
    ("/home/alice/work/.venv is gone", "~/work/.venv is gone"),
    (r"C:\Users\Bob\venv", r"~\venv"),
    ("token hf_AbCdEfGhIjKlMnOpQr", "token TOKEN"),
    ("https://me:secret@example.org/simple", "https://***@example.org/simple"),
    ("GPU-5f1c2d3e-0a1b-2c3d-4e5f-60718293a4b5: lost", "SERIAL: lost"),
    ("mail to carol@example.org", "mail to MAIL"),
    ("http://10.1.2.3/simple", "http://ADDRESS/simple"),
    ("torch 2.9.1+cu128, nvidia-cublas 12.8.4.1", "torch 2.9.1+cu128, nvidia-cublas 12.8.4.1"),
    ("GPU 0000:01:00.0: RTX 3090", "GPU 0000:01:00.0: RTX 3090"),
]


@pytest.mark.parametrize(("text", "shown"), PRIVATE)
def test_what_is_private_is_replaced(text: str, shown: str) -> None:
    assert private(text, LINUX) == shown


def test_names_of_the_user_and_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host("linux-64", "6.8", user=User("torch", 1000))
    monkeypatch.setattr(platform, "node", lambda: "node17.example")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    text = f"{tmp_path}/home/x, /scratch/torch/env, torch@node17: torch 2.9, //node17.example/a"
    assert private(text, host) == "~/x, /scratch/USER/env, USER@HOST: torch 2.9, //HOST/a"
    prefix = tmp_path / "home/venv"
    assert private(f"{prefix}/bin/python, {prefix}2", host, prefix) == "ENV/bin/python, ~/venv2"


def test_a_user_without_a_name_takes_no_part_of_a_version() -> None:
    host = Host("linux-64", "6.8", user=User("0", 0))
    assert private("'ops==0.1' in /0/x", host) == "'ops==0.1' in /0/x"


def test_an_environment_as_one_text(env: Env) -> None:
    env.torch("2.9.1+cu128", "filelock", cuda="12.8")
    env.add("filelock", "3.20.0")
    env.add("torchvision", "0.21.0", "torch==2.6.0")
    env.add("unrelated", "1.0")
    variables = {"CUDA_VISIBLE_DEVICES": "0", "LD_LIBRARY_PATH": "/secret/lib"}
    host = Host("linux-64", "6.8", gpus=(CARD,), variables=variables)
    result = diagnose_environment(env.prefix, host, env.devices, root=env.prefix)
    text = report(result, host, env.prefix)
    for line in (
        "Python: 3.11.7, virtual environment",
        "torch: 2.9.1+cu128, built for cuda",
        "GPU 0000:01:00.0: RTX 3090",
        "driver nvidia: 580.95.05",
        "near torch: filelock 3.20.0",
        "variables: CUDA_VISIBLE_DEVICES=0, LD_LIBRARY_PATH",
        "  torchvision 0.21.0 is for torch 2.6.0",
    ):
        assert line in text.splitlines()
    assert "[torch-companion-mismatch]" in text
    assert "unrelated" not in text
    assert "/secret" not in text
    assert str(env.prefix) not in text


def test_a_machine_alone(env: Env) -> None:
    host = Host("linux-64", "6.8", surroundings=("docker",))
    result = dataclasses.replace(
        diagnose_environment(_some(env), host, env.devices, root=env.prefix), facts={}
    )
    text = report(result, host, None)
    assert "docker" in text
    assert text.endswith("no known fault was found\n")


def _some(env: Env) -> Path:
    env.add("six", "1.17.0")
    return env.prefix
