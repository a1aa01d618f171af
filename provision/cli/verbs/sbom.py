"""print what is in a target, as CycloneDX JSON."""

import json

from provision.cli.call import Call, Outcome


def handle(call: Call) -> Outcome:
    from provision.lockfile.pip import read_lock
    from provision.lockfile.sbom import sbom
    from provision.ui.console import print_text

    text = sbom(call.target, read_lock(call.project.lock(call.target.name)))
    return Outcome(json.loads(text), lambda *_: print_text(text))
