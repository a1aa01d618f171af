"""Run init, lock and build on the requirements of public projects, and write RESULTS.md.

    python -m tests.projects.record [--build] [NAME…]
    python -m tests.projects.record --expected

Each project is a folder of its own, as its users have it, and each step is the command that they
would type. Where `lock` answers with the line that the spec lacks to build packages from source,
the line is written and counted as said. The results are kept in results.json; expected.json is what
`init` alone makes of each project, and needs no network.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provision.commands.init import initialize
from provision.core.project import Project
from tests.lab import Silent

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROJECTS: dict[str, dict[str, Any]] = tomllib.loads(
    (HERE / "projects.toml").read_text("utf-8")
)
TARGETS = ("cpu-linux", "cuda-linux", "arc-linux", "arc-windows")
FITTED = ("cuda-linux", "arc-windows")  # the targets of expected.json
RESULTS, PAGE = HERE / "results.json", HERE / "RESULTS.md"
EXPECTED = HERE / "expected.json"
# In the words of another program: what it lacks, or the host that does not answer.
_NAMED = re.compile(
    r"(?m)^hint: .*?(need to install .*)$|Could not resolve host: \S+|"
    r"Failed to resolve '\S+'"
)
_LINE = re.compile(r"`(build = \[.*?\])`")


def open_project(name: str, folder: Path) -> Path:
    """Copy a project's requirements into a folder of its name."""
    return Path(shutil.copytree(HERE / name, folder / name))


def of_init(name: str, folder: Path) -> dict[str, Any]:
    """Return what init lists for a project, by its place, and what the specs add to a target."""
    root = open_project(name, folder)
    made = initialize(Project(root), FITTED, Silent())
    return {
        "left": _places(made.to_do),
        "listed": {t.name: _places([*t.changed, *t.left_out]) for t in made.targets},
        "added": {name: _added(root, name) for name in ("base/project", *FITTED)},
    }


def _added(root: Path, name: str) -> dict[str, Any]:
    path = root / "envs" / f"{name}.toml"
    if not path.exists():  # nothing was carried over
        return {}
    pip: dict[str, Any] = tomllib.loads(path.read_text("utf-8")).get("pip", {})
    return pip


def _places(lines: Sequence[str]) -> list[str]:
    return [line.partition(": ")[0] for line in lines]


def provision(root: Path, *words: str) -> tuple[Any, float]:
    """Run a verb in a project; return its result and the seconds that it took."""
    started = time.monotonic()
    argv = [sys.executable, "-m", "provision", *words, "--json", "--project", str(root)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        argv, cwd=root, env=env, capture_output=True, text=True, check=False
    )
    try:
        result = json.loads(done.stdout)["result"]
    except ValueError:
        raise RuntimeError(done.stderr) from None
    return result, round(time.monotonic() - started, 1)


def lock_target(root: Path, target: str) -> dict[str, Any]:
    """Lock a target; add the line that builds packages from source if `lock` asks for it."""
    said, seconds = "", 0.0
    while True:
        (result,), took = provision(root, "lock", target)
        error, seconds = result["error"], seconds + took
        asked = _LINE.search(error["remedy"]) if error else None
        if not asked or asked[1] == said:
            break
        _say(root / "envs" / f"{target}.toml", asked[1], instead_of=said)
        said = asked[1]
    lock = root / "lockfiles" / target / "requirements.txt"
    torch = re.search(r"(?m)^torch==(\S+)", "" if error else lock.read_text("utf-8"))
    why = _sentence(error) if error else ""
    return {
        "seconds": round(seconds, 1),
        "packages": result["packages"],
        "said": said,
        "torch": torch[1] if torch else "",
        "why": why,
    }


def _sentence(error: dict[str, str]) -> str:
    """Return why a target was not locked: what went wrong, and the one reason of that."""
    evidence, cause = error["evidence"], error["cause"]
    what = re.sub(r" sha256:\w+", "", error["what"])
    if found := _NAMED.search(evidence):
        return f"{what}: {found[1] or found[0]}"
    if "work together" in what:  # the cause names no package
        return f"{what}: {evidence.splitlines()[0].rpartition(': ')[2]}"
    # Of the fault that is named; `lock` lists the others too.
    facts = cause.splitlines()[: 1 if "more error" in what else None]
    return ": ".join([what, *["; ".join(facts)][: len(facts)]])


def _say(spec: Path, line: str, *, instead_of: str = "") -> None:
    """Write a line into ``[pip]`` of a spec."""
    text = spec.read_text("utf-8").replace(f"{instead_of}\n" if instead_of else "", "")
    above, _, below = (text if "[pip]\n" in text else f"{text}\n[pip]\n").partition(
        "[pip]\n"
    )
    spec.write_text(f"{above}[pip]\n{line}\n{below}", "utf-8")


def try_project(name: str, folder: Path, *, build: bool) -> dict[str, Any]:
    """Return what init, lock and, where it is asked for, build of a project came to."""
    root = open_project(name, folder)
    made, seconds = provision(
        root, "init", *(f"--target={target}" for target in TARGETS)
    )
    if made["empty"]:
        why = {
            "seconds": 0,
            "packages": 0,
            "said": "",
            "torch": "",
            "why": f"init carries nothing: {'; '.join(made['to_do'])}",
        }
        return {
            "init": seconds,
            "left": len(made["to_do"]),
            "targets": dict.fromkeys(TARGETS, why),
        }
    found = {
        "init": seconds,
        "left": len(made["to_do"]),
        "targets": {target: lock_target(root, target) for target in TARGETS},
    }
    if build and not found["targets"]["cpu-linux"]["why"]:
        found["build"] = _build(name, root)
    return found


