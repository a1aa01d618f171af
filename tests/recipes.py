"""The files that docs/how-to/ci.md tells to write, and the places that it leaves to its reader."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.checkout import git

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PAGE = "docs/how-to/ci.md"
WORKFLOW = ".github/workflows/prove.yml"
GITLAB = ".gitlab-ci.yml"
HOOKS = ".pre-commit-config.yaml"


def yaml_blocks(page: str) -> list[str]:
    """Return the blocks of YAML of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def recipes() -> dict[str, str]:
    """Return the blocks by the file that the first line of each names."""
    named = (
        re.fullmatch(r"# (\S+)\n(.*)", block, re.DOTALL) for block in yaml_blocks(PAGE)
    )
    return dict(match.groups() for match in named if match)


def filled_in(name: str, repository: Path) -> str:
    """Return a recipe with the last commit of a copy of this repository as owner and tag."""
    commit = git(repository, "rev-parse", "HEAD").strip()
    # With a host, as else pip takes no URL of a file for one.
    url = repository.as_uri().replace("file:///", "file://localhost/")
    text = recipes()[name].replace("https://github.com/OWNER/provision", url)
    return re.sub(r"\bTAG\b", commit, text)


def workflow_steps() -> list[dict[str, Any]]:
    """Return the steps of the workflow."""
    (job,) = yaml.safe_load(recipes()[WORKFLOW])["jobs"].values()
    return list(job["steps"])


def used_actions() -> Iterator[tuple[str, str]]:
    """Yield the name and the version, with its comment, of each action in use or in the documents."""
    files = [
        *ROOT.glob("*.yml"),
        *ROOT.glob(".github/**/*.yml"),
        *(ROOT / "docs").rglob("*.md"),
    ]
    for file in files:
        text = file.read_text(encoding="utf-8")
        yield from re.findall(r"^[ -]*uses: ([^@\s]+)@(.+)$", text, re.MULTILINE)
