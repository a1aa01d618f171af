"""The command: a parser, short handlers, and the one place where errors are caught."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from provision import __version__
from provision.core.errors import Exit, ProvisionError, SpecError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provision.commands.build import BuildRequest
    from provision.commands.detect import Detection
    from provision.commands.lock import LockResult
    from provision.commands.smoke import Subject
    from provision.core.findings import Diagnosis, Finding
    from provision.core.project import Project
    from provision.environment.manifest import Generation
    from provision.environment.verify import Verification
    from provision.installer.install import ArtifactSources
    from provision.lockfile.pip import Lock
    from provision.report.model import Report
    from provision.resolver.resolver import Resolver
    from provision.spec.model import Target
    from provision.ui.console import Console

# Handlers import what they need: `provision --help` loads neither pydantic nor rich, and a build
# that finds nothing to do loads no resolver.
# ruff: noqa: PLC0415


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; see :class:`provision.core.errors.Exit`."""
    arguments = parser().parse_args(argv)
    if arguments.verbose:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; nothing was changed\n")
        return Exit.INTERRUPTED
    except ProvisionError as error:
        if arguments.debug:
            raise
        return _fail(arguments, error)


def _dispatch(arguments: argparse.Namespace) -> int:
    from provision.core import project
    from provision.ui.console import Console, print_json

    console = Console(_program())
    start = arguments.project or Path.cwd()
    result, code = arguments.handler(arguments, project.find_project(start), console)
    if result is None:
        return int(code)
    if arguments.json:
        print_json(arguments.verb, result)
    else:
        from provision.ui.render import show

        show(result, console)
    return int(code)


def _fail(arguments: argparse.Namespace, error: ProvisionError) -> int:
    from provision.ui.console import Console, print_json

    if arguments.json:
        print_json(arguments.verb, {"error": error})
    Console(_program()).error(error)
    return int(error.exit_code)


def _program() -> str:
    """Return how this command can be called again from here."""
    script = Path(sys.executable).with_name("provision.exe" if os.name == "nt" else "provision")
    if not script.is_file() or shutil.which("provision") == str(script):
        return "provision"
    return os.path.relpath(script)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print the result as JSON on stdout")
    common.add_argument("--project", type=Path, metavar="DIR", help="the clone to work in")
    common.add_argument("--debug", action="store_true", help="show tracebacks")
    common.add_argument("-v", "--verbose", action="store_true", help="show every command that runs")
    top = argparse.ArgumentParser(
        prog="provision",
        description="Reproducible PyTorch environments, one per kind of hardware.",
        epilog="Exit codes: 0 good, 1 findings, 2 usage or spec, 3 a tool or the network failed, "
        "130 interrupted.",
    )
    top.add_argument("--version", action="version", version=f"provision {__version__}")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, handler: object, summary: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, parents=[common], help=summary, description=summary)
        made.set_defaults(handler=handler)
        return made

    verb("targets", _targets, "list every target: lock, environment, last verdict")
    verb("detect", _detect, "this machine: devices, drivers, and which target fits")
    _add_build(verb("build", _build, "lock -> a verified, proven, current environment"))
    _add_lock(verb("lock", _lock, "spec and catalog -> lock; prints what changed"))
    update = verb("update", _update, "refresh the catalogs from the network")
    update.add_argument(
        "names", nargs="*", metavar="NAME", help="an index or channel; all of them if none is named"
    )
    check = verb("verify", _verify, "is what is installed what is locked?")
    check.add_argument("target")
    check.add_argument("--deep", action="store_true", help="compare the hash of every file")
    check.add_argument("--repair", action="store_true", help="replace what drifted; implies --deep")
    _add_making(check)
    _add_smoke(verb("smoke", _smoke, "run the checks, compare with the last good report"))
    page = verb("report", _report, "one HTML page of a target's reports on this host")
    page.add_argument("target")
    page.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: TARGET.html")
    run = verb("run", _run, "run a command in the clean environment")
    run.add_argument("target")
    run.add_argument("command", nargs="+", metavar="-- CMD", help="the command and its arguments")
    _add_docker(verb("docker", _docker, "lock -> the image of a Linux target"))
    listed = verb("sbom", _sbom, "print what is in a target, as CycloneDX JSON")
    listed.add_argument("target")
    back = verb("rollback", _rollback, "go back to the generation before the current one")
    back.add_argument("target")
    _add_clean(verb("clean", _clean, "remove generations that are not in use"))
    bundle = verb("bundle", _bundle, "everything that a machine without a network needs")
    bundle.add_argument("target")
    bundle.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR",
        help="a folder that does not exist, or an earlier bundle to go on with",
    )  # fmt: skip
    _add_wheelhouse(bundle)
    _add_doctor(verb("doctor", _doctor, "what is wrong with an environment, a log, this machine"))
    verb("schema", _schema, "print the JSON Schema of a spec")
    return top


