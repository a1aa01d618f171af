"""`run` as it is used: the program's own process, terminal, signals, exit codes and variables."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from provision.cli.main import mark_command
from provision.core.project import CURRENT
from tests.lab import open_lab, typed
from tests.small import TARGET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab import Lab


@pytest.mark.parametrize(
    ("words", "marked"),
    [
        ("run T python -c x", "run T -- python -c x"),
        ("run T -- python -c x", "run T -- python -c x"),
        ("run T -- sh -c x -- y", "run T -- sh -c x -- y"),
        ("run T sh -c x -- y", "run T -- sh -c x -- y"),
        (
            "run --project p T --env A -v x --json",
            "run --project p T --env A -v -- x --json",
        ),
        ("--project=p run T --en A cmd -v", "--project=p run T --en A -- cmd -v"),
        ("-C run --json run -C run T cmd -v", "-C run --json run -C run T -- cmd -v"),
        ("--proj run -q run run run run", "--proj run -q run run -- run run"),
        ("add run einops --json", "add run einops --json"),
        ("run T", "run T"),
        ("run", "run"),
        ("run --help", "run --help"),
    ],
)
def test_options_after_the_first_word_of_the_command_are_its_own(
    words: str, marked: str
) -> None:
    assert mark_command(words.split()) == marked.split()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with open_lab(tmp_path_factory.mktemp("run")) as made:
        made.build()
        yield made


def argv(lab: Lab, *words: str) -> list[str]:
    tool = [
        sys.executable,
        "-I",
        "-m",
        "provision",
        "run",
        "--project",
        str(lab.project.root),
    ]
    return [*tool, TARGET, *words]


def ran(lab: Lab, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run as if nothing had been run there before."""
    (lab.home / ".not-passed-on").unlink(missing_ok=True)
    return ran_again(lab, *words, **variables)


