"""Choose the wheels of the toolkit's own tools for a platform, from its universal locks."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from requests import Session

from provision.artifacts.parallel_fetch import MissingFile
from provision.artifacts.wheelhouse import WantedFile
from provision.catalog.simple_index import list_files
from provision.core import network
from provision.core.errors import ToolError
from provision.core.hashing import sha256_file
from provision.core.interruption import in_threads
from provision.core.platforms import markers
from provision.lockfile.tags import best_wheel
from provision.spec.model import Target
from provision.spec.pip_files import logical_lines

# Both are needed for the set-up without a network: pip installs uv.txt, uv the rest; noxfile.py.
RUNTIME = "runtime.txt"
LOCKS = ("uv.txt", RUNTIME)


class Tool(NamedTuple):
    """One distribution of a universal lock, with the hashes of its files for every platform."""

    name: str
    version: str
    sha256s: frozenset[str]


def read_tools(folder: Path, platform: str, python: str) -> list[Tool]:
    """Return what the locks of ``uv pip compile --universal`` in a folder require on a platform."""
    # The patch version of that machine's Python is unknown: any patch that requires it counts.
    tools = []
    for name in LOCKS:
        text = (folder / name).read_text(encoding="utf-8")
        for _, line in logical_lines(text):
            if tool := _tool(line, platform, python):
                tools.append(tool)
    return list(dict.fromkeys(tools))  # uv is in both


def _tool(line: str, platform: str, python: str) -> Tool | None:
    requirement = Requirement(line.partition(" --hash=")[0])
    if requirement.marker:
        system = markers(platform, python)
        for patch in (0, 99):
            version = {"python_full_version": f"{python}.{patch}"}
            if requirement.marker.evaluate(system | version):
                break
        else:
            return None
    (pin,) = requirement.specifier
    hashes = frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", line))
    return Tool(requirement.name, pin.version, hashes)


def choose_wheels(
    tools: Iterable[Tool],
    wheelhouses: Sequence[Path],
    index: str | None,
    target: Target,
) -> tuple[list[WantedFile], list[MissingFile]]:
    """Return the wheel of each tool for a target, wheelhouses first, and the tools without one."""

    def one(tool: Tool) -> WantedFile | MissingFile:
        why = f"its index has no wheel for {target.platform}"
        try:
            wheel = _best(_local(tool, wheelhouses), target)
            wheel = wheel or _best(_listed(session, tool, index), target)
            if wheel:
                return wheel
        except ToolError as error:
            why = error.what
        # Any of the hashes identifies the tool; the least is the same in each run.
        name = f"{tool.name}-{tool.version}"
        return MissingFile(name, min(tool.sha256s), None, why)

    with network.session() as session:
        chosen = in_threads(one, tools, network.PARALLEL_DOWNLOADS)
    wanted = [item for item in chosen if isinstance(item, WantedFile)]
    return wanted, [item for item in chosen if isinstance(item, MissingFile)]


def _local(tool: Tool, wheelhouses: Sequence[Path]) -> dict[str, WantedFile]:
    """Return a tool's wheels in wheelhouses by name; these have no URL."""
    files = {}
    for wheelhouse in wheelhouses:
        for path in sorted(wheelhouse.glob(f"*-{tool.version}-*.whl")):
            # Older builds kept dots and capitals: jaraco.classes-3.4.0-py3-none-any.whl.
            if canonicalize_name(path.name.partition("-")[0]) != tool.name:
                continue
            digest = sha256_file(path)
            if digest in tool.sha256s:
                files[path.name] = WantedFile(path.name, digest, None, None, None)
    return files


def _listed(session: Session, tool: Tool, index: str | None) -> dict[str, WantedFile]:
    """Return a tool's wheels on an index by name."""
    files = {}
    for package in list_files(session, index, tool.name):
        name = package.filename
        digest = (package.digests or {}).get("sha256", "")
        if digest in tool.sha256s:
            files[name] = WantedFile(name, digest, None, package.url, None)
    return files


def _best(files: dict[str, WantedFile], target: Target) -> WantedFile | None:
    wheels = [name for name in files if name.endswith(".whl")]
    filename = best_wheel(wheels, target.platform, target.python)
    return files[filename] if filename else None
