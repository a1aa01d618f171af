"""list the GPUs and drivers of this machine, and the targets that fit."""

from argparse import ArgumentParser

from provision.cli.call import Call, Outcome
from provision.commands.detect import detect_machine
from provision.commands.machine import this_host
from provision.ui.detection import show_detection

ANYWHERE = True


def declare(_: ArgumentParser) -> None:
    """It has no options of its own."""


def handle(call: Call) -> Outcome:
    return Outcome(
        detect_machine(call.project, this_host(call.project)), show_detection
    )
