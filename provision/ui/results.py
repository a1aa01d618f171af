"""The view of each result of a verb, in a few lines."""

from __future__ import annotations

import shlex
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.findings import Diagnosis, Finding, worst_first
from provision.core.platforms import this_platform
from provision.core.program import elsewhere
from provision.core.text import plural, size
from provision.lockfile.requirers import THE_SPEC
from provision.ui.console import Console, print_text
from provision.ui.smoke import show_report

if TYPE_CHECKING:  # a verb loads what makes its own result
    from provision.commands.build_request import BuildResult
    from provision.commands.bundle import Bundle
    from provision.commands.edit_spec import Edited
    from provision.commands.evidence import Evidence
    from provision.commands.export import Export
    from provision.commands.freshness import Freshness
    from provision.commands.generations import Cleaned, RolledBack
    from provision.commands.init import Initialized, InitializedTarget
    from provision.commands.lock import (
        ArtifactChange,
        Confirmation,
        LockResult,
    )
    from provision.commands.status import ProjectStatus
    from provision.commands.submissions import Submission
    from provision.commands.update import RefreshResult
    from provision.environment.verification import Verification
    from provision.image.docker import BuiltImage
    from provision.report.fleet import Fleet

_LINES = 40  # of each part of a fleet
_EVIDENCE = {"valid": "bold green", "stale": "yellow", "refused": "bold red"}


def show_overview(result: ProjectStatus, console: Console) -> None:
    """Print a table, a row per target, and below it what is wrong with any of them."""
    columns = ("target", "platform", "lock", "built", "last checks", "what it is")
    rows = []
    for row in result.rows:
        summary = "see below" if row.status == "unreadable" else row.summary
        rows.append((row.name, row.platform, row.lock, row.proof, row.smoke, summary))
    console.table(columns, rows, spare=("platform", "last checks", "what it is"))
    for row in result.rows:
        if row.status == "unreadable":
            console.remark(f"{row.name}: {row.summary}")
        if row.exclude:
            console.remark(f"{row.name}: excludes {', '.join(row.exclude)}")
        if row.known_wrong and row.lock != "none":  # `lock` says it of one to be made
            names = ", ".join(row.known_wrong)
            console.remark(f"{row.name}: its torch is known to be wrong: {names}")
        if row.known_wrong_here:
            names = ", ".join(row.known_wrong_here)
            console.remark(f"{row.name}: known to be wrong on this machine: {names}")


def show_refresh(result: RefreshResult, console: Console) -> None:
    """Print what was added, vanished, or was refused."""
    added, completed = len(result.added), len(result.completed)
    console.line(f"{result.name}: {added} added, {completed} completed")
    for file in result.added + result.completed:
        console.line(f"  {file}")
    for file in result.vanished:
        console.remark(f"{file} is not listed any more; the catalog keeps it")
    for file in result.yanked:
        console.remark(f"yanked: {file}; the catalog keeps it")
    for new in result.reuploads:
        console.line(
            f"refused: {new.filename} differs from the file in the catalog\n"
            f"  known sha256 {new.known}, offered {new.offered}",
            "bold red",
        )
    for error in result.errors:
        console.error(error)


def show_bundle(result: Bundle, console: Console) -> None:
    """Print what a bundle lacks, or how it is used."""
    for item in result.missing:
        console.line(f"missing: {item}", "bold red")
    content = f"{plural(result.files, 'file')}, {size(result.size)} in {result.folder}"
    if result.missing:
        console.verdict(f"{result.target} is not complete: {content}", good=False)
        console.line(
            "put what is missing into a folder and name it with --wheelhouse DIR"
        )
    else:
        but = "" if result.python else ", but for a Python, which the machine needs"
        console.verdict(f"{result.target} is complete{but}: {content}", good=True)
        console.line(
            f"Copy the folder; on the other machine run `{result.command}` in it"
        )


def show_cleaned(result: Cleaned, console: Console) -> None:
    """Print the generations that were removed, and those that stay."""
    target, users = result.target, dict(result.in_use)
    for name, taken in result.removed:
        console.line(f"{target}: removed {name}, {size(taken)}")
    for name, taken in result.kept:
        console.line(f"{target}: kept {name}, {size(taken)}", "dim")
        if name in users:
            console.remark(
                f"{name} is in use by {users[name]}; run clean again when that program has ended"
            )
    if result.abandoned and result.kept:
        command = f"`{console.program} clean {target} --all`"
        console.remark(f"{target} has no spec any more; {command} removes what is kept")


