"""print the JSON Schema of a spec."""

import json

from provision.core.errors import Exit

ANYWHERE = True


def handle(_: object) -> int:
    from provision.spec.model import spec_schema
    from provision.ui.console import print_text

    print_text(json.dumps(spec_schema(), indent=2) + "\n")
    return Exit.OK
