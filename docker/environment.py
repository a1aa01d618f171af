"""Make an environment in the build of an image; only the Dockerfile runs this program.

The environment is installed at its final path, which scripts and bytecode contain, and then moved
to a folder that the last stage of the Dockerfile copies. Everything that differs between two builds
of one lock is removed or set: files that no program uses go, bytecode is compiled in a fixed order,
and times and modes are set. So two builds have equal layers.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import fnmatch
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from provision.commands.populate import (
    BuildPlan,
    install_verified,
    plan_build,
    record_generation,
)
from provision.commands.request import artifact_sources
from provision.core.errors import ProvisionError, ToolError
from provision.core.filesystem import make_tagged, write_atomic
from provision.core.process import Run, environment_python, run
from provision.core.project import Project
from provision.core.text import harmless
from provision.environment.conda_meta import FOLDER
from provision.environment.contents import read_contents
from provision.environment.installed import installed_distributions
from provision.environment.manifest import Generation, write_record
from provision.environment.verify import verify
from provision.image.context import PREFIX
from provision.installer.uv import remove_pip_shim
from provision.lockfile.pip import Lock, read_lock
from provision.spec.reader import load_target

if TYPE_CHECKING:
    from provision.spec.model import Target

LEFT_OUT = "left-out.txt"
PYTHON = Path("/opt/python")  # where the Dockerfile unpacks it
# Fixed, because bytecode depends on what the same process compiled before (shared constants are
# written as references). More than the cores of a small machine, so that all of them stay busy.
_SHARES = 8


class _LogProgress:
    """Writes the steps to the log of the build."""

    def step(self, text: str, *_: object) -> None:
        sys.stderr.write(harmless(f"· {text}\n") if text else "")

    def note(self, text: str) -> None:
        sys.stderr.write(harmless(f"! {text}\n"))


def main(argv: Sequence[str] | None = None) -> int:
    """Make the environment of a target in :data:`PREFIX`, then move it below ``--out``."""
    parser = argparse.ArgumentParser(prog="environment.py")
    parser.add_argument("target")
    parser.add_argument("--project", type=Path, required=True)
    parser.add_argument("--wheelhouse", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--offline", action="store_true")
    arguments = parser.parse_args(argv)
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    project = Project(arguments.project)
    target = load_target(project.specs, arguments.target)
    lock = read_lock(project.lock(target.name))
    try:
        supply = artifact_sources(
            project, target, [arguments.wheelhouse], offline=arguments.offline
        )
        progress = _LogProgress()
        plan = plan_build(project, target, lock, supply, run=run, progress=progress)
        make(plan, PREFIX, epoch, run)
    except ProvisionError as error:
        for part in (error.what, error.evidence, error.cause, error.remedy):
            sys.stderr.write(harmless(f"{part}\n") if part else "")
        return int(error.exit_code)
    _LogProgress().step("setting all times")
    # A conda layer has its own Python; else the environment needs this one, which it is made of.
    for folder in [PREFIX] if target.conda else [PREFIX, PYTHON]:
        place = arguments.out / folder.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder, place)
    set_times(arguments.out, epoch)
    return 0


def make(plan: BuildPlan, prefix: Path, epoch: int, run: Run) -> None:
    """Install a prefix, compare it with the lock, then make it small and reproducible.

    Files are removed only after the comparison, so that it covers every file of the lock.

    Raises:
        ToolError: An artifact is not available, or what was installed differs from the lock.
    """
    progress = _LogProgress()
    make_tagged(prefix)
    installed = install_verified(prefix, plan, run, progress)
    generation = record_generation(installed, "skipped")
    progress.step("removing files that no program uses")
    removed = leave_out(
        installed.contents.site, _patterns(plan.project.root / "docker")
    )
    write_atomic(prefix / LEFT_OUT, "".join(f"{path}\n" for path in removed))
    progress.step("compiling imported modules")
    script = plan.project.root / "docker" / "bytecode.py"
    compile_imported(prefix, plan.target, script, run)
    remove_pip_shim(prefix)  # it explains a command that no image has
    _drop_cache_paths(prefix)
    _rewrite_record(generation, plan.lock, plan.target, epoch)


def _patterns(folder: Path) -> list[str]:
    lines = [
        line
        for path in sorted(folder.glob("leave-out*.txt"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return [line for line in lines if line and not line.startswith("#")]


def leave_out(site: Path, patterns: Iterable[str]) -> list[str]:
    """Remove files that match a pattern, and their rows in RECORD; return their paths.

    RECORD stays correct, so that `verify` still covers all other files.
    """
    removed: list[str] = []
    chosen = list(patterns)
    for dist in installed_distributions(site):
        table = dist.folder / "RECORD"
        with table.open(encoding="utf-8", newline="") as stream:
            rows = [row for row in csv.reader(stream) if row]
        leaving = {
            row[0] for row in rows if any(fnmatch.fnmatch(row[0], p) for p in chosen)
        }
        if leaving:
            with table.open("w", encoding="utf-8", newline="") as stream:
                keep = [row for row in rows if row[0] not in leaving]
                csv.writer(stream, lineterminator="\n").writerows(keep)
            removed += leaving
    for path in removed:
        (site / path).unlink()
    _remove_empty({(site / path).parent for path in removed}, site)
    return sorted(removed)


def _remove_empty(folders: set[Path], top: Path) -> None:
    for folder in folders:
        while folder != top and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent  # noqa: PLW2901 - goes up


def compile_imported(prefix: Path, target: Target, script: Path, run: Run) -> None:
    """Compile the modules that importing the packages of a spec loads.

    All bytecode would take 150 MB more, and none would slow down every start of a container, which
    cannot write its own.

    Raises:
        ToolError: A file of the environment cannot be compiled.
    """
    # A fixed hash seed: the order of a set constant is part of the bytecode. So not -I, which
    # ignores PYTHONHASHSEED.
    python = [str(environment_python(prefix)), "-s", "-P", "-B", str(script)]
    variables = {"PATH": os.defpath, "PYTHONHASHSEED": "0"} | target.variables(prefix)
    names = [Requirement(text).name for text in target.pip.requirements]
    listed = run([*python, "list", *names], env=variables)
    paths = listed.require(
        "could not list what the environment imports"
    ).stdout.splitlines()

    def compile_share(start: int) -> None:
        share = "\n".join(paths[start::_SHARES])
        done = run([*python, "compile"], env=variables, stdin=share)
        done.require("could not compile the environment")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_share, range(_SHARES)))


def _rewrite_record(
    generation: Generation, lock: Lock, target: Target, epoch: int
) -> None:
    """Verify again, and write the record with the remaining files and the fixed time.

    Raises:
        ToolError: A removed file is needed.
    """
    contents = read_contents(generation.folder, target.name)
    result = verify(contents, lock, target.pip.forbid, deep=False)
    if result.findings:
        evidence = "\n".join(finding.symptom for finding in result.findings)
        remedy = "remove the pattern at fault from docker/leave-out*.txt"
        raise ToolError(
            "removing files broke the environment", evidence=evidence, remedy=remedy
        )
    moment = dt.datetime.fromtimestamp(epoch, dt.UTC).isoformat(timespec="seconds")
    facts = {"files": result.files, "size": result.size, "built": moment}
    write_record(generation.folder, generation.record.model_copy(update=facts))


def _drop_cache_paths(prefix: Path) -> None:
    """Remove the paths of unpacked packages from conda's records: they differ in each build."""
    for path in (prefix / FOLDER).glob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        for key in ("extracted_package_dir", "link"):
            document.pop(key, None)
        write_atomic(path, json.dumps(document, indent=2) + "\n")


def set_times(folder: Path, epoch: int) -> None:
    """Set one time for everything in a folder, and modes that do not depend on the umask."""
    for base, names, leaves in os.walk(folder, topdown=False):
        for name in (*names, *leaves):
            path = Path(base, name)
            if not path.is_symlink():
                path.chmod(
                    0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644
                )
            os.utime(path, (epoch, epoch), follow_symlinks=False)
    os.utime(folder, (epoch, epoch))


if __name__ == "__main__":
    sys.exit(main())
