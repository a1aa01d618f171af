"""Fill the folder of a new generation: install, compare with the lock, check, record."""

import datetime as dt
import importlib.metadata
from dataclasses import replace
from pathlib import Path

from provision import __version__
from provision.artifacts.wheel_records import local_records
from provision.commands.build import BuildRequest, BuildResult, run_checks
from provision.commands.own_sources import install_local, with_built_wheels
from provision.core.errors import ToolError
from provision.core.filesystem import make_tagged, remove_tagged, sync_folder
from provision.core.prefix import dist_info_names, environment_python
from provision.core.process import Run
from provision.core.progress import Progress
from provision.doctor.locked import refuse_built
from provision.environment.interpreter import python_version, read_interpreter
from provision.environment.long_paths import check_path_lengths
from provision.environment.manifest import Record, next_number, write_record
from provision.environment.seal import Seal, generated_files, refuse_overwritten
from provision.environment.verify import Verification, verify
from provision.installer import conda, uv
from provision.installer.install import check_space, install_pip_layer, plan_install
from provision.installer.uv import write_pip_shim
from provision.lockfile.conda import conda_packages


def populate_prefix(
    folder: Path, request: BuildRequest, run: Run, progress: Progress
) -> BuildResult:
    """Build the requested environment in a tagged folder: install, verify, check, record."""
    supply = with_built_wheels(
        request.project, request.lock, request.supply, run, progress
    )
    known = local_records(request.lock.open, supply.wheelhouses)
    request = replace(request, supply=supply, lock=request.lock.with_records(known))
    plan = plan_install(request.lock, request.supply)
    check_space(folder, plan.disk)
    progress.step(str(plan))
    verification = _install(folder, request, run, progress)
    if foreign := [
        name for name in verification.drifted if name in request.lock.versions
    ]:
        # uv hashes a wheel when it downloads it, and never again what it keeps of it.
        progress.note(
            f"uv's cache does not have what is locked of {', '.join(foreign)}: fetching"
        )
        uv.clean_cache(foreign, run)
        remove_tagged(folder)
        make_tagged(folder)
        verification = _install(folder, request, run, progress)
    if found := verification.findings:
        lines = (f"{f.symptom}: {', '.join(f.evidence)}" for f in found)
        raise ToolError.of("installed-otherwise", *lines, target=request.target.name)
    refuse_built(folder, request.target)
    if open_ := [
        a.name for a in request.lock.artifacts if a.sha256 in verification.unvouched
    ]:
        progress.note(
            f"no RECORD is known of {', '.join(open_)}: its files are as uv had them"
        )
    # Before the checks: they run code of the environment.
    seal = Seal(generated_files(folder), known | verification.unvouched)
    report = run_checks(folder, request, run, progress)
    if report and not report.proves:
        return BuildResult(request.target.name, None, plan, verification, report)
    sync_folder(
        folder, with_files=True
    )  # a record on the disk says that the files are there too
    made = write_record(folder, _record(folder, request, verification), seal)
    return BuildResult(request.target.name, made, plan, verification, report)


def _install(
    folder: Path, request: BuildRequest, run: Run, progress: Progress
) -> Verification:
    """Install both layers into a tagged folder, and compare every file with the lock."""
    _make_prefix(folder, request, run, progress)
    write_pip_shim(folder, request.lock)
    before = generated_files(folder)
    try:
        install_pip_layer(
            environment_python(folder), request.lock, request.supply, run, progress
        )
        install_local(environment_python(folder), request, run, progress)
    finally:  # an installer fails, too, when a wheel has replaced the interpreter
        refuse_overwritten(folder, before)
    check_path_lengths(folder, progress)
    progress.step("comparing every file with its hash")
    return verify(folder, request.lock, request.target.pip.forbid, deep=True)


def _make_prefix(
    folder: Path, request: BuildRequest, run: Run, progress: Progress
) -> None:
    """Make the prefix for the pip layer: a conda prefix if the lock has one, else a venv."""
    packages = conda_packages(request.lock)
    if not packages:
        version = request.target.python_version
        progress.step(f"making an environment with Python {version}")
        uv.make_venv(folder, version, request.target.name, run)
        return
    progress.step(f"installing {len(packages)} packages of the conda layer")
    archives, supply = request.project.archives, request.supply
    conda.make_prefix(
        folder, packages, archives, supply=supply, run=run, progress=progress
    )


def _record(folder: Path, request: BuildRequest, verification: Verification) -> Record:
    python = python_version(folder)
    return Record(
        target=request.target.name,
        lock=request.lock.digest,
        spec=request.target.digest(),
        python=python,
        interpreter=read_interpreter(folder, python),
        tools={"provision": __version__, "uv": importlib.metadata.version("uv")},
        distributions=tuple(sorted(dist_info_names(folder))),
        tree=verification.tree or "",
        files=verification.files,
        size=verification.size,
        proof="unproven"
        if request.absent
        else "proven"
        if request.smoke
        else "skipped",
        reason=request.absent,
        built=dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
        path=str(folder),
        number=next_number(folder.parent),
    )
