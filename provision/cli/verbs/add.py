"""add requirements, then lock and build."""

from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

from provision.cli.call import Call, Outcome, each, findings_if
from provision.cli.options import add_build, add_target
from provision.cli.verbs.build import build_target
from provision.cli.verbs.lock import make_resolver
from provision.commands.build_request import BuildResult
from provision.commands.detect import why_device_is_absent
from provision.commands.edit_places import Words, add
from provision.commands.edit_spec import (
    Edited,
    edit_and_lock,
    locked_for_others,
    named_targets,
    now_required,
)
from provision.commands.machine import host_reader
from provision.core.errors import UsageError
from provision.core.platforms import this_platform
from provision.core.project import CURRENT
from provision.host.model import Host
from provision.spec.model import Target, with_slashes
from provision.spec.reader import load_target
from provision.ui.results import show_edited


def declare(parser: ArgumentParser) -> None:
    about = "a requirement such as 'einops>=0.8', or the ./path of your own package"
    declare_edit(parser, metavar="REQ", about=about)
    parser.add_argument(
        "--index", metavar="NAME", help="the catalog index to take them from"
    )
    parser.add_argument(
        "--editable", action="store_true", help="install a ./path as editable"
    )


def declare_edit(parser: ArgumentParser, metavar: str, about: str) -> None:
    """Add what both verbs take that edit requirements."""
    add_target(parser, "a target's name, or `all`")
    parser.add_argument("words", nargs="*", metavar=metavar, help=about)
    parser.add_argument(
        "-r",
        dest="files",
        action="append",
        default=[],
        metavar="FILE",
        help="a requirements file that the spec refers to; may be given again",
    )
    parser.add_argument(
        "--only-here",
        action="store_true",
        help="edit the target's own spec only, no file that other targets share",
    )
    parser.add_argument("--no-build", action="store_true", help="edit and lock only")
    add_build(parser)


def handle(call: Call) -> Outcome:
    words, project = words_of(call), call.project
    names = named_targets(project, call.arguments.target)
    before = locked_for_others(project, names, words.requirements)
    outcome = edit(lambda path: add(path, words), call)
    for line in now_required(project, before):
        call.console.note(line)
    return outcome


def words_of(call: Call) -> Words:
    """Return what was typed, told apart: requirements, folders and files."""
    options = call.arguments
    if not (options.words or options.files):
        raise UsageError("nothing is named", remedy="name a requirement, or `-r FILE`")
    requirements, folders = [], []
    for word in options.words:
        if _is_path(word):
            folders.append(Path(with_slashes(word)))
        else:
            requirements.append(word)
    return Words(
        requirements,
        folders,
        [Path(with_slashes(file)) for file in options.files],
        index=getattr(options, "index", None),
        only_here=options.only_here,
        editable=getattr(options, "editable", False),
    )


def _is_path(word: str) -> bool:
    """Whether a word is a path, as pip takes it: of several parts, or `.`."""
    path = with_slashes(word).partition(";")[0]
    return "://" not in word and (path[:1] == "." or "/" in path)


def edit(change: Callable[[Path], object], call: Call) -> Outcome:
    """Edit and lock targets, then build those built before, or the named one if it fits here."""
    project = call.project
    names = named_targets(project, call.arguments.target)
    for name in names:
        load_target(project.specs, name)
    locks = edit_and_lock(names, change, project, make_resolver(call))
    host = host_reader(project)
    unbuilt = []
    for lock in locks:
        if _is_built(call, load_target(project.specs, lock.target), host):
            unbuilt.append(lock.target)
    edited = []
    failed = False
    for lock in locks:
        built = None
        if lock.target in unbuilt:
            built = _build(call, unbuilt, host)
            unbuilt = unbuilt[1:]
            failed |= built.generation is None
        edited.append(Edited(lock, built))
    return Outcome(edited, each(show_edited), findings_if(failed))


def _build(call: Call, unbuilt: list[str], host: Callable[[], Host]) -> BuildResult:
    """Build the first of some edited targets, or say what stays although that failed."""
    built = None
    try:
        built = build_target(call, unbuilt[0], host)
    finally:
        if built is None:  # nor are the others built then
            _note_unbuilt(call, unbuilt)
        elif built.generation is None:
            _note_unbuilt(call, unbuilt[:1])
    return built


def _note_unbuilt(call: Call, targets: list[str]) -> None:
    first, *others = [f"`{call.console.program} build {name}`" for name in targets]
    text = f"requirements and lock stay as edited: {first} tries it again"
    if others:
        text += f"; not built yet, too: {', '.join(others)}"
    call.console.note(text)


def _is_built(call: Call, target: Target, host: Callable[[], Host]) -> bool:
    if call.arguments.no_build or target.platform != this_platform():
        return False
    if (call.project.environments(target.name) / CURRENT).exists():
        return True
    named = call.arguments.target == target.name
    return named and not why_device_is_absent(target, host)