def show_evidence(result: Evidence, console: Console) -> None:
    """Print whether a file of evidence is valid, and what it tells."""
    console.line(f"{result.state}: {result.file}", _EVIDENCE[result.state])
    if result.target:
        device = f"{result.target} on {result.device}"
        if result.driver != "-":
            device += f", driver {result.driver}"
        run = f"{result.day}, {result.checks} checks, key {result.key}"
        console.line(f"  {device}, {run}")
    if result.reason:
        console.line(f"  {result.reason}")


def show_submission(result: Submission, console: Console) -> None:
    """Print where a submission is, and what proposes it."""
    show_evidence(result.evidence, console)
    console.line("Next: propose the file; nothing else belongs into the pull request")
    for command in result.commands:
        console.command(command)
    console.line(f"Title of the pull request: {result.title}")


def show_image(result: BuiltImage, console: Console) -> None:
    """Print what was built, and how it is proven."""
    took = f"{size(result.size)}, in {result.seconds:.1f} s"
    console.line(f"{result.tag} is built: {took}", "bold green")
    if result.layout:
        console.line(f"{result.layout} has SHA-256 {result.sha256} (`sha256sum`)")
        console.line(f"its image has digest {result.digest} (`skopeo inspect`)")
    console.line("Next: prove it on its device")
    console.command(f"docker run --rm {result.tag}")


def show_initialized(
    result: Initialized, console: Console, platforms: Mapping[str, str]
) -> None:
    """Print what was written, what was left out, and what to do next."""
    console.line(f"wrote {', '.join(result.written) or 'nothing'}", "green")
    for target in result.targets:
        if target.spec is None:
            file = f"envs/{target.name}.toml"
            console.line(f"{target.name}: {file} exists and stays as it is")
        elif target.inherited:
            console.line(_inheritance(target))
    _show_differences(result.targets, console)
    for text in result.to_do:
        console.line(f"to do by hand: {text}", "yellow")
    if result.empty:
        console.line("none of the repository's requirements is in a spec", "red")
    else:
        _show_next(result.targets, console, platforms)


def _show_differences(targets: Sequence[InitializedTarget], console: Console) -> None:
    """Print what new specs change and leave out, each text once, with the names of its targets."""
    changed: dict[str, list[str]] = defaultdict(list)
    left_out: dict[str, list[str]] = defaultdict(list)
    for target in targets:
        for text in target.changed:
            changed[text].append(target.name)
        for text in target.left_out:
            left_out[text].append(target.name)
    for text, names in changed.items():
        console.line(f"{', '.join(names)}: {text}")
    for text, names in left_out.items():
        console.line(f"{', '.join(names)}: left out: {text}", "yellow")


def _inheritance(target: InitializedTarget) -> str:
    """Return what a new spec has from the shipped one, as a line."""
    names = ", ".join(target.inherited)
    line = f"{target.name}: inherits {names} from the shipped target"
    if target.packages:
        line += f", whose lock has {plural(target.packages, 'package')}"
    return line


def _show_next(
    targets: Sequence[InitializedTarget],
    console: Console,
    platforms: Mapping[str, str],
) -> None:
    """Print the commands that go on."""
    if open_ := [target.name for target in targets if not target.locked]:
        console.line("Next:")
        console.command(f"{console.program} lock {' '.join(open_)}")
    for target in targets:
        if target.locked:
            _show_build(target.name, platforms[target.name], console)


def _show_build(name: str, platform: str, console: Console) -> None:
    """Print the command that goes on; an environment is built where it runs."""
    if platform == this_platform():
        console.line("Next:")
        console.command(f"{console.program} build {name}")
        return
    console.line(f"Next, on a machine of {platform}:")
    console.command(f"{console.program} build {name}")
    console.line("or here, for such a machine that has no network:")
    console.command(f"{console.program} bundle {name} -o DIR")


def show_export(result: Export, console: Console) -> None:
    """Print the text, or where it was written; and what the format does not hold."""
    if result.file:
        console.line(f"{result.target} as {result.format}: {result.file}", "bold green")
    else:
        print_text(result.text)
    if result.left_out:
        console.note(f"this format does not hold {'; '.join(result.left_out)}")
    for note in result.notes:
        console.note(note)


