"""print the bill of materials of a target, as CycloneDX JSON."""

import json
from argparse import ArgumentParser

from provision.cli.call import Call, Outcome
from provision.cli.options import add_target
from provision.lockfile.pip import read_lock
from provision.lockfile.sbom import sbom
from provision.ui.console import print_text


def declare(parser: ArgumentParser) -> None:
    add_target(parser)


def handle(call: Call) -> Outcome:
    text = sbom(call.target, read_lock(call.project.lock(call.target.name)))
    return Outcome(json.loads(text), lambda *_: print_text(text))
