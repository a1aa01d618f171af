"""print what is in a target, as CycloneDX JSON."""

from provision.cli.call import Call, Parser
from provision.core.errors import Exit


def add_arguments(parser: Parser) -> None:
    parser.add_argument("target", help="the target's name")


def handle(call: Call) -> int:
    from provision.lockfile.pip import read_lock
    from provision.lockfile.sbom import sbom
    from provision.ui.console import print_text

    print_text(sbom(call.target, read_lock(call.project.lock(call.target.name))))
    return Exit.OK