def _add_build(build: argparse.ArgumentParser) -> None:
    build.add_argument("target", help="a target's name, or `auto` for the one that fits")
    _add_making(build)


def _add_wheelhouse(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--wheelhouse", type=Path, action="append", default=[], metavar="DIR",
        help="a folder of wheels to take from first; may be given again",
    )  # fmt: skip


def _add_making(verb: argparse.ArgumentParser) -> None:
    _add_wheelhouse(verb)
    verb.add_argument("--offline", action="store_true", help="ask no index at all")
    verb.add_argument("--no-smoke", action="store_true", help="leave out the quick checks")


def _add_smoke(smoke: argparse.ArgumentParser) -> None:
    smoke.add_argument("target")
    suites = smoke.add_mutually_exclusive_group()
    suites.add_argument("--quick", action="store_true", help="what gates a build; the default")
    suites.add_argument("--full", action="store_true", help="all checks: minutes")
    whose = smoke.add_mutually_exclusive_group()
    whose.add_argument(
        "--if-driver-changed", action="store_true",
        help="only where driver, kernel, runtime or lock differ from the last report",
    )  # fmt: skip
    whose.add_argument(
        "--against", type=Path, metavar="PYTHON", help="check another environment; keeps no report"
    )
    smoke.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML as well")


def _add_doctor(doctor: argparse.ArgumentParser) -> None:
    patient = doctor.add_mutually_exclusive_group()
    patient.add_argument(
        "--python", metavar="PATH", help="an interpreter, its folder, or a command such as python3"
    )
    patient.add_argument("--log", metavar="FILE", help="what a program printed; - reads it here")
    doctor.add_argument("--target", help="what the environment is meant to be; ours without PATH")


def _add_clean(clean: argparse.ArgumentParser) -> None:
    clean.add_argument("targets", nargs="*", metavar="TARGET", help="all of them if none is named")
    clean.add_argument(
        "--keep", type=int, default=0, metavar="N", help="keep N besides the current one"
    )
    clean.add_argument("--all", action="store_true", help="remove the current one too")


def _add_docker(docker: argparse.ArgumentParser) -> None:
    docker.add_argument("target")
    docker.add_argument(
        "--print", action="store_true", help="prepare the build's folder and print its command"
    )
    docker.add_argument("--base-image", metavar="IMAGE", help="instead of the pinned Debian")
    docker.add_argument(
        "--wheelhouse", type=Path, action="append", default=[], metavar="DIR",
        help="a folder of wheels to take from first; may be given again",
    )  # fmt: skip
    docker.add_argument("--offline", action="store_true", help="give the build no network at all")
    docker.add_argument("--dev", action="store_true", help="with a C++ compiler and headers")
    docker.add_argument("--oci", type=Path, metavar="FILE", help="also write an OCI layout")


def _add_lock(lock: argparse.ArgumentParser) -> None:
    lock.add_argument("targets", nargs="*", metavar="TARGET", help="all of them if none is named")
    lock.add_argument("--check", action="store_true", help="only say whether the locks are fresh")
    lock.add_argument(
        "--resolve", action="store_true", help="with --check: resolve again, compare the bytes"
    )
    lock.add_argument(
        "--upgrade", nargs="?", const="", metavar="PKG",
        help="move the cut-off to today, for one package or (without PKG, last) for all",
    )  # fmt: skip
    lock.add_argument(
        "--engine", choices=["uv", "pip-tools"], default="uv",
        help="the resolver; pip-tools only for this platform; with --check a second opinion",
    )  # fmt: skip


