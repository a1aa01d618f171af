"""A target in the formats of other installers; each function returns the text of one file.

What a format cannot hold stands in :data:`LOST`, so that nobody takes the copy for the lock.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import tomlkit
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import WHEELHOUSE
from provision.lockfile.pylock import MARKERS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from provision.lockfile.pip import Lock
    from provision.spec.model import Target

_CONDA = "the conda layer: interpreter and native libraries come from the machine"
_INDEX = "which index each package comes from: the installer searches all of them"
_HASHES = "the hashes of the wheels"
_VARIABLES = "the variables of [environment]"
_BUILT = "what was built from source: name its folders in wheelhouse/ with --find-links"
_OWN = "the own packages of the spec"
LOST = {
    "pylock": (_CONDA, _VARIABLES, _OWN),
    "requirements": (_CONDA, _INDEX, _VARIABLES, _BUILT, _OWN),
    "environment": (_HASHES, _INDEX, _BUILT, _OWN, "the hashes of the conda packages"),
    "uv": (
        _CONDA,
        "the hashes: `uv lock` takes those that the indexes state",
        _VARIABLES,
        _BUILT,
        _OWN,
    ),
    "devcontainer": (),
    "ci": (),
    "module": (),
    "apptainer": (),
}


def lost(target: Target, lock: Lock, kind: str) -> tuple[str, ...]:
    """Return what of a target its copy in a format does not hold."""
    absent = {_CONDA: lock.conda is None, _VARIABLES: not target.environment,
              _INDEX: not target.pip.index, _OWN: not lock.local,
              _BUILT: not any(artifact.source for artifact in lock.artifacts)}  # fmt: skip
    return tuple(words for words in LOST[kind] if not absent.get(words))


def requirements(lock: Lock, indexes: Mapping[str, str]) -> str:
    """Return a requirements file for ``pip install --require-hashes -r``."""
    # uv takes a name from the first index that has it, unless told to compare all of them.
    lines = [
        "# pip install --require-hashes --only-binary :all: -r FILE",
        "# uv pip install --require-hashes --index-strategy unsafe-best-match -r FILE",
        *(f"--extra-index-url {url}" for url in indexes.values()),
    ]
    lines += [f"{a.name}=={a.version} \\\n    --hash=sha256:{a.sha256}" for a in lock.artifacts]
    return "\n".join(lines) + "\n"


def environment(target: Target, lock: Lock, indexes: Mapping[str, str]) -> str:
    """Return an ``environment.yml`` for conda, mamba or micromamba."""
    import yaml  # noqa: PLC0415 - the other formats need none

    native = [f"{p.name}={p.version}={p.build}" for p in conda_packages(lock)]
    pinned = [f"{artifact.name}=={artifact.version}" for artifact in lock.artifacts]
    names = {package.partition("=")[0] for package in native}
    base = [f"python={target.python}"] * ("python" not in names) + ["pip"] * ("pip" not in names)
    options = [f"--extra-index-url {url}" for url in indexes.values()]
    prefix = "%CONDA_PREFIX%" if target.platform == "win-64" else "$CONDA_PREFIX"
    variables = {
        key: value.replace("{prefix}", prefix) for key, value in target.environment.items()
    }
    document = {
        "name": target.name,
        "channels": list(target.conda.channels if target.conda else ("conda-forge",)),
        "dependencies": [*native, *base, {"pip": [*options, *pinned]}],
        **({"variables": variables} if variables else {}),
    }
    return yaml.safe_dump(document, sort_keys=False, width=1000)


def uv_table(target: Target, lock: Lock, indexes: Mapping[str, str]) -> str:
    """Return the tables of a ``pyproject.toml`` with which ``uv lock`` chooses the same versions.

    Every distribution of a vendor's index is required directly, because uv applies
    ``[tool.uv.sources]`` to direct requirements only
    (https://docs.astral.sh/uv/concepts/indexes/#pinning-a-package-to-an-index).
    """
    wanted = list(target.pip.requirements)
    direct = {canonicalize_name(Requirement(text).name) for text in wanted}
    vendors = [
        artifact for artifact in lock.artifacts if artifact.index not in {"default", WHEELHOUSE}
    ]
    wanted += [f"{a.name}=={a.version}" for a in vendors if a.name not in direct]
    table = {
        "environments": [MARKERS[target.platform]],
        "constraint-dependencies": [f"{a.name}=={a.version}" for a in lock.artifacts],
        "override-dependencies": [entry.requirement for entry in target.pip.overrides],
        "index": [{"name": n, "url": url, "explicit": True} for n, url in indexes.items()],
        "sources": {artifact.name: {"index": artifact.index} for artifact in vendors},
    }
    tables = {key: value for key, value in table.items() if value}
    group = {"dependency-groups": {target.name: wanted}, "tool": {"uv": tables}}
    text = tomlkit.dumps(group)
    return f"# requires-python has to allow {target.python}: uv sync --group {target.name}\n{text}"


def devcontainer(target: Target, toolkit: str) -> str:
    """Return a ``devcontainer.json`` that builds the target (https://containers.dev)."""
    devices = {"cuda": ["--gpus", "all"], "xpu": ["--device", "/dev/dri"]}
    settings = {"python.defaultInterpreterPath": f".envs/{target.name}/current/bin/python"}
    document = {
        "name": target.name,
        "image": f"mcr.microsoft.com/devcontainers/python:{target.python}",
        "runArgs": devices.get(target.accelerator, []),
        "postCreateCommand": f"pip install '{toolkit}' && provision build {target.name}",
        "customizations": {"vscode": {"settings": settings}},
    }
    return json.dumps(document, indent=2) + "\n"


def ci_job(target: Target, toolkit: str) -> str:
    """Return a GitHub Actions workflow that builds, verifies and checks the target."""
    import yaml  # noqa: PLC0415 - the other formats need none

    hosted = {"linux-64": "ubuntu-24.04", "win-64": "windows-2025"}[target.platform]
    # Only a machine of one's own has the device; its labels are chosen when it is registered.
    runner: object = hosted
    if target.accelerator != "cpu":
        runner = ["self-hosted", target.accelerator]
    cache = {"path": ".cache/uv", "key": f"{target.name}-${{{{ hashFiles('lockfiles/**') }}}}"}
    steps = [
        {"uses": "actions/checkout@v5"},
        {"uses": "actions/setup-python@v6", "with": {"python-version": target.python}},
        {"uses": "actions/cache@v4", "with": cache},
        {"run": f'python -m pip install "{toolkit}"'},
        *({"run": f"provision {verb}"} for verb in (
            f"lock {target.name} --check", f"build {target.name}",
            f"verify {target.name} --deep", f"smoke {target.name} --full",
        )),
    ]  # fmt: skip
    job = {
        "runs-on": runner,
        "env": {"UV_CACHE_DIR": "${{ github.workspace }}/.cache/uv"},
        "steps": steps,
    }
    # "on" would be read back as a boolean, and YAML writers quote it for that reason.
    triggers: dict[str, object] = {"push": {}, "pull_request": {}}
    document = {"name": target.name, "on": triggers, "jobs": {target.name: job}}
    return yaml.safe_dump(document, sort_keys=False, width=1000)


def module(target: Target, prefix: Path) -> str:
    """Return an environment-module file, for Environment Modules and Lmod alike.

    Args:
        target: The target.
        prefix: Its environment, by the link that stays when a new generation is built.
    """
    lines = [
        "#%Module1.0",
        f"module-whatis {{{target.name}: {target.summary}}}",
        # What would add packages to the environment, or replace its libraries.
        *(f"unsetenv {name}" for name in ("PYTHONPATH", "PYTHONHOME", "LD_PRELOAD")),
        "setenv PYTHONNOUSERSITE 1",
        f"setenv VIRTUAL_ENV {{{prefix}}}",
        f"prepend-path PATH {{{prefix / 'bin'}}}",
        *(f"setenv {key} {{{value}}}" for key, value in target.variables(prefix).items()),
    ]
    return "\n".join(lines) + "\n"


def apptainer(target: Target) -> str:
    """Return an Apptainer definition that takes the image of `provision docker T --oci FILE`."""
    devices = {"cuda": "apptainer run --nv", "xpu": "apptainer run --bind /dev/dri"}
    command = devices.get(target.accelerator, "apptainer run")
    return f"""\
Bootstrap: oci-archive
From: {target.name}.oci.tar

# provision docker {target.name} --oci {target.name}.oci.tar
# apptainer build {target.name}.sif {target.name}.def
# {command} {target.name}.sif smoke
%runscript
    exec /opt/env/bin/python -IS /opt/provision/entrypoint.py "$@"
"""