def _build(name: str, root: Path) -> dict[str, Any]:
    """Build cpu-linux and import the main packages of a project there."""
    result, seconds = provision(root, "build", "cpu-linux")
    why = result.get("error", {}).get("what", "") if isinstance(result, dict) else ""
    python = root / ".envs" / "cpu-linux" / "current" / "bin" / "python"
    if python.exists():
        modules = ", ".join(PROJECTS[name]["imports"])
        argv = [python, "-I", "-c", f"import {modules}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            why = done.stderr.strip().splitlines()[-1]
    return {"seconds": seconds, "why": why}


def _introduction(results: dict[str, Any]) -> list[str]:
    tried = {
        name: found for name, found in results.items() if not _needs_git_host(found)
    }
    good = [name for name in tried if len(_accelerators(tried[name])) > 1]
    alone = [name for name in good if len(_accelerators(tried[name], said="")) > 1]
    with_line, host = len(good) - len(alone), len(results) - len(tried)
    return [
        "# Requirements of public projects, tried",
        "",
        "What public projects ask for at the commit that is linked: names and versions only, as",
        "`tests/projects/projects.toml` lists them. In a folder with these, `init` made the specs.",
        "A repository that has several requirement files, and none named requirements.txt,",
        "gets none of them: its user names one, as in `provision init requirements-xpu.txt`.",
        "",
        f"**{len(good)} of {len(tried)} lock for two accelerators or more**:",
        f"{len(alone)} as `init` leaves them, {with_line} with the line that `lock` gives.",
        f"{len(tried) - len(good)} do not; the sentences below the table say why.",
        f"{host} more need files of a git host. The machine that made this page",
        "reaches none, so they are not counted.",
        "",
        "A cell has the number of packages and the seconds of `provision lock` on two busy cores,",
        "builds from source included. *s* marks a spec that needed one line more, which `lock`",
        "gives: `build = […]` in `[pip]`, the packages that exist as source only and may be built.",
        "`init` does not write it: that needs the index, and a build runs the code of a package.",
        "The last column is the build of cpu-linux:",
        "whether the main packages of the project can be imported, and the seconds.",
        "",
        "The machine that made this page reaches the default index and nothing else: no git host,",
        "and of PyTorch's own index it has one file, torch 2.13.0 for the CPU, so that nothing",
        "with torchvision could be built for cpu-linux. Catalogs are all that a lock needs.",
        "",
    ]


def page(results: dict[str, Any]) -> str:
    """Return the text of RESULTS.md."""
    lines = _introduction(results)
    lines += [
        f"| project | kind | listed by init | {' | '.join(TARGETS)} | built, imported |",
        "|---|---|---|" + "---|" * (len(TARGETS) + 1),
    ]
    notes: list[str] = []
    for name, found in results.items():
        lines.append(_row(name, found))
        notes += _reasons(name, found)
    lines += [
        "",
        "What did not go, and the first reason that `lock` or `build` gives:",
        "",
        *dict.fromkeys(notes),
        "",
        "`python -m tests.projects.record --build` makes this page again.",
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, found: dict[str, Any]) -> str:
    facts = PROJECTS[name]
    link = f"[{name}](https://github.com/{facts['repository']}/tree/{facts['commit']})"
    cells = [link, facts["kind"], str(found["left"])]
    cells += [_cell(found["targets"][target]) for target in TARGETS]
    cells.append(_built(found["build"]) if "build" in found else "")
    return f"| {' | '.join(cells)} |"


def _reasons(name: str, found: dict[str, Any]) -> list[str]:
    reasons = []
    for target in TARGETS:
        if why := found["targets"][target]["why"]:
            reasons.append(f"- {name}: {why}")
    if "build" in found and found["build"]["why"]:
        reasons.append(f"- {name}: built for cpu-linux: {found['build']['why']}")
    return reasons


def _accelerators(found: dict[str, Any], said: str | None = None) -> set[str]:
    """Return the accelerators that were locked, with any line added or with this one."""
    locked = {t: result for t, result in found["targets"].items() if not result["why"]}
    return {
        t.split("-")[0]
        for t, result in locked.items()
        if said in {None, result["said"]}
    }


def _needs_git_host(found: dict[str, Any]) -> bool:
    """Whether each target ended with a git host that does not answer."""
    whys = [found["targets"][target]["why"] for target in TARGETS]
    return all("github.com" in why for why in whys)


def _cell(result: dict[str, Any]) -> str:
    if result["why"]:
        return "no"
    said = " *s*" if result["said"] else ""
    return f"{result['packages']} in {result['seconds']:g} s{said}"


def _built(built: dict[str, Any]) -> str:
    return f"{'no' if built['why'] else 'yes'}, {built['seconds']:g} s"


def main() -> None:
    """Try projects, keep the results, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(PROJECTS))
    parser.add_argument("--build", action="store_true", help="build cpu-linux as well")
    parser.add_argument(
        "--expected", action="store_true", help="only write expected.json"
    )
    arguments = parser.parse_args()
    if arguments.expected:
        with tempfile.TemporaryDirectory() as folder:
            found = {name: of_init(name, Path(folder)) for name in PROJECTS}
        EXPECTED.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        return

    def attempt(name: str) -> tuple[str, dict[str, Any]]:
        with tempfile.TemporaryDirectory() as folder:
            return name, try_project(name, Path(folder), build=arguments.build)

    for name, found in ThreadPoolExecutor(2).map(attempt, arguments.names):
        known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
        known[name] = known.get(name, {}) | found
        known = {name: known[name] for name in PROJECTS if name in known}
        RESULTS.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
        PAGE.write_text(page(known), "utf-8")
        sys.stdout.write(f"{name}: {len(_accelerators(found))} accelerators\n")


if __name__ == "__main__":
    main()
