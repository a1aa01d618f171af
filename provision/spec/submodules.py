"""Git submodules of a project that were not fetched: their folders are empty, or not there."""

import re
from pathlib import Path

from provision.core.limits import is_inside, read_if_any, repository_of
from provision.spec.pyproject import relative

# https://git-scm.com/docs/gitmodules
_PATH = re.compile(rb"^[ \t]*path[ \t]*=(.*)$", re.MULTILINE)


def not_fetched(path: Path, root: Path) -> str:
    """Return how to get a path that is in a submodule without files; "" if it is in none.

    The project's folder can be below that of the repository.
    """
    repository = repository_of(root)
    file = repository / ".gitmodules"
    if not is_inside(file, root):
        return ""
    content = read_if_any(file)
    for name in _PATH.findall(content or b""):
        module = repository / name.strip().decode(errors="replace")
        if not path.is_relative_to(module):
            continue
        if not module.is_dir() or not any(module.iterdir()):
            command = f"git submodule update --init {relative(module, root)}"
            return f"; it is in a git submodule without files: `{command}`"
    return ""
