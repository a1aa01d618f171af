"""The verb ``verify``: compare the generation in use with its lock and its seal."""

from collections.abc import Iterable
from dataclasses import replace

from provision.commands.current import current_folder
from provision.core.findings import Finding, Level
from provision.core.prefix import environment_python
from provision.core.process import run
from provision.core.project import Project
from provision.environment.bytecode import bytecode_findings
from provision.environment.contents import Contents, read_contents
from provision.environment.findings import of_target
from provision.environment.interpreter import interpreter_findings
from provision.environment.manifest import read_generation
from provision.environment.seal import read_seal, seal_findings
from provision.environment.verification import Verification
from provision.environment.verify import verify
from provision.lockfile.pip import Lock, read_lock
from provision.spec.model import ForbiddenDistribution
from provision.spec.reader import load_target


def verify_current(project: Project, target: str, *, deep: bool) -> Verification:
    """Compare a target's current generation with lock and seal, ``deep`` by every file's hash."""
    forbid = load_target(project.specs, target).pip.forbid
    contents = read_contents(current_folder(project, target), target)
    lock = read_lock(project.lock(target))
    result = verify_generation(contents, lock, forbid, deep=deep)
    findings = list(result.findings)
    # An interpreter that nobody vouches for is not run, and without it nothing can be said.
    if deep and not any(map(_is_of_python, findings)):
        findings += bytecode_findings(contents.prefix, contents.site, run)
    return replace(result, findings=of_target(findings, target))


def verify_generation(
    contents: Contents,
    lock: Lock,
    forbid: Iterable[ForbiddenDistribution],
    *,
    deep: bool,
) -> Verification:
    """Compare a generation with lock, seal and interpreter: all but its bytecode."""
    folder = contents.prefix
    seal = read_seal(folder)
    if seal:
        lock = lock.with_records(seal.records)
    result = verify(contents, lock, forbid, deep=deep)
    findings = [*result.findings, *seal_findings(folder, seal)]
    generation = read_generation(folder)
    # One that is gone is found without a hash, and told first: nothing runs without it.
    if generation and (deep or not environment_python(folder).exists()):
        built = generation.record.interpreter
        findings = [*interpreter_findings(folder, built), *findings]
    return replace(result, findings=of_target(findings, lock.folder.name))


def _is_of_python(finding: Finding) -> bool:
    """Whether it says that the interpreter is gone, or may be another program."""
    of_python = finding.code in {"changed-interpreter", "changed-prefix"}
    # After an update of the system its findings are warnings.
    return of_python and finding.level is Level.ERROR
