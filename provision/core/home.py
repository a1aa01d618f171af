"""The user's home: some containers run with a user who has none."""

import os
from pathlib import Path


def home_folder() -> Path | None:
    """Return the user's home; None without HOME and an entry in passwd."""
    try:
        return Path.home()  # noqa: TID251 - the one place
    except RuntimeError:
        return None


def with_home(path: Path) -> Path:
    """Return a path with the user's home for ``~``; as it is where that user has none."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - the method raises there
