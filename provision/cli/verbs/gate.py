"""check this node or runner in seconds: 0 keep, 1 remove, 2 no verdict."""

import os
from argparse import ArgumentParser

from provision.cli.call import Call, Outcome
from provision.cli.options import add_contract
from provision.cli.verbs.smoke import device_of
from provision.commands.gate import gate, gate_group
from provision.commands.launched import in_group
from provision.commands.machine import host_reader
from provision.commands.suite import SmokeRequest
from provision.core.process import run
from provision.host.model import host_layers
from provision.ui.smoke import show_report


def declare(parser: ArgumentParser) -> None:
    parser.add_argument(
        "target",
        nargs="?",
        help="the target's name; default: the only target that is built",
    )
    parser.add_argument(
        "--device",
        default="",
        metavar="N",
        help="the number of a device, as torch counts; default `all`",
    )
    parser.add_argument(
        "--group",
        action="store_true",
        help="check the network: in each process that torchrun, srun or mpirun starts",
    )
    add_contract(parser)
    parser.set_defaults(contract="text")  # its result is always a verdict


def handle(call: Call) -> Outcome:
    host = host_reader(call.project)
    device = device_of(call.arguments.device)
    layers = host_layers(host())
    request = SmokeRequest(call.project, call.target, layers, "gate", device=device)
    if call.arguments.group:
        found = gate_group(in_group(request, os.environ), run, call.console)
    else:
        found = gate(request, host, run, call.console)
    # In its place provision.cli.contract prints the verdict.
    return Outcome(found, lambda found, console: show_report(found.report, console))
