"""lock -> the image of a Linux target."""

import os
import shlex

from provision.cli.call import Call, Outcome
from provision.core.text import harmless


def handle(call: Call) -> Outcome:
    from provision.commands.export import Export
    from provision.core.process import run
    from provision.image.context import prepare_context
    from provision.image.docker import build_argv, build_image, context_lock
    from provision.image.request import ImageRequest
    from provision.ui.results import show_export
    from provision.ui.template import template

    arguments, console = call.arguments, call.console
    request = ImageRequest(
        call.project,
        call.target,
        call.lock,
        call.supply,
        arguments.base_image,
        dev=arguments.dev,
    )
    if not arguments.print:
        made = build_image(request, run, console, layout=arguments.oci)
        return Outcome(made, template("image"))
    with context_lock(request, console):
        prepare_context(request, run, console)
    # By its bare name: the engine may be on another machine.
    words = shlex.join(build_argv(request, "docker", os.environ))
    text = harmless(f"DOCKER_BUILDKIT=1 {words}") + "\n"
    return Outcome(Export(request.target.name, "docker", None, text, ()), show_export)
