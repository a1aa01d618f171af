"""Lock the conda layer with conda-lock, from the catalog; for `update`, from the channel itself."""

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
from provision.core.errors import ProvisionError, SpecError, ToolError
from provision.core.filesystem import write_atomic
from provision.core.platforms import PLATFORMS
from provision.core.process import Completed, Run, clean_environment
from provision.core.temporary import scratch
from provision.lockfile.conda import SIZE
from provision.spec.model import Target
from provision.spec.tables import faults_of

# Not a name with "mamba" in it: conda-lock would pass other options to such a program.
SHIM = "provision-conda"
_ENGINES = ("conda-lock", "py-rattler")
_LOCK = "conda-lock.yml"


def repodata(channel: Channel, subdir: str) -> dict[str, Any]:
    """Return one platform of a channel as conda's ``repodata.json``."""
    archives = {}
    conda_archives = {}
    for package in channel.packages:
        if package.subdir == subdir:
            facts = package.model_dump(
                mode="json", exclude={"url", "sources"}, exclude_none=True
            )
            if package.filename.endswith(".conda"):
                conda_archives[package.filename] = facts
            else:
                archives[package.filename] = facts
    return {
        # base_url makes the solver report the channel's real URLs instead of those of the local file.
        "info": {"subdir": subdir, "base_url": f"{channel.url}{subdir}/"},
        "repodata_version": 2,
        "packages": archives,
        "packages.conda": conda_archives,
    }


def _write_inputs(target: Target, channels: dict[str, Channel], folder: Path) -> None:
    """Write the input files of conda-lock; JSON is YAML too, so no YAML writer is needed."""
    # No `pip` entry: conda-lock would download a mapping of package names for it.
    environment = {
        "channels": list(channels),
        "platforms": [target.platform],
        "dependencies": _dependencies(target),
    }
    virtual = {"packages": PLATFORMS[target.platform].virtual}
    files = {
        "environment.yml": environment,
        "virtual-packages.yml": {"subdirs": {target.platform: virtual}},
    }
    for name, channel in channels.items():
        for subdir in (target.platform, "noarch"):
            path = f"channels/{name}/{subdir}/repodata.json"
            files[path] = repodata(channel, subdir)
    for path, document in files.items():
        write_atomic(folder / path, json.dumps(document))


def _dependencies(target: Target) -> list[str]:
    """What the conda layer holds: the spec's Python first, where the layer names none."""
    named = list(target.conda.dependencies) if target.conda else []
    if any(re.match(r"python\b", text) for text in named):
        return named
    return [f"python {target.python}.*", *named]


def resolve(target: Target, channels: dict[str, Channel], run: Run) -> str:
    """Return the text of a target's ``conda-lock.yml``."""
    argv = [sys.executable, "-m", "conda_lock", "lock"]
    argv += ["--conda", find_shim(target)]
    argv += ["--file", "environment.yml", "--platform", target.platform]
    argv += ["--virtual-package-spec", "virtual-packages.yml", "--lockfile", _LOCK]
    with scratch() as folder:
        _write_inputs(target, channels, folder)
        done = run(argv, cwd=folder)
        if done.returncode:
            raise _failure(target, done)
        text = (folder / _LOCK).read_text(encoding="utf-8")
    sizes = {}
    for channel in channels.values():
        for package in channel.packages:
            sizes[package.sha256] = package.size
    # conda-lock's own header recommends commands that would bypass the catalog.
    versions = [f"{name} {importlib.metadata.version(name)}" for name in _ENGINES]
    lines = [
        f"# engine: {', '.join(versions)}",
        f"# command: provision lock {target.name}",
    ]
    for line in text.splitlines():
        # Sizes are comments: conda-lock's format has no field for them.
        if match := re.fullmatch(r" +sha256: '?([0-9a-f]{64})'?", line):
            lines.append(SIZE.format(line=line, size=sizes[match[1]]))
        elif not line.startswith("#"):
            lines.append(line)
    return "\n".join(lines) + "\n"


def _failure(target: Target, done: Completed) -> ProvisionError:
    message = _solver_message(done)
    if not message:
        return ToolError(f"conda-lock failed for {target.name}", evidence=done.tail)
    return SpecError(
        f"the conda layer of {target.name} cannot be satisfied",
        evidence=message,
        cause="no set of packages in the catalog satisfies all of [conda]",
        remedy=f"change [conda] in envs/{target.name}.toml, or "
        "`provision update` the channel",
    )


def latest_packages(target: Target, channel_url: str, run: Run) -> list[ChannelPackage]:
    """Return the packages to which a channel on the network resolves a target now."""
    env = clean_environment(extra={"CONDA_SUBDIR": target.platform})
    argv = [find_shim(target), "create", "--channel", channel_url]
    argv += _dependencies(target)
    done = run(argv, env=env)
    if done.returncode:
        raise ToolError(
            f"{channel_url} gives no packages for {target.name}",
            evidence=_solver_message(done) or done.tail,
            remedy="try again later; the catalog is unchanged",
        )
    packages = []
    for record in json.loads(done.stdout)["actions"]["FETCH"]:
        facts = {"sources": ["the channel"]}
        for key in ChannelPackage.model_fields.keys() - facts.keys():
            if record.get(key) is not None:
                facts[key] = record[key]
        try:
            packages.append(ChannelPackage.model_validate_json(json.dumps(facts)))
        except ValidationError as error:
            raise ToolError(
                f"{channel_url} has records that are not valid in a catalog",
                evidence="\n".join(faults_of(error, ChannelPackage)),
            ) from error
    return packages


def find_shim(target: Target) -> str:
    """Return the path of the program that conda-lock runs; without it, it would download one.

    Raises:
        ToolError: conda-lock is not installed beside the toolkit.
    """
    path = shutil.which(SHIM, path=str(Path(sys.executable).parent))
    if path and importlib.util.find_spec("conda_lock"):
        return path
    raise ToolError(
        f"cannot lock the conda layer of {target.name}",
        cause=f"conda-lock or {SHIM} is not installed beside {sys.executable}",
        remedy="install provision-torch[conda]; in a clone `python3 noxfile.py` does",
    )


def _solver_message(done: Completed) -> str:
    """Return the solver's message: conda-lock prints the shim's JSON among its own output."""
    for line in (done.stdout + done.stderr).splitlines():
        begin = line.find('{"error"')
        if begin >= 0:
            # raw_decode: conda-lock may go on with other output on the same line.
            with contextlib.suppress(ValueError, KeyError):
                reply, _ = json.JSONDecoder().raw_decode(line, begin)
                return str(reply["message"]).strip()
    return ""