def _targets(_: argparse.Namespace, project: Project, __: Console) -> tuple[object, int]:
    from provision.commands.status import target_statuses

    return target_statuses(project), Exit.OK


def _schema(_: argparse.Namespace, __: Project, ___: Console) -> tuple[object, int]:
    import json

    from provision.spec.model import spec_schema

    sys.stdout.write(json.dumps(spec_schema(), indent=2) + "\n")
    return None, Exit.OK


def _detect(_: argparse.Namespace, project: Project, __: Console) -> tuple[object, int]:
    return _detection(project), Exit.OK


def _detection(project: Project) -> Detection:
    from provision.catalog.devices import read_devices
    from provision.commands.detect import detect
    from provision.host.probe import read_host
    from provision.spec.reader import read_hardware

    return detect(read_hardware(project.specs), read_host(read_devices(project.catalog)))


def _lock(arguments: argparse.Namespace, project: Project, console: Console) -> tuple[object, int]:
    from provision.commands import lock
    from provision.spec.reader import load_target, target_names

    names = arguments.targets or target_names(project.specs)
    wished = [load_target(project.specs, name) for name in names]
    second = arguments.engine == "pip-tools"
    if arguments.resolve and not arguments.check:
        raise UsageError("--resolve goes with --check")
    if arguments.check and not (arguments.resolve or second):
        fresh = lock.check_freshness(wished, project)
        return fresh, Exit.FINDINGS if any(f.stale for f in fresh) else Exit.OK
    from provision.artifacts.pip_config import read_pip_config
    from provision.core.process import run
    from provision.resolver.resolver import Resolver

    found = read_pip_config()
    resolver = Resolver(project.catalog, found, run, console, engine=arguments.engine)
    if arguments.check and second:
        opinions = [lock.confirm_with_pip_tools(target, project, resolver) for target in wished]
        return opinions, Exit.FINDINGS if any(o.differences for o in opinions) else Exit.OK
    if arguments.upgrade is not None:
        return [_upgrade(target, project, resolver, arguments.upgrade) for target in wished], 0
    results = lock.lock(wished, project, resolver, write=not arguments.check)
    differs = arguments.check and any(result.differs for result in results)
    failed = [int(result.error.exit_code) for result in results if result.error]
    return results, max([*failed, int(Exit.FINDINGS if differs else Exit.OK)])


def _upgrade(target: Target, project: Project, resolver: Resolver, package: str) -> LockResult:
    import datetime as dt

    from provision.commands.lock import lock
    from provision.commands.upgrade import upgrade

    today = dt.datetime.now(dt.UTC).date()
    with upgrade(target, project, package or None, today) as newer:
        (result,) = lock([newer], project, resolver)
        if result.error:
            raise result.error
    return result


def _update(
    arguments: argparse.Namespace, project: Project, console: Console
) -> tuple[object, int]:
    from provision.commands.update import update
    from provision.core.process import run
    from provision.spec.reader import load_spec, target_names

    wished = [load_spec(project.specs / f"{name}.toml") for name in target_names(project.specs)]
    downloads = project.root / ".cache" / "update"
    with console.downloads() as on_bytes:
        results = update(
            project, wished, downloads,
            progress=console, on_bytes=on_bytes, run=run, only=arguments.names,
        )  # fmt: skip
    failed = [int(error.exit_code) for result in results for error in result.errors]
    return results, max([*failed, int(any(result.bad for result in results))])


def _build(arguments: argparse.Namespace, project: Project, console: Console) -> tuple[object, int]:
    from provision.commands.build import build
    from provision.core.process import run

    found = _chosen(project, console) if arguments.target == "auto" else None
    if found and found.chosen:
        arguments.target = found.chosen
    built = build(_order(arguments, project, console), run, console)
    # Said before the building too, but that has scrolled away.
    for fit in found.better if found else ():
        console.note(f"{fit.target} would serve you better; {fit.remedy}, then build again")
    return built, Exit.OK if built.generation else Exit.FINDINGS


