"""lock -> the image of a Linux target."""

import os
import shlex
from pathlib import Path

from provision.cli.call import Call, Outcome, Parser, add_wheelhouse
from provision.core.errors import Exit
from provision.core.text import harmless


def add_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("target", help="the target's name")
    add("--print", action="store_true", help="prepare the build's folder and print its command")
    add("--base-image", metavar="IMAGE", help="instead of the pinned Debian")
    add_wheelhouse(parser)
    add("--offline", action="store_true", help="give the build no network at all")
    add("--dev", action="store_true", help="with a C++ compiler and headers")
    add("--oci", type=Path, metavar="FILE", help="also write an OCI layout")


def handle(call: Call) -> Outcome | int:
    from provision.core.process import run
    from provision.image.context import ImageRequest, prepare_context
    from provision.image.docker import build_argv, build_image, context_lock, find_engine
    from provision.ui.console import print_text
    from provision.ui.results import show_image

    arguments, console = call.arguments, call.console
    request = ImageRequest(
        call.project, call.target, call.lock, call.supply, arguments.base_image, dev=arguments.dev
    )
    if not arguments.print:
        return Outcome(build_image(request, run, console, layout=arguments.oci), show_image)
    with context_lock(request, console):
        prepare_context(request, run, console)
    command = build_argv(request, find_engine(run), os.environ)
    print_text(harmless(f"DOCKER_BUILDKIT=1 {shlex.join(command)}") + "\n")
    return Exit.OK
