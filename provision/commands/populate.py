"""Fill the folder of a new generation: plan, install, compare with the lock, record."""

import datetime as dt
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path

from provision import __version__
from provision.artifacts.wheel_records import local_records
from provision.commands.own_sources import install_local, with_built_wheels
from provision.commands.variants import doubts
from provision.core.errors import ToolError
from provision.core.filesystem import make_tagged, remove_tagged, sync_folder
from provision.core.prefix import dist_info_names, environment_python
from provision.core.process import Run
from provision.core.progress import Progress
from provision.core.project import Project
from provision.doctor.locked import refuse_built
from provision.environment.contents import Contents, read_contents
from provision.environment.interpreter import python_version, read_interpreter
from provision.environment.long_paths import check_path_lengths
from provision.environment.manifest import (
    Generation,
    Proof,
    Record,
    next_number,
    write_record,
)
from provision.environment.seal import Seal, generated_files, refuse_overwritten
from provision.environment.stamp import stamp
from provision.environment.verification import Verification
from provision.environment.verify import verify
from provision.installer import conda, uv
from provision.installer.install import (
    check_space,
    install_pip_layer,
    plan_install,
)
from provision.installer.plan import ArtifactSources, InstallPlan
from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import Lock
from provision.spec.model import Target


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """What a build installs, and where it takes it from."""

    project: Project
    target: Target
    lock: Lock  # with the records below
    supply: ArtifactSources  # with the wheels that were built from source
    # Digests of RECORDs that the lock does not have and wheelhouses do, by the wheel's SHA-256.
    records: dict[str, str]
    size: InstallPlan


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment that equals its lock, before any code of it ran."""

    plan: BuildPlan
    contents: Contents
    verification: Verification
    seal: Seal


def plan_build(
    project: Project,
    target: Target,
    lock: Lock,
    supply: ArtifactSources,
    *,
    run: Run,
    progress: Progress,
) -> BuildPlan:
    """Build what the lock has from source, and return what is left to install."""
    supply = with_built_wheels(project, lock, supply, run, progress)
    records = local_records(lock.open, supply.wheelhouses)
    lock = lock.with_records(records)
    size = plan_install(lock, supply)
    return BuildPlan(project, target, lock, supply, records, size)


def install_verified(
    prefix: Path, plan: BuildPlan, run: Run, progress: Progress
) -> Installed:
    """Install a plan into a tagged folder; ToolError unless every file is then as locked."""
    check_space(prefix, plan.size.disk)
    progress.step(str(plan.size))
    installed = _install_and_compare(prefix, plan, run, progress)
    drifted = installed.verification.drifted
    changed = [name for name in drifted if name in plan.lock.versions]
    if changed:
        # uv hashes a wheel when it downloads it, and never again what it keeps of it.
        names = ", ".join(changed)
        progress.note(f"uv's cache does not have what is locked of {names}: fetching")
        uv.clean_cache(changed, run)
        remove_tagged(prefix)
        make_tagged(prefix)
        installed = _install_and_compare(prefix, plan, run, progress)
    verification = installed.verification
    _require_equal(verification, plan.target)
    refuse_built(prefix, plan.target)
    for doubt in doubts(plan.target, plan.lock, plan.project):
        progress.note(doubt)
    unknown = []
    for artifact in plan.lock.artifacts:
        if artifact.sha256 in verification.unlocked_records:
            unknown.append(artifact.name)
    if unknown:
        names = ", ".join(unknown)
        progress.note(f"no RECORD is known of {names}: its files are as uv had them")
    return installed


def _install_and_compare(
    prefix: Path, plan: BuildPlan, run: Run, progress: Progress
) -> Installed:
    """Install both layers into a tagged folder, and compare every file with the lock."""
    _make_prefix(prefix, plan, run, progress)
    uv.write_pip_shim(prefix, plan.lock)
    python = environment_python(prefix)
    before = generated_files(prefix)
    try:
        install_pip_layer(
            python,
            plan.lock,
            plan.project.variants,
            plan.supply,
            run=run,
            progress=progress,
        )
        install_local(
            python,
            plan.target,
            plan.project.root,
            plan.supply,
            run=run,
            progress=progress,
        )
    finally:  # an installer fails, too, when a wheel has replaced the interpreter
        made = refuse_overwritten(prefix, before)
    # Before its files are hashed: one that changes meanwhile is another than was hashed.
    as_left = stamp(prefix)
    contents = read_contents(prefix, plan.target.name)
    check_path_lengths(contents, progress)
    progress.step("comparing every file with its hash")
    verification = verify(contents, plan.lock, plan.target.pip.forbid, deep=True)
    seal = Seal(made, plan.records | verification.unlocked_records, stamp=as_left)
    return Installed(plan, contents, verification, seal)


def _make_prefix(prefix: Path, plan: BuildPlan, run: Run, progress: Progress) -> None:
    """Make the prefix for the pip layer: a conda prefix if the lock has one, else a venv."""
    packages = conda_packages(plan.lock)
    if not packages:
        version = plan.target.python_version
        progress.step(f"making an environment with Python {version}")
        uv.make_venv(prefix, version, plan.target.name, run)
        return
    progress.step(f"installing {len(packages)} packages of the conda layer")
    conda.make_prefix(
        prefix,
        packages,
        plan.project.archives,
        supply=plan.supply,
        run=run,
        progress=progress,
    )


def _require_equal(verification: Verification, target: Target) -> None:
    if not verification.findings:
        return
    lines = []
    for finding in verification.findings:
        lines.append(f"{finding.symptom}: {', '.join(finding.evidence)}")
    raise ToolError(
        f"what was installed for {target.name} is not what is locked",
        evidence="\n".join(lines),
        cause="the installer's cache holds changed files, or the disk is failing",
        remedy="empty the cache with `uv cache clean`, then build again",
    )


def record_generation(
    installed: Installed, proof: Proof, reason: str = ""
) -> Generation:
    """Write what was built, and of what; from then on the generation is finished.

    ``reason``: why the quick checks were not run, where that is not the user's wish.
    """
    prefix = installed.contents.prefix
    # A record on the disk says that the files are there too.
    sync_folder(prefix, with_files=True)
    python = python_version(prefix)
    plan, verification = installed.plan, installed.verification
    record = Record(
        target=plan.target.name,
        lock=plan.lock.digest,
        spec=plan.target.digest(),
        local=tuple(sorted(plan.lock.local)),
        python=python,
        interpreter=read_interpreter(prefix, python),
        tools={"provision": __version__, "uv": importlib.metadata.version("uv")},
        distributions=tuple(sorted(dist_info_names(prefix))),
        tree=verification.tree or "",
        files=verification.files,
        size=verification.size,
        proof=proof,
        reason=reason,
        built=dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
        path=str(prefix),
        number=next_number(prefix.parent),
    )
    return write_record(prefix, record, installed.seal)