def ran_again(
    lab: Lab, *words: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.defpath, "HOME": str(lab.project.root), **variables}
    return subprocess.run(
        argv(lab, *words),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.machine
def test_the_program_and_its_code(lab: Lab) -> None:
    code = "import alpha, sys; print(sys.argv[1:]); sys.exit(7)"
    done = ran(lab, "python", "-c", code, "--json", "--", "-v", "--")
    assert done.returncode == 7
    assert done.stdout == "['--json', '--', '-v', '--']\n"


@pytest.mark.machine
def test_attack_sigterm_reaches_the_program_and_leaves_no_orphan(lab: Lab) -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen(
        argv(lab, "python", "-c", code),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as started:
        assert started.stdout is not None
        assert int(started.stdout.readline()) == started.pid
        started.terminate()
        assert started.wait() == -signal.SIGTERM


@pytest.mark.machine
@pytest.mark.parametrize(
    ("make", "code", "words"),
    [
        ("absent", 127, "nor on PATH"),
        ("text", 126, "Permission denied"),
        ("orphan", 126, "No such file"),
        ("binary", 126, "Exec format error"),
        ("folder", 126, "Permission denied"),
    ],
)
def test_attack_what_cannot_be_started(
    lab: Lab, tmp_path: Path, make: str, code: int, words: str
) -> None:
    program = tmp_path / "program"
    if make == "folder":
        program.mkdir()
    elif make != "absent":
        lines = {
            "text": "x",
            "orphan": "#!/nowhere/at/all\n",
            "binary": "\x7fELF no more",
        }
        program.write_text(lines[make], encoding="utf-8")
        program.chmod(0o644 if make == "text" else 0o755)
    done = ran(lab, "--json", str(program))
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert words in done.stderr
    assert words in json.loads(done.stdout)["result"]["error"]["cause"]


@pytest.mark.machine
def test_the_terminal_is_the_program_s(lab: Lab) -> None:
    """Ctrl-C typed at a terminal reaches the program, which decides; its size and input too."""
    code = (
        "import os, sys, time\n"
        "mine = os.getpgrp() == os.tcgetpgrp(0)\n"
        "print(sys.stdin.isatty(), sys.stdout.isatty(), mine, flush=True)\n"
        "try: time.sleep(60)\n"
        "except KeyboardInterrupt: print('mine', input(), flush=True); sys.exit(5)\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(
            signal.SIGINT, signal.SIG_DFL
        )  # shells let jobs in the background ignore it
        os.execv(sys.executable, argv(lab, "python", "-c", code))  # noqa: S606
    shown = _until(terminal, b"True True True")
    time.sleep(0.2)  # into the sleep
    os.write(terminal, b"\x03")
    time.sleep(0.2)
    os.write(terminal, b"typed\n")
    shown += _until(terminal, b"mine typed")
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 5
    assert b"Traceback" not in shown


def _until(terminal: int, words: bytes) -> bytes:
    shown = b""
    while words not in shown:
        assert select.select([terminal], [], [], 30)[0], shown
        shown += os.read(terminal, 4096)
    return shown


@pytest.mark.machine
def test_attack_variables_that_programs_need(lab: Lab) -> None:
    own = {
        "HF_TOKEN": "t",
        "RANK": "1",
        "MASTER_ADDR": "node",
        "OMP_NUM_THREADS": "2",
        "SLURM_PROCID": "0",
        "CUDA_VISIBLE_DEVICES": "",
        "DISPLAY": ":0",
    }
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    done = ran(lab, "python", "-c", code, **own)
    assert own.items() <= json.loads(done.stdout).items()
    assert "not passed on" not in done.stderr


@pytest.mark.machine
def test_attack_another_torch_on_the_python_path(lab: Lab, tmp_path: Path) -> None:
    """As with SD-Scripts: an IPEX elsewhere on PYTHONPATH took over a CUDA environment."""
    (tmp_path / "alpha.py").write_text("version = 'a stranger'\n", encoding="utf-8")
    stray = {
        "PYTHONPATH": str(tmp_path),
        "PYTHONHOME": "/x",
        "LD_LIBRARY_PATH": "/x",
        "VIRTUAL_ENV": "/x",
        "PIP_TARGET": "/x",
        "ONEAPI_ROOT": "/x",
    }
    done = ran(lab, "python", "-c", "import alpha; print(alpha.version)", **stray)
    assert done.stdout == "1.0\n"
    assert f"not passed on: {', '.join(sorted(stray))} (" in done.stderr


@pytest.mark.machine
def test_a_dropped_variable_is_named_once(lab: Lab) -> None:
    kept = "(`--env NAME` passes one)"
    said = [
        ran(lab, "true", PIP_TARGET="/x").stderr,
        ran_again(lab, "true", PIP_TARGET="/x").stderr,
        ran_again(lab, "true", PIP_TARGET="/x", LD_AUDIT="").stderr,
        ran_again(lab, "true", LD_AUDIT="", PIP_TARGET="/x").stderr,
    ]
    assert said == [
        f"! not passed on: PIP_TARGET {kept}\n",
        "",
        f"! not passed on: LD_AUDIT {kept}\n",
        "",
    ]
    words = [*argv(lab)[:-1], "-v", TARGET, "true"]
    detailed = subprocess.run(
        words,
        env={"PATH": os.defpath, "LD_AUDIT": "", "PIP_TARGET": "/x"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"! not passed on: LD_AUDIT, PIP_TARGET {kept}\n" in detailed.stderr


@pytest.mark.machine
@pytest.mark.parametrize("by", ["option", "spec"])
def test_a_dropped_variable_is_brought_back(lab: Lab, by: str) -> None:
    spec = lab.project.specs / f"{TARGET}.toml"
    before = spec.read_text(encoding="utf-8")
    if by == "spec":
        spec.write_text(
            f'{before}[run]\nkeep = ["LD_LIBRARY_PATH"]\n', encoding="utf-8"
        )
    code = "import os; print(os.environ['LD_LIBRARY_PATH'], 'LD_AUDIT' in os.environ)"
    option = ["--env", "LD_LIBRARY_PATH"] if by == "option" else []
    try:
        done = ran(
            lab, *option, "python", "-c", code, LD_LIBRARY_PATH="/driver", LD_AUDIT=""
        )
    finally:
        spec.write_text(before, encoding="utf-8")
    assert done.stdout == "/driver False\n"
    assert "not passed on: LD_AUDIT (" in done.stderr


@pytest.mark.machine
def test_attack_an_interpreter_that_is_gone_is_replaced_by_no_other(lab: Lab) -> None:
    python = (lab.home / CURRENT).resolve() / "bin" / "python"
    target = python.readlink()
    python.unlink()
    python.symlink_to("/nowhere/python3")
    try:
        done = ran(lab, "python", "-c", "print('another')")
    finally:
        python.unlink()
        python.symlink_to(target)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "provision build" in done.stderr


@pytest.mark.machine
def test_a_doctor_that_noted_a_stale_lock_found_no_other_problem(ready: Lab) -> None:
    words = ["doctor", "--project", str(ready.project.root), "--target", TARGET]
    assert ": no known problem was found" in typed(*words).stdout
    spec = ready.project.specs / f"{TARGET}.toml"
    text = spec.read_text("utf-8")
    spec.write_text(text.replace("requirements = [", 'requirements = ["gamma", '))
    assert ": no other known problem was found" in typed(*words).stdout


@pytest.mark.machine
@pytest.mark.parametrize("verb", ["run", "verify", "smoke", "doctor"])
def test_each_verb_that_uses_an_environment_says_that_its_lock_changed(
    ready: Lab, verb: str
) -> None:
    """Once on stderr: which file, and the commands; nothing where all is as it was built."""
    root = ready.project.root
    words = ["--project", str(root)]
    if verb == "doctor":
        words.append("--target")
    words.append(TARGET)
    if verb == "run":
        words.append("true")
    argv = [sys.executable, "-I", "-m", "provision", verb, *words]

    def notes() -> list[str]:
        if verb == "run":  # the program takes the place of its process
            ended = subprocess.run(argv, capture_output=True, text=True, check=False)
        else:
            ended = typed(verb, *words)
        text = re.sub(r"`\S*provision ", "`provision ", ended.stderr)
        return [line for line in text.splitlines() if "provision build" in line]

    assert notes() == []
    ready.relock(ready.wheel("alpha", "2.0"), ready.wheel("beta", index="vendor"))
    build, lock = f"`provision build {TARGET}`", f"`provision lock {TARGET}`"
    path = f"lockfiles/{TARGET}/requirements.txt"
    other = f"! {TARGET}: the environment in use is not that of {path}; {build}"
    assert notes() == [other]
    spec = ready.project.specs / f"{TARGET}.toml"
    text = spec.read_text("utf-8")
    spec.write_text(text.replace("requirements = [", 'requirements = ["gamma", '))
    stale = f"envs/{TARGET}.toml changed since it was locked; {lock}, then {build}"
    assert notes() == [f"! {TARGET}: {stale}"]
    shutil.rmtree(ready.project.lock(TARGET))
    assert notes() == []
