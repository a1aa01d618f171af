"""The text for an issue: what it tells, and what it must not."""

from __future__ import annotations

import dataclasses
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.core.findings import Diagnosis
from provision.doctor.diagnosis import diagnose_environment
from provision.doctor.logs import findings_of
from provision.doctor.reading import read_log
from provision.doctor.report import private, report
from provision.host.model import Host
from tests.doctor.cards import RTX

if TYPE_CHECKING:
    from tests.doctor.conftest import Env

PRIVATE = [
    ("/home/alice/work/.venv is gone", "~/work/.venv is gone"),
    (r"C:\Users\Bob\venv", r"~\venv"),
    ("token hf_AbCdEfGhIjKlMnOpQr", "token TOKEN"),
    ("https://me:secret@example.org/simple", "https://***@example.org/simple"),
    ("GPU-5f1c2d3e-0a1b-2c3d-4e5f-60718293a4b5: lost", "SERIAL: lost"),
    ("mail to carol@example.org", "mail to MAIL"),
    ("http://10.1.2.3/simple", "http://ADDRESS/simple"),
    ("WANDB_API_KEY=0123456789abcdef python a.py", "WANDB_API_KEY=TOKEN python a.py"),
    ('"hf_token": "secret-of-mine"', '"hf_token": "TOKEN"'),
    ("a.py --api-key abc123def456", "a.py --api-key TOKEN"),
    (
        "from huggingface_hub import hf_hub_download",
        "from huggingface_hub import hf_hub_download",
    ),
    (
        "envs/hf-transformers1, sk-learn-contrib",
        "envs/hf-transformers1, sk-learn-contrib",
    ),
    ("sk-abcdefghijklmnop1234567890", "TOKEN"),
    ("password: hunter2", "password: TOKEN"),
    ("pad_token=<pad>, EOS token = 151643", "pad_token=<pad>, EOS token = 151643"),
    (
        "tokens per second: 33.5, tokenizer: LlamaTokenizer",
        "tokens per second: 33.5, tokenizer: LlamaTokenizer",
    ),
    (
        "rank 0 at 10.1.2.3:29500, curand 10.3.9.90",
        "rank 0 at ADDRESS:29500, curand 10.3.9.90",
    ),
    (
        "bind to 0.0.0.0:8000, then 127.0.0.1:8000",
        "bind to 0.0.0.0:8000, then 127.0.0.1:8000",
    ),
    (
        "pyannote/diarization@2.1, fa3@v2.5.7-pt",
        "pyannote/diarization@2.1, fa3@v2.5.7-pt",
    ),
    (
        "wandb: Currently logged in as: eve (acme).",
        "wandb: Currently logged in as: USER.",
    ),
    ("ssh-ed25519 AAAAC3NzaC1 eve", "ssh-ed25519 TOKEN eve"),
    (r"C:\Users\Eve Miller\venv\x.py", r"~\venv\x.py"),
    ("/home/eve/a.py: /scratch/eve/data", "~/a.py: /scratch/USER/data"),
    ("eve@node:~$ ls /data/eve", "USER@HOST:~$ ls /data/USER"),
    (
        "/home/torch/x: lib/site-packages/torch/a.py",
        "~/x: lib/site-packages/torch/a.py",
    ),
    (
        "torch 2.9.1+cu128, nvidia-cublas 12.8.4.1",
        "torch 2.9.1+cu128, nvidia-cublas 12.8.4.1",
    ),
    ("GPU 0000:01:00.0: RTX 3090", "GPU 0000:01:00.0: RTX 3090"),
]


def test_the_folder_of_an_environment_is_no_part_of_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "e").mkdir()
    monkeypatch.chdir(tmp_path)
    assert private("move e/x, /home/alice/e", Path("e")) == "move e/x, ~/e"
    assert private(f"{tmp_path}/e/bin", Path("e")) == "ENV/bin"
    assert (
        private("/usr/local/cuda, /usr/lib", Path("/usr"))
        == "/usr/local/cuda, /usr/lib"
    )


@pytest.mark.parametrize(("text", "shown"), PRIVATE)
def test_what_is_private_is_replaced(text: str, shown: str) -> None:
    assert private(text) == shown


def test_names_of_the_user_and_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER", "torch")
    monkeypatch.setattr(platform, "node", lambda: "node17.example")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    text = f"{tmp_path}/home/x, /scratch/torch/env, torch@node17: torch 2.9, //node17.example/a"
    assert private(text) == "~/x, /scratch/USER/env, USER@HOST: torch 2.9, //HOST/a"
    prefix = tmp_path / "home/venv"
    assert (
        private(f"{prefix}/bin/python, {prefix}2", prefix) == "ENV/bin/python, ~/venv2"
    )


def test_a_home_behind_a_link_with_a_longer_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In either order of the two: one path is the end of the other.
    monkeypatch.setattr(Path, "home", lambda: Path("/h/x"))
    monkeypatch.setattr(os.path, "realpath", lambda _path: "/data/h/x")
    assert private("/data/h/x/a, /h/x/b") == "~/a, ~/b"


def test_a_user_without_a_name_takes_no_part_of_a_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("USER", "0")
    assert private("'ops==0.1' in /0/x") == "'ops==0.1' in /0/x"


def test_an_environment_as_one_text(env: Env) -> None:
    env.torch("2.9.1+cu128", "filelock", cuda="12.8")
    env.add("filelock", "3.20.0")
    env.add("torchvision", "0.21.0", "torch==2.6.0")
    env.add("unrelated", "1.0")
    variables = {"CUDA_VISIBLE_DEVICES": "0", "LD_LIBRARY_PATH": "/secret/lib"}
    host = Host("linux-64", "6.8", gpus=(RTX,), variables=variables)
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


def test_a_log_has_its_excerpt_and_nothing_of_this_machine(tmp_path: Path) -> None:
    log = read_log(
        "alice@node7:~/x$ python t.py --token=hf_AbCdEfGhIjKlMnOpQr\n"
        '  File "/home/alice/t.py", line 3, in <module>\n'
        "RuntimeError: engine refused to start\n"
    )
    findings = tuple(findings_of(log))
    text = report(Diagnosis("t.log", findings), log=log)
    assert text.splitlines()[1] == ""  # no facts
    assert f"note: {findings[0].symptom} [not-recognised]" in text
    assert "Of its 3 lines" in text
    assert text.splitlines()[-3:] == [
        "     1  USER@HOST:~/x$ python t.py --token=TOKEN",
        '     2    File "~/t.py", line 3, in <module>',
        "     3  RuntimeError: engine refused to start",
    ]


def test_a_machine_alone(env: Env) -> None:
    host = Host("linux-64", "6.8", surroundings=("docker",))
    result = dataclasses.replace(
        diagnose_environment(_some(env), host, env.devices, root=env.prefix), facts={}
    )
    text = report(result, host, None)
    assert "docker" in text
    assert text.endswith("no known problem was found\n")


def _some(env: Env) -> Path:
    env.add("six", "1.17.0")
    return env.prefix