def show_page(result: Export, console: Console) -> None:
    """Print where a page was written, and what it shows."""
    console.line(f"{result.file}: {'; '.join(result.notes)}", "bold green")


def show_verification(result: Verification, console: Console) -> None:
    """Print the findings, or the extent of the comparison."""
    for finding in result.findings:
        console.finding(finding)
    if not result.findings:
        depth = (
            f"{size(result.size)}, every {'hash' if result.tree else 'size'} compared"
        )
        counts = f"{result.distributions} packages, {result.files} files"
        console.line(f"as locked: {counts}, {depth}", "green")


def differences(findings: Sequence[Finding]) -> Finding:
    """Return all that a repair found as one finding, without the advice to repair it."""
    codes, causes, remedies, lines = [], [], [], []
    for finding in findings:
        codes.append(finding.code)
        causes.append(finding.cause)
        lines.append(f"{finding.symptom}: {', '.join(finding.evidence)}")
        if finding.remedy and "--repair" not in finding.remedy:
            remedies.append(finding.remedy)
    remedy = "\n".join(dict.fromkeys(remedies))
    first = worst_first([*findings])[0]
    if len(findings) == 1:
        return replace(first, remedy=remedy)
    return replace(
        first,
        symptom=f"{len(findings)} differences from the lock",
        code=", ".join(dict.fromkeys(codes)),
        evidence=tuple(lines),
        cause="\n".join(dict.fromkeys(causes)),
        remedy=remedy,
    )


def show_repaired(
    result: BuildResult, console: Console, drifted: Sequence[str]
) -> None:
    """Print the checks of a repaired environment, and what was done in one line."""
    if result.generation is None:
        show_build(result, console)
        return
    if result.report:
        show_report(result.report, console)
    record = result.generation.record
    replaced = f"{', '.join(drifted)} replaced" if drifted else "built again"
    checks = "checks passed"
    if record.proof == "unproven":
        checks = f"unproven: {record.reason}"
    elif record.proof == "skipped":
        checks = "not proven: the checks were left out"
    files = f"{plural(record.files, 'file')} as locked"
    line = f"repaired: {result.target}, {replaced}, {files}, {checks}"
    console.verdict(line, good=record.proof == "proven")


def show_rollback(result: RolledBack, console: Console) -> None:
    """Print the generation that is current now."""
    record = result.now.record
    console.line(
        f"{result.target}: {result.before} -> {result.now.folder.name}", "green"
    )
    console.line(
        f"in use now: built {record.built}, Python {record.python}, {record.proof}"
    )
    again = f"`{console.program} smoke {result.target}` runs them"
    line = f"no check was run, as no file differs from that build; {again}"
    console.line(line, "dim")


def show_diagnosis(
    result: Diagnosis,
    console: Console,
    log: str | None = None,
    *,
    has_notes: bool = False,
) -> None:
    """Print the facts, then the findings, and where they are from a log, what to do about doubt."""
    width = max(map(len, result.facts), default=0) + 1
    for name, value in result.facts.items():
        console.line(f"  {name + ':':<{width}} {value}", "dim", width + 3)
    for finding in result.findings:
        console.finding(finding)
    if not result.findings:
        other = "other " if has_notes else ""
        console.line(f"{result.examined}: no {other}known problem was found", "green")
    elif log:
        file = "FILE" if log == "-" else shlex.quote(log)
        console.note(
            f"these findings come from rules, which can be wrong; `provision doctor --log {file}"
            " --report` makes one short text of it, for somebody else or a chatbot to answer"
        )


def show_lock(result: LockResult, console: Console) -> None:
    """Print one target's new lock and what changed in it."""
    state = "unchanged"
    if result.differs:
        state = "changed" if result.changes else "none changed"
    if result.is_first:
        state = "locked for the first time"
    console.line(
        f"{result.target}: {plural(result.packages, 'package')}, {state}", "green"
    )
    if console.detailed or not result.is_first:
        show_changes(result.changes, console)


def show_edited(result: Edited, console: Console) -> None:
    """Print one edited target's new lock, and its build or how to build it."""
    show_lock(result.lock, console)
    if result.build:
        show_build(result.build, console)
    else:
        console.line(f"not built; `{console.program} build {result.lock.target}`")