def _order(arguments: argparse.Namespace, project: Project, console: Console) -> BuildRequest:
    from provision.commands.build import BuildRequest
    from provision.spec.reader import load_target

    target = load_target(project.specs, arguments.target)
    _check_platform(target)
    if target.status == "legacy":
        console.note(f"{target.name} is legacy: {target.reason}")
    lock = _fresh_lock(project, target)
    supply = _supply(arguments, project, target)
    absent = "" if target.accelerator == "cpu" else _absent(project, target)
    return BuildRequest(
        project,
        target,
        lock,
        supply,
        smoke=not arguments.no_smoke,
        absent=absent,
        stack=lambda: _stack(project),
    )


def _supply(arguments: argparse.Namespace, project: Project, target: Target) -> ArtifactSources:
    from provision.artifacts.pip_config import read_pip_config
    from provision.catalog.snapshot import index_address
    from provision.installer.install import ArtifactSources

    found = read_pip_config()
    indexes = {index: index_address(project.catalog, index) for index in target.pip.index}
    return ArtifactSources(
        wheelhouses=(*_wheelhouses(arguments.wheelhouse), *found.wheelhouses),
        indexes={"default": found.index_url, **indexes},
        offline=getattr(arguments, "offline", False),
    )


def _bundle(
    arguments: argparse.Namespace, project: Project, console: Console
) -> tuple[object, int]:
    from provision.commands.bundle import bundle
    from provision.spec.reader import load_target

    target = load_target(project.specs, arguments.target)
    made = bundle(
        project,
        target,
        _fresh_lock(project, target),
        supply=_supply(arguments, project, target),
        folder=arguments.output.absolute(),
        progress=console,
    )
    return made, Exit.FINDINGS if made.missing else Exit.OK


def _chosen(project: Project, console: Console) -> Detection:
    from provision.ui.render import show

    found = _detection(project)
    show(found, console)
    if found.chosen is None:
        raise UsageError(
            f"no target fits this machine ({found.host.platform})",
            remedy="add one to envs/, or build on a machine that is listed by `provision targets`",
        )
    return found


def _check_platform(target: Target) -> None:
    from provision.host.probe import this_platform

    if target.platform != (here := this_platform()):
        raise UsageError(
            f"{target.name} is for {target.platform}; this machine is {here}",
            cause="an environment is built where it runs",
            remedy=f"run `provision build {target.name}` on a {target.platform} machine",
        )


def _fresh_lock(project: Project, target: Target) -> Lock:
    from provision.commands.lock import staleness
    from provision.lockfile.pip import read_lock

    lock = read_lock(project.lock(target.name))
    if why := staleness(target, project.catalog, lock):
        raise SpecError(
            f"the lock of {target.name} is stale",
            cause=why,
            remedy=f"lock it again: `{_program()} lock {target.name}`",
        )
    return lock


def _wheelhouses(folders: list[Path]) -> list[Path]:
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"--wheelhouse {folder}: there is no such folder")
    return [folder.resolve() for folder in folders]


def _absent(project: Project, target: Target) -> str:
    """Return why a target's device cannot be used on this machine, or ""."""
    from provision.catalog.devices import read_devices
    from provision.commands.detect import Verdict, detect
    from provision.host.probe import read_host
    from provision.spec.parts import hardware_of

    (fit,) = detect(
        [hardware_of(target.model_dump())], read_host(read_devices(project.catalog))
    ).fits
    return "" if fit.verdict is Verdict.FITS else "; ".join(fit.reasons)


def _doctor(arguments: argparse.Namespace, project: Project, _: Console) -> tuple[object, int]:
    from provision.core.findings import Diagnosis

    if arguments.log:
        result = Diagnosis(arguments.log, _of_log(arguments.log))
    else:
        result = _of_environment(arguments, project)
    return result, Exit.FINDINGS if result.bad else Exit.OK


def _of_log(name: str) -> tuple[Finding, ...]:
    from provision.doctor import diagnose_log

    if name == "-":
        return tuple(diagnose_log(sys.stdin.buffer))
    try:
        with Path(name).open("rb") as stream:
            return tuple(diagnose_log(stream))
    except OSError as error:
        raise UsageError(f"cannot read {name}", evidence=str(error)) from error


