"""Lock the conda layer with conda-lock, solved from the catalog: no conda and no network."""

import contextlib
import importlib.metadata
import importlib.util
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from provision.catalog.snapshot import Channel, ChannelPackage
from provision.core.errors import SpecError, ToolError
from provision.core.filesystem import write_atomic
from provision.core.platforms import PLATFORMS
from provision.core.process import Completed, Run, clean_environment
from provision.core.temporary import scratch
from provision.lockfile.conda import SIZE
from provision.resolver.conda_shim import CHANNELS
from provision.spec.model import Target
from provision.spec.tables import faults_of

# Not a name with "mamba" in it: conda-lock would pass other options to such a program.
SHIM = "provision-conda"
_ENGINES = ("conda-lock", "py-rattler")
_LOCK = "conda-lock.yml"


def repodata(channel: Channel, subdir: str) -> dict[str, Any]:
    """Return one platform of a channel as conda's ``repodata.json``."""
    # base_url makes the solver report the channel's real URLs instead of those of the local file.
    packages: dict[str, dict[str, Any]] = {}
    conda: dict[str, dict[str, Any]] = {}
    for package in channel.packages:
        if package.subdir == subdir:
            place = conda if package.filename.endswith(".conda") else packages
            place[package.filename] = package.model_dump(
                mode="json", exclude={"url", "sources"}, exclude_none=True
            )
    return {
        "info": {"subdir": subdir, "base_url": f"{channel.url}{subdir}/"},
        "packages": packages,
        "packages.conda": conda,
        "repodata_version": 2,
    }


def write_inputs(target: Target, channels: dict[str, Channel], folder: Path) -> None:
    """Write the input files of conda-lock; JSON is YAML too, so no YAML writer is needed."""
    # No `pip` entry: conda-lock would download a mapping of package names for it.
    environment = {
        "channels": list(channels),
        "platforms": [target.platform],
        "dependencies": list(target.conda.dependencies) if target.conda else [],
    }
    virtual = {
        "subdirs": {target.platform: {"packages": PLATFORMS[target.platform].virtual}}
    }
    write_atomic(folder / "environment.yml", json.dumps(environment))
    write_atomic(folder / "virtual-packages.yml", json.dumps(virtual))
    for name, channel in channels.items():
        for subdir in (target.platform, "noarch"):
            path = folder / "channels" / name / subdir / "repodata.json"
            write_atomic(path, json.dumps(repodata(channel, subdir)))


def resolve(target: Target, channels: dict[str, Channel], run: Run) -> str:
    """Return the text of a target's ``conda-lock.yml``."""
    argv = [
        sys.executable,
        "-m",
        "conda_lock",
        "lock",
        "--conda",
        find_shim(target),
        "--file",
        "environment.yml",
        "--virtual-package-spec",
        "virtual-packages.yml",
        "--platform",
        target.platform,
        "--lockfile",
        _LOCK,
    ]
    with scratch() as folder:
        write_inputs(target, channels, folder)
        env = clean_environment(extra={CHANNELS: str(folder / "channels")})
        done = run(argv, env=env, cwd=folder)
        if done.returncode:
            if message := _solver_message(done):
                raise SpecError(
                    f"the conda layer of {target.name} cannot be satisfied",
                    evidence=message,
                    cause="no set of packages in the catalog satisfies all of [conda]",
                    remedy=f"change [conda] in envs/{target.name}.toml, or "
                    "`provision update` the channel",
                )
            raise ToolError(f"conda-lock failed for {target.name}", evidence=done.tail)
        text = (folder / _LOCK).read_text(encoding="utf-8")
    packages = [
        package for channel in channels.values() for package in channel.packages
    ]
    sizes, text = {p.sha256: p.size for p in packages}, _with_own_header(target, text)
    # Sizes are comments: conda-lock's format has no field for them.
    return re.sub(
        r"^ +sha256: '?([0-9a-f]{64})'?$",
        lambda found: SIZE.format(line=found[0], size=sizes[found[1]]),
        text,
        flags=re.MULTILINE,
    )


def _with_own_header(target: Target, text: str) -> str:
    # conda-lock's own header recommends commands that would bypass the catalog.
    engines = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in _ENGINES
    )
    body = "".join(
        line for line in text.splitlines(keepends=True) if not line.startswith("#")
    )
    return f"# engine: {engines}\n# command: provision lock {target.name}\n{body}"


def latest_packages(target: Target, channel_url: str, run: Run) -> list[ChannelPackage]:
    """Return the packages to which a channel on the network resolves a target now."""
    dependencies = target.conda.dependencies if target.conda else ()
    env = clean_environment(extra={"CONDA_SUBDIR": target.platform})
    argv = [find_shim(target), "create", "--channel", channel_url, *dependencies]
    done = run(argv, env=env)
    if done.returncode:
        evidence = _solver_message(done) or done.tail
        raise ToolError(
            f"{channel_url} gives no packages for {target.name}",
            evidence=evidence,
            remedy="try again later; the catalog is unchanged",
        )
    try:
        return [
            _package(entry) for entry in json.loads(done.stdout)["actions"]["FETCH"]
        ]
    except ValidationError as error:
        raise ToolError(
            f"{channel_url} has records that are not valid in a catalog",
            evidence="\n".join(faults_of(error, ChannelPackage)),
        ) from error


def _package(entry: dict[str, Any]) -> ChannelPackage:
    known = {
        key: entry[key]
        for key in ChannelPackage.model_fields
        if entry.get(key) is not None
    }
    return ChannelPackage.model_validate_json(
        json.dumps(known | {"sources": ["the channel"]})
    )


def find_shim(target: Target) -> str:
    """Return the path of the program that conda-lock runs; without it, it would download one.

    Raises:
        ToolError: conda-lock is not installed beside the toolkit.
    """
    here = Path(sys.executable).parent
    if importlib.util.find_spec("conda_lock") and (
        path := shutil.which(SHIM, path=str(here))
    ):
        return path
    raise ToolError(
        f"cannot lock the conda layer of {target.name}",
        cause=f"conda-lock or {SHIM} is not installed beside {sys.executable}",
        remedy="install provision-torch[conda]; in a clone `python3 noxfile.py` does",
    )


def _solver_message(done: Completed) -> str:
    """Return the solver's message: conda-lock prints the shim's JSON among its own output."""
    for line in (done.stdout + done.stderr).splitlines():
        _, found, rest = line.partition('{"error"')
        if found:
            # raw_decode: conda-lock may go on with other output on the same line.
            with contextlib.suppress(ValueError, KeyError):
                return str(
                    json.JSONDecoder().raw_decode(found + rest)[0]["message"]
                ).strip()
    return ""
