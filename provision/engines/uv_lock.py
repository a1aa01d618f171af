"""Resolve the pip layer with uv, for any platform from any platform."""

from __future__ import annotations

import importlib.metadata
import re
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from provision.errors import ToolError
from provision.files import write_atomic
from provision.platforms import UV_NAMES, best_wheel
from provision.run import clean_environment

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from provision.run import Completed, Run
    from provision.spec import Target

_PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?:\s+# via (?P<via>.+))?")
WISH, OVERRIDES, PINS = "requirements.in", "overrides.txt", "pins.txt"


@dataclass(frozen=True, slots=True)
class Pick:
    """One distribution of a resolution, with the wheel that the platform takes.

    Attributes:
        name: Distribution, normalised.
        version: Version with its local part.
        via: Who asked for it: distributions, or ``the spec``.
        filename: Name of the wheel.
        sha256: Of the wheel.
        size: Bytes; None where the index does not tell.
        url: Where the index has it.
    """

    name: str
    version: str
    via: tuple[str, ...]
    filename: str
    sha256: str
    size: int | None
    url: str


def version() -> str:
    """Return name and version of the engine."""
    return f"uv {importlib.metadata.version('uv')}"


def compile_argv(uv: str, target: Target, indexes: Mapping[str, str]) -> list[str]:
    """Return the part of the command that is the same for each file to compile.

    Args:
        uv: The program.
        target: Its platform, Python and cut-off dates decide.
        indexes: Address of each catalog index, asked in this order before the default index: the
            first that knows a name is the only one that is asked for it.
    """
    argv = [uv, "pip", "compile", "--no-config", "--no-header", "--quiet",
            "--python-platform", UV_NAMES[target.platform], "--python-version", target.python,
            "--only-binary", ":all:", "--index-strategy", "first-index",
            "--exclude-newer", _moment(target.pip.cutoff)]  # fmt: skip
    for index, url in indexes.items():
        argv += ["--index", f"{index}={url}"]
    return argv


def _moment(day: dt.date) -> str:
    # uv reads a bare date as the end of that day where it runs; a lock must not depend on that.
    return f"{day.isoformat()}T00:00:00Z"


def parse_pins(text: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return version and askers by name, from requirements with annotations in line style."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for line in text.splitlines():
        if match := _PIN.fullmatch(line.strip()):
            askers = (match["via"] or WISH).split(", ")
            found[match["name"]] = (match["version"], tuple(sorted(set(map(_asker, askers)))))
    return found


def _asker(text: str) -> str:
    return "the spec" if WISH in text or OVERRIDES in text else text


def parse_pylock(
    text: str, pins: Mapping[str, tuple[str, tuple[str, ...]]], platform: str, python: str
) -> list[Pick]:
    """Return the one wheel of each distribution in a PEP 751 lock.

    Raises:
        ToolError: A distribution has no wheel for the platform, or its wheel has no SHA-256.
    """
    return [
        _pick(package, pins[package["name"]][1], platform, python)
        for package in tomllib.loads(text)["packages"]
    ]


def _pick(package: dict[str, object], via: tuple[str, ...], platform: str, python: str) -> Pick:
    name, release = str(package["name"]), str(package["version"])
    wheels = {_filename(wheel): wheel for wheel in package.get("wheels", [])}  # type: ignore[attr-defined]
    if not (filename := best_wheel(wheels, platform, python)):
        raise ToolError(
            f"{name} {release} has no wheel for {platform} and Python {python}",
            cause="only wheels are locked: what an sdist becomes depends on the machine",
            remedy=f"require another version of {name}, or of what needs it: {', '.join(via)}",
        )
    wheel = wheels[filename]
    if not (sha256 := wheel["hashes"].get("sha256")):
        raise ToolError(
            f"the index gives no SHA-256 for {filename}",
            remedy="use an index that does, or add the file to a catalog",
        )
    return Pick(name, release, via, filename, sha256, wheel.get("size"), wheel["url"])


def _filename(wheel: dict[str, str]) -> str:
    return wheel.get("name") or unquote(urlsplit(wheel["url"]).path.rpartition("/")[2])


def resolve(
    target: Target, indexes: Mapping[str, str], default_index: str | None, run: Run
) -> list[Pick] | Completed:
    """Resolve a target's pip layer; give the failed process where there is no solution.

    Args:
        target: The wish.
        indexes: Address of each catalog index.
        default_index: A mirror of the default index; None for uv's own default.
        run: The door.

    Raises:
        ToolError: A distribution of the solution cannot be locked.
    """
    import uv  # noqa: PLC0415 - only finds the program

    argv = compile_argv(uv.find_uv_bin(), target, indexes)
    # The mirror goes by the environment: its address may hold a password, and commands are echoed.
    extra = {"UV_DEFAULT_INDEX": default_index} if default_index else {}
    env = clean_environment(extra=extra | direct(clean_environment()))
    with tempfile.TemporaryDirectory(prefix="provision-") as temporary:
        folder = Path(temporary)
        write_atomic(folder / WISH, "\n".join(target.pip.requirements) + "\n")
        overrides = [override.requirement for override in target.pip.overrides]
        write_atomic(folder / OVERRIDES, "\n".join(overrides) + "\n")
        found = run(
            [*argv, "--overrides", OVERRIDES, "--annotation-style", "line", WISH],
            env=env,
            cwd=folder,
        )
        if found.returncode:
            return found
        pins = parse_pins(found.stdout)
        write_atomic(folder / PINS, "".join(f"{n}=={v}\n" for n, (v, _) in pins.items()))
        pylock = run([*argv, "--no-deps", "--format", "pylock.toml", PINS], env=env, cwd=folder)
    pylock.require(f"could not find the files of {target.name}")
    return parse_pylock(pylock.stdout, pins, target.platform, target.python)


def direct(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep a proxy out of the way to this machine's own index."""
    hosts = next((value for name, value in env.items() if name.upper() == "NO_PROXY"), "")
    return {"NO_PROXY": ",".join(filter(None, [hosts, "127.0.0.1"]))}