def _of_environment(arguments: argparse.Namespace, project: Project) -> Diagnosis:
    from provision.catalog.devices import read_devices
    from provision.core.process import run
    from provision.doctor import diagnose_environment, diagnose_machine
    from provision.doctor.locate import locate
    from provision.host.probe import read_host
    from provision.lockfile.pip import read_lock
    from provision.spec.reader import load_target

    devices = read_devices(project.catalog)
    host = read_host(devices)
    target = load_target(project.specs, arguments.target) if arguments.target else None
    ours = _current(project, target.name).folder if target and not arguments.python else None
    python = locate(arguments.python, run) if arguments.python else ours
    if python is None:
        return diagnose_machine(host, devices)
    lock = read_lock(project.lock(target.name)) if target else None
    return diagnose_environment(python, host, devices, target=target, lock=lock, home=Path.home())


def _verify(
    arguments: argparse.Namespace, project: Project, console: Console
) -> tuple[object, int]:
    from provision.environment.verify import verify
    from provision.lockfile.pip import read_lock
    from provision.spec.reader import read_forbidden

    forbid = read_forbidden(project.specs, arguments.target)
    lock = read_lock(project.lock(arguments.target))
    folder = _folder(project, arguments.target)
    result = verify(folder, lock, forbid, deep=arguments.deep or arguments.repair)
    if not result.findings or not arguments.repair:
        return result, Exit.FINDINGS if result.findings else Exit.OK
    return _repair(result, arguments, project, console)


def _repair(
    found: Verification, arguments: argparse.Namespace, project: Project, console: Console
) -> tuple[object, int]:
    from provision.commands.repair import repair
    from provision.core.process import run

    for finding in found.findings:
        console.finding(finding)
    built = repair(found, _order(arguments, project, console), run, console)
    return built, Exit.OK if built.generation else Exit.FINDINGS


def _rollback(arguments: argparse.Namespace, project: Project, _: Console) -> tuple[object, int]:
    from provision.commands.generations import rollback
    from provision.spec.reader import load_target

    target = load_target(project.specs, arguments.target)
    return rollback(project, target.name), Exit.OK


def _clean(arguments: argparse.Namespace, project: Project, _: Console) -> tuple[object, int]:
    from provision.commands.generations import clean
    from provision.spec.reader import load_target, target_names

    if arguments.keep < 0:
        raise UsageError("--keep takes a number from 0 up")
    known = target_names(project.specs)
    names = [load_target(project.specs, name).name for name in arguments.targets] or known
    cleaned = [
        clean(project, name, keep=arguments.keep, everything=arguments.all) for name in names
    ]
    return cleaned, Exit.OK


def _current(project: Project, target: str) -> Generation:
    from provision.environment.manifest import current_generation

    now = current_generation(project.environments(target))
    if now is None:
        raise _not_built(target)
    return now


def _folder(project: Project, target: str) -> Path:
    """Return the generation in use, without reading its record."""
    from provision.core.filesystem import read_link
    from provision.core.project import CURRENT, RECORD

    folder = read_link(project.environments(target) / CURRENT)
    if folder is None or not (folder / RECORD).is_file():
        raise _not_built(target)
    return folder


def _not_built(target: str) -> UsageError:
    remedy = f"build it with `{_program()} build {target}`"
    return UsageError(f"{target} is not built", remedy=remedy)


def _smoke(arguments: argparse.Namespace, project: Project, console: Console) -> tuple[object, int]:
    from provision.commands import smoke
    from provision.environment.manifest import mark_verified
    from provision.lockfile.pip import read_lock
    from provision.report.regressions import (
        SmokeResult,
        SmokeSkipped,
        changed_layers,
        compare_reports,
    )
    from provision.spec.reader import load_target

    target = load_target(project.specs, arguments.target)
    stack = _stack(project)
    console.step(f"the {'full' if arguments.full else 'quick'} checks of {target.name}")
    if arguments.against:
        return _smoke_foreign(arguments, project, target, stack)
    now = _current(project, target.name)
    lock = read_lock(project.lock(target.name))
    last = smoke.last_report(project, target.name)
    if arguments.if_driver_changed and last and not changed_layers(last, stack, lock.digest):
        unchanged = SmokeSkipped(target.name, last.started, len(last.failed))
        return unchanged, Exit.FINDINGS if last.failed else Exit.OK
    subject = smoke.from_generation(now.folder, lock)
    report = _checked(arguments, project, target, subject, stack)
    if not report.failed:
        mark_verified(now)
    before = smoke.baseline(project, target.name, report)
    comparison = compare_reports(before, report) if before else None
    bad = report.failed or (comparison and comparison.bad)
    return SmokeResult(report, comparison), Exit.FINDINGS if bad else Exit.OK