def show_confirmation(result: Confirmation, console: Console) -> None:
    """Print whether the second resolver accepts the lock, and the differences."""
    answer = "accepts the lock"
    if result.differences:
        answer = "would install something else"
    line = f"{result.target}: pip-tools {answer}"
    console.verdict(line, good=not result.differences)
    show_changes(result.differences, console)


def show_freshness(result: Freshness, console: Console) -> None:
    """Print whether one lock is fresh, and else the command that locks it again."""
    line = f"{result.target}: fresh"
    if result.stale:
        again = f"`{console.program} lock {result.target}`"
        line = f"{result.target}: {result.stale}; {again}"
    console.verdict(line, good=not result.stale)
    if result.without_record and not result.stale:
        names = ", ".join(result.without_record)
        console.line(
            f"  it has no digest of the RECORD of {names}, whose files a build takes as uv has them; "
            "`lock` adds it where their index answers",
            "yellow",
        )


def show_changes(changes: Iterable[ArtifactChange], console: Console) -> None:
    """Print what differs between two locks."""
    for change in changes:
        versions = change.before or ""
        if change.after:
            versions = f"{versions} -> {change.after}".strip()
        # A line of the spec, or of a file that it names.
        users = ["the project" if user == THE_SPEC else user for user in change.via]
        line = f"  {change.kind:<8}{change.name} {versions} (via {', '.join(users)})"
        console.line(line)


def show_build(result: BuildResult, console: Console) -> None:
    """Print the checks, the verdict, and what to do next."""
    if result.report:
        show_report(result.report, console)
    if result.generation is None:
        line = (
            f"{result.target}: the checks failed, and the environment stays as it was"
        )
        console.verdict(line, good=False)
        console.line("`--no-smoke` builds it without them, so that it can be examined")
        return
    record = result.generation.record
    if result.plan is None and result.report is None:
        console.line(
            f"{result.target} is up to date ({record.proof}, built {record.built})",
            "green",
        )
        deep = f"`{console.program} verify {result.target} --deep`"
        console.line(
            f"  no file has another size, time or inode than when all were hashed; {deep} "
            "hashes them again",
            "dim",
        )
    else:
        counts = f"{len(record.distributions)} packages, {record.files} files, {size(record.size)}"
        console.verdict(
            f"{result.target} is ready: {counts}, every file as locked", good=True
        )
    if record.proof == "unproven":
        console.remark(f"unproven: {record.reason}")
    elif record.proof == "skipped":
        left = f"`{console.program} smoke {result.target}`"
        console.remark(f"not proven: the checks were left out; {left}")
    show_next_steps(result.target, result.generation.folder, console)


def show_next_steps(target: str, folder: Path, console: Console) -> None:
    """Print the commands that use an environment, the current generation of a target."""
    console.line(f"Next{elsewhere()}:")
    console.command(f"{console.program} run {target} -- python your_script.py")
    console.command(f"{console.program} smoke {target} --full")
    if activation := _activation(folder):
        console.command(f"or activate it: {activation}")


def _activation(folder: Path) -> str:
    """Return the line that activates an environment; a conda prefix has no script for it."""
    current = folder.parent / "current"
    if (folder / "conda-meta").is_dir():
        return ""
    if sys.platform == "win32":
        # FAT, exFAT and network drives know no links, so `current` may be absent there.
        prefix = current if current.exists() else folder
        path = str(prefix / "Scripts" / "activate")
        return f'& "{path}"' if " " in path else path  # as PowerShell takes it
    return f"source {shlex.quote(str(current / 'bin' / 'activate'))}"


def show_fleet(result: Fleet, console: Console) -> None:
    """Print the nodes worst first, and the files that were left out."""
    console.table(("state", "nodes", "what"), result.lines[:_LINES])
    for path, fault in result.files[:_LINES]:
        console.remark(f"left out {path}: {fault}")
    more = len(result.lines[_LINES:]) + len(result.files[_LINES:])
    if more:
        console.remark(f"{more} more lines: --json and --html have all")
    counts = ", ".join(f"{count} {state}" for state, count in result.counts.items())
    console.verdict(counts or "no verdict was found", good=not result.bad)
