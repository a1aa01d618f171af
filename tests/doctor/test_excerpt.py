"""The excerpt of a log: short, and with what tells of the failure."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path

from provision.doctor.excerpt import excerpt
from provision.doctor.logs import findings_of
from provision.doctor.reading import read_log

LOGS = tomllib.loads(Path(__file__).with_name("logs.toml").read_text("utf-8"))["log"]
WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
]
TRACEBACK = "  File \"/w/train.py\", line 3, in <module>\nKeyError: 'labels'\n"


def told(text: str) -> list[str]:
    log = read_log(text)
    return excerpt(log, findings_of(log))


def noise(count: int) -> str:
    """Return lines of work, none of which is another one with other numbers."""
    dice = random.Random(count)
    return "".join(
        f"{' '.join(dice.choices(WORDS, k=9))} loss 0.{n}\n" for n in range(count)
    )


def test_a_short_log_is_given_whole_with_its_numbers() -> None:
    text = "torch 2.9.1\n\nepoch 1 loss 0.3\n-----\nepoch 2 loss 0.2\n" + TRACEBACK
    assert told(text) == [
        "     1  torch 2.9.1",
        "     3  epoch 1 loss 0.3",
        "     5  epoch 2 loss 0.2",
        '     6    File "/w/train.py", line 3, in <module>',
        "     7  KeyError: 'labels'",
    ]


def test_of_a_long_log_the_start_the_versions_and_the_failure_are_kept() -> None:
    head = (
        "python train.py --fast\n"
        + noise(3000)
        + "PyTorch version: 2.9.1\n"
        + noise(3001)
    )
    frames = "".join(
        f'  File "/w/m{n}.py", line {n}, in call\n    call()\n' for n in range(60)
    )
    text = f"{head}Traceback (most recent call last):\n{frames}{TRACEBACK}{noise(9)}"
    shown = told(text)
    assert len("\n".join(shown)) < 13_000
    for line in (
        "     1  python train.py --fast",
        "  3002  PyTorch version: 2.9.1",
        "  6004  Traceback (most recent call last):",
        '  6005    File "/w/m0.py", line 0, in call',
        '  6123    File "/w/m59.py", line 59, in call',
        "  6126  KeyError: 'labels'",
    ):
        assert line in shown
    assert shown.count("     …") > 1


def test_the_first_error_of_a_build_is_kept_though_the_last_line_is_far() -> None:
    error = 'kernel.cu(12): error: identifier "__hmax" is undefined\n'
    shown = told(noise(2000) + error + noise(2001) + "make: *** [all] Error 2\n")
    assert f"  2001  {error.rstrip()}" in shown


def test_a_long_line_loses_its_middle() -> None:
    (line,) = told("RuntimeError: " + "x" * 3000 + " the end\n")
    assert line.startswith("     1  RuntimeError: xx")
    assert line.endswith("xx the end")
    assert len(line) < 420


def test_what_a_finding_quotes_is_in_the_excerpt_wherever_it_is() -> None:
    texts = [case["text"] for case in LOGS]
    for text in random.Random(1).sample(texts, 12):
        log = read_log(f"{noise(400)}{text}\n{noise(5)}")
        findings = findings_of(log)
        shown = {
            line.split()[0] for line in excerpt(log, findings) if "…" not in line[:8]
        }
        quoted = {
            e.split(":")[0][5:]
            for f in findings
            for e in f.evidence
            if e[:5] == "line "
        }
        assert quoted <= shown, text