def _smoke_foreign(
    arguments: argparse.Namespace, project: Project, target: Target, stack: dict[str, str]
) -> tuple[object, int]:
    from provision.commands import smoke
    from provision.core.process import run
    from provision.report.regressions import SmokeResult

    subject = smoke.from_interpreter(arguments.against, run)
    report = _checked(arguments, project, target, subject, stack)
    return SmokeResult(report, None), Exit.FINDINGS if report.failed else Exit.OK


def _checked(
    arguments: argparse.Namespace,
    project: Project,
    target: Target,
    subject: Subject,
    stack: dict[str, str],
) -> Report:
    from provision.commands.smoke import smoke
    from provision.core.process import run

    return smoke(project, target, subject, stack, run, full=arguments.full, junit=arguments.junit)


def _stack(project: Project) -> dict[str, str]:
    from provision.catalog.devices import read_devices
    from provision.host.model import host_layers
    from provision.host.probe import read_host

    return host_layers(read_host(read_devices(project.catalog)))


def _report(
    arguments: argparse.Namespace, project: Project, console: Console
) -> tuple[object, int]:
    from provision.commands import smoke
    from provision.core.filesystem import write_atomic
    from provision.report.model import read_report
    from provision.spec.reader import load_target
    from provision.ui.html_report import render_page

    target = load_target(project.specs, arguments.target)
    kept = smoke.history(project, target.name)
    if not kept:
        raise UsageError(
            f"{target.name} has no report on this host",
            remedy=f"`{_program()} smoke {target.name}` makes one",
        )
    out = arguments.output or Path(f"{target.name}.html")
    write_atomic(out, render_page([read_report(path) for path in kept]))
    console.line(f"{out}: {len(kept)} reports")
    return None, Exit.OK


def _run(arguments: argparse.Namespace, project: Project, console: Console) -> tuple[object, int]:
    from provision.core.process import clean_environment, dropped_variables, run_foreground
    from provision.spec.reader import load_target

    target = load_target(project.specs, arguments.target)
    now = _current(project, target.name)
    if now.record.proof == "unproven":
        console.note(f"{target.name} is unproven: {now.record.reason}")
    if dropped := dropped_variables():
        console.step(f"left behind: {', '.join(dropped)}")
    environment = clean_environment(prefix=now.folder, extra=target.variables(now.folder))
    return None, run_foreground(arguments.command, env=environment)


def _docker(
    arguments: argparse.Namespace, project: Project, console: Console
) -> tuple[object, int]:
    import shlex

    from provision.core.process import run
    from provision.image.context import ImageRequest, prepare_context
    from provision.image.docker import build_argv, build_image, find_engine
    from provision.spec.reader import load_target

    target = load_target(project.specs, arguments.target)
    order = ImageRequest(
        project,
        target,
        _fresh_lock(project, target),
        _supply(arguments, project, target),
        base_image=arguments.base_image,
        dev=arguments.dev,
    )
    if arguments.print:
        prepare_context(order, run, console)
        command = build_argv(order, find_engine(run), os.environ)
        sys.stdout.write(f"DOCKER_BUILDKIT=1 {shlex.join(command)}\n")
        return None, Exit.OK
    return build_image(order, run, console, layout=arguments.oci), Exit.OK


def _sbom(arguments: argparse.Namespace, project: Project, _: Console) -> tuple[object, int]:
    from provision.lockfile import sbom
    from provision.lockfile.pip import read_lock
    from provision.spec.reader import load_target

    target = load_target(project.specs, arguments.target)
    sys.stdout.write(sbom.sbom(target, read_lock(project.lock(target.name))))
    return None, Exit.OK
