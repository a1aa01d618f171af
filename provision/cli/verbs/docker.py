"""build the container image of a Linux target."""

import os
import shlex
from argparse import ArgumentParser
from pathlib import Path

from provision.cli.call import Call, Outcome
from provision.cli.options import add_target, add_wheelhouse
from provision.commands.export import Export
from provision.commands.request import artifact_sources, require_fresh_lock
from provision.core.process import run
from provision.core.text import harmless
from provision.image.context import prepare_context
from provision.image.docker import build_argv, build_image, context_lock
from provision.image.request import ImageRequest
from provision.ui.results import show_export, show_image


def declare(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "--print",
        action="store_true",
        help="prepare the build's folder, and print the command that builds",
    )
    parser.add_argument(
        "--base-image",
        metavar="IMAGE",
        help="the base image, instead of the pinned Debian",
    )
    add_wheelhouse(parser)
    parser.add_argument(
        "--offline", action="store_true", help="build without any network"
    )
    parser.add_argument(
        "--dev", action="store_true", help="add a C++ compiler and headers to the image"
    )
    parser.add_argument(
        "--oci", type=Path, metavar="FILE", help="also write an OCI layout"
    )


def handle(call: Call) -> Outcome:
    project, target, options = call.project, call.target, call.arguments
    request = ImageRequest(
        project,
        target,
        require_fresh_lock(project, target),
        artifact_sources(project, target, options.wheelhouse, offline=options.offline),
        options.base_image,
        dev=options.dev,
    )
    if not options.print:
        image = build_image(request, run, call.console, layout=options.oci)
        return Outcome(image, show_image)
    with context_lock(request, call.console):
        prepare_context(request, run, call.console)
    # By its bare name: the engine may be on another machine.
    words = shlex.join(build_argv(request, "docker", os.environ))
    text = harmless(f"DOCKER_BUILDKIT=1 {words}") + "\n"
    return Outcome(Export(target.name, "docker", None, text, ()), show_export)
