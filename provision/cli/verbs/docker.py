"""lock -> the image of a Linux target."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from provision.cli.options import add_wheelhouse
from provision.cli.outcome import Outcome
from provision.core.errors import Exit
from provision.core.text import harmless

if TYPE_CHECKING:
    import argparse

    from provision.core.project import Project
    from provision.image.context import ImageRequest
    from provision.image.docker import BuiltImage
    from provision.ui.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target and what its image is made of."""
    parser.add_argument("target")
    parser.add_argument(
        "--print", action="store_true", help="prepare the build's folder and print its command"
    )
    parser.add_argument("--base-image", metavar="IMAGE", help="instead of the pinned Debian")
    add_wheelhouse(parser)
    parser.add_argument("--offline", action="store_true", help="give the build no network at all")
    parser.add_argument("--dev", action="store_true", help="with a C++ compiler and headers")
    parser.add_argument("--oci", type=Path, metavar="FILE", help="also write an OCI layout")


def handle(
    arguments: argparse.Namespace, project: Project, console: Console
) -> Outcome[BuiltImage] | int:
    """Build the image, or print the command that would."""
    from provision.core.process import run
    from provision.image.docker import build_image
    from provision.ui.docker import show_image

    request = _request(arguments, project)
    if arguments.print:
        return _print(request, console)
    return Outcome(build_image(request, run, console, layout=arguments.oci), show_image)


def _request(arguments: argparse.Namespace, project: Project) -> ImageRequest:
    from provision.commands.request import artifact_sources, require_fresh_lock
    from provision.image.context import ImageRequest
    from provision.spec.reader import load_target

    target = load_target(project.specs, arguments.target)
    return ImageRequest(
        project,
        target,
        require_fresh_lock(project, target),
        artifact_sources(project, target, arguments.wheelhouse, offline=arguments.offline),
        base_image=arguments.base_image,
        dev=arguments.dev,
    )


def _print(request: ImageRequest, console: Console) -> int:
    from provision.core.process import run
    from provision.image.context import prepare_context
    from provision.image.docker import build_argv, context_lock, find_engine
    from provision.ui.console import print_text

    with context_lock(request, console):
        prepare_context(request, run, console)
    command = build_argv(request, find_engine(run), os.environ)
    print_text(harmless(f"DOCKER_BUILDKIT=1 {shlex.join(command)}") + "\n")
    return Exit.OK
