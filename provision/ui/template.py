"""Views that are templates, ``NAME.j2``: for verbs that take longer than to import an engine."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from provision.core.text import plural, size
from provision.ui.console import Console, to_jsonable

_STYLED = re.compile(r"((?:bold )?(?:red|yellow|green)|dim)\|> (.*)")


def template(name: str) -> Callable[[Any, Console], None]:
    """Return a view. Its lines may begin with ``$ `` (a command), ``! `` (a remark), ``red|> ``."""

    def show(result: object, console: Console) -> None:
        from jinja2 import Environment, FileSystemLoader  # noqa: PLC0415 - slow to import

        folder = FileSystemLoader(Path(__file__).parent)
        # The further lines of a value cannot be taken for those of the template.
        views = Environment(loader=folder, trim_blocks=True)  # noqa: S701 - none is HTML
        views.finalize = lambda v: (
            v.replace("\n", "\n    ") if isinstance(v, str) else v
        )
        views.filters |= {"plural": plural, "size": size}
        values = to_jsonable(result) | {"program": console.program}
        for line in views.get_template(f"{name}.j2").render(values).splitlines():
            if line[:2] in ("$ ", "! "):
                (console.command if line[0] == "$" else console.remark)(line[2:])
            else:
                found = _STYLED.fullmatch(line)
                console.line(found[2] if found else line, found[1] if found else "")

    return show
