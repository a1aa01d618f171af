"""The verb ``verify``: compare the generation in use with its lock and its seal."""

from collections.abc import Iterator
from dataclasses import replace

from provision.commands.current import current_folder
from provision.core.findings import Finding, Level
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
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_target


def verify_current(project: Project, target: str, *, deep: bool) -> Verification:
    """Compare a target's current generation with lock and seal, ``deep`` by every file's hash."""
    forbid = load_target(project.specs, target).pip.forbid
    folder = current_folder(project, target)
    seal = read_seal(folder)
    lock = read_lock(project.lock(target)).with_records(seal.records if seal else {})
    contents = read_contents(folder, target)
    result = verify(contents, lock, forbid, deep=deep)
    findings = [*result.findings, *seal_findings(folder, seal)]
    if deep:
        findings += _deep_findings(contents)
    return replace(result, findings=of_target(findings, target))


def _deep_findings(contents: Contents) -> Iterator[Finding]:
    """Yield what is wrong with the interpreter and the bytecode, which no RECORD lists."""
    generation = read_generation(contents.prefix)
    assert generation is not None  # noqa: S101 - current_folder() saw its record
    built = generation.record.interpreter
    interpreter = list(interpreter_findings(contents.prefix, built))
    yield from interpreter
    # One that nobody vouches for is not run, and without it nothing can be said of bytecode.
    if all(finding.level is not Level.ERROR for finding in interpreter):
        yield from bytecode_findings(contents.prefix, contents.site, run)
