"""What each verb costs, in things that can be counted: modules, files, processes, connections.

``tests/budget.json`` holds what each verb may import, start, open and hash in a small project. A
number that grows fails and names what is new. Where the growth is wanted, accept it with::

    python3 noxfile.py -s budget

and commit the file with the change. Numbers that shrink pass; the same command lowers the budget.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.core.process import environment_python
from provision.core.project import CURRENT
from tests.lab import open_lab
from tests.small import TARGET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab import Lab

pytestmark = pytest.mark.machine
SCRIPT = Path(__file__).with_name("counting.py")
BUDGET = Path(__file__).with_name("budget.json")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
LOG = "step 1\nRuntimeError: Found no NVIDIA driver on your system.\n"
VERBS: dict[str, tuple[str, ...]] = {
    "--help": ("--help",),
    "--version": ("--version",),
    "build, nothing to do": ("build", TARGET),
    "build --no-smoke --json, nothing to do": ("build", TARGET, "--no-smoke", "--json"),
    "detect": ("detect",),
    "verify": ("verify", TARGET),
    "verify --deep": ("verify", TARGET, "--deep"),
    "lock --check": ("lock", "--check"),
    "targets": ("targets",),
    "run": ("run", TARGET, "--", "python", "-c", "pass"),
    "doctor --log": ("doctor", "--log", "{root}/program.log"),
    "doctor --python": ("doctor", "--python", "{python}"),
    "doctor --target": ("doctor", "--target", TARGET),
    "smoke --if-driver-changed": ("smoke", TARGET, "--if-driver-changed"),
    "rollback": ("rollback", TARGET),
    "clean": ("clean",),
    "schema": ("schema",),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One lab for all verbs: none of them changes it, after a build that has nothing to do."""
    with open_lab(tmp_path_factory.mktemp("budget")) as made:
        made.build()
        (made.project.root / "program.log").write_text(LOG, encoding="utf-8")
        count(made, "build", TARGET)  # notes that there is nothing to do
        count(made, "smoke", TARGET)  # keeps a report of this very host
        count(made, "build", TARGET)
        yield made


def count(lab: Lab, *words: str) -> dict[str, Any]:
    """Return what a command touches, as :mod:`tests.counting` counts it."""
    root = lab.project.root.resolve()
    out = root.parent / "counts.json"
    python = environment_python(lab.home / CURRENT)
    named = [word.format(root=root, python=python) for word in words]
    options = [] if words[0].startswith("--") else ["--project", str(root)]
    named[1:1] = options  # before the command of `run`
    home = str(
        root.parent
    )  # an empty one: no configuration of pip, no packages of the user
    env = {"HOME": home, "PATH": os.defpath, "LANG": "C.UTF-8", "SYSTEMROOT": home}
    subprocess.run(
        [sys.executable, "-I", str(SCRIPT), str(out), f"{root}{os.sep}", *named],
        env=env,
        cwd=root,
        check=True,
        capture_output=True,
    )
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["code"] in {0, 1, 2}, found
    counts: dict[str, Any] = found["counts"]
    folder = (lab.home / CURRENT).resolve().name
    for key in ("opened", "hashed"):
        named = (path.replace(folder, "GENERATION") for path in counts[key])
        # Of the interpreter and its library: they differ from machine to machine.
        inside = (path for path in named if not Path(path).is_absolute())
        counts[key] = sorted(re.sub(r"\d{8}T\d{12}Z", "TIME", path) for path in inside)
    return counts


def new(now: Any, allowed: Any) -> list[str]:  # noqa: ANN401 - a number or a list of names
    """Return what is counted now and was not allowed; nothing where the number did not grow."""
    if isinstance(now, int):
        return [f"{now} instead of {allowed}"] if now > allowed else []
    if len(now) <= len(allowed):
        return []
    return sorted((Counter(now) - Counter(allowed)).elements())


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_keeps_its_budget(lab: Lab, verb: str) -> None:
    now = count(lab, *VERBS[verb])
    budget = json.loads(BUDGET.read_text(encoding="utf-8"))
    if os.environ.get("PROVISION_ACCEPT_BUDGET"):
        budget = {"python": VERSION, "verbs": budget["verbs"] | {verb: now}}
        BUDGET.write_text(rendered(budget), encoding="utf-8")
    allowed = budget["verbs"][verb]
    if budget["python"] != VERSION:
        # Another Python's standard library is cut into other modules.
        now["modules"] = [
            name for name in now["modules"] if name not in sys.stdlib_module_names
        ]
    grown = {kind: more for kind in now if (more := new(now[kind], allowed[kind]))}
    assert not grown, f"{verb}: more than tests/budget.json allows: {grown}"


def rendered(budget: dict[str, Any]) -> str:
    """Return the budget with a line per count, for readable differences."""
    verbs = {
        verb: "{\n"
        + ",\n".join(f"   {json.dumps(k)}: {json.dumps(v)}" for k, v in counts.items())
        for verb, counts in budget["verbs"].items()
        if verb in VERBS
    }
    lines = ",\n".join(
        f"  {json.dumps(verb)}: {text}\n  }}" for verb, text in verbs.items()
    )
    return f'{{\n "python": {json.dumps(budget["python"])},\n "verbs": {{\n{lines}\n }}\n}}\n'


def test_no_budget_is_left_of_a_verb_that_is_gone() -> None:
    assert (
        json.loads(BUDGET.read_text(encoding="utf-8"))["verbs"].keys() == VERBS.keys()
    )


@pytest.fixture
def crowded(lab: Lab) -> Iterator[Lab]:
    """The lab with 32 more targets."""
    text = (lab.project.specs / f"{TARGET}.toml").read_text(encoding="utf-8")
    more = [lab.project.specs / f"more-{number}.toml" for number in range(32)]
    for path in more:
        path.write_text(text, encoding="utf-8")
    yield lab
    for path in more:
        path.unlink()


def test_a_build_with_nothing_to_do_does_not_depend_on_the_number_of_targets(
    lab: Lab, request: pytest.FixtureRequest
) -> None:
    alone = count(lab, "build", TARGET)
    assert count(request.getfixturevalue("crowded"), "build", TARGET) == alone


def test_detect_reads_each_spec_once(lab: Lab, request: pytest.FixtureRequest) -> None:
    alone = count(lab, "detect")
    many = count(request.getfixturevalue("crowded"), "detect")
    assert len(many["opened"]) == len(alone["opened"]) + 32
    assert many["blocks"] == alone["blocks"] + 32
    assert many["processes"] == alone["processes"]


def test_a_longer_log_costs_its_own_blocks_only(lab: Lab) -> None:
    log = lab.project.root / "program.log"
    short = count(lab, "doctor", "--log", str(log))
    try:
        log.write_text("step 1 loss=0.1\n" * 500_000 + LOG, encoding="utf-8")
        long = count(lab, "doctor", "--log", str(log))
    finally:
        log.write_text(LOG, encoding="utf-8")
    assert long["opened"] == short["opened"]
    assert long["modules"] == short["modules"]
