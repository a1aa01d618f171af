"""A target in the formats of other installers, from ``templates`` where they are plain text.

What a format cannot hold stands in :data:`LOST`, so that nobody takes the copy for the lock.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import tomlkit
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import WHEELHOUSE, Lock
from provision.lockfile.pylock import MARKERS
from provision.spec.model import Target

_CONDA = "the conda layer: interpreter and native libraries come from the machine"
_INDEX = "which index each package comes from: the installer searches all of them"
_HASHES = "the hashes of the wheels"
_UV_HASHES = "the hashes: `uv lock` takes those that the indexes state"
_VARIABLES = "the variables of [environment]"
_BUILT = "what was built from source: name its folders in wheelhouse/ with --find-links"
_OWN = "the own packages of the spec"
LOST = {
    "pylock": (_CONDA, _VARIABLES, _OWN),
    "requirements": (_CONDA, _INDEX, _VARIABLES, _BUILT, _OWN),
    "environment": (_HASHES, _INDEX, _BUILT, _OWN, "the hashes of the conda packages"),
    "uv": (_CONDA, _UV_HASHES, _VARIABLES, _BUILT, _OWN),
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


def render(
    kind: str, *, target: Target, lock: Lock, indexes: Mapping[str, str], toolkit: str, prefix: Path
) -> str:
    """Return a format's text, from its template if it has one.

    The toolkit is what pip installs Provision from, and the prefix that of the environment, by the
    link that stays when a new generation is built.
    """
    if writer := {"environment": environment, "uv": uv_table}.get(kind):
        return writer(target, lock, indexes)
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - slow

    # These delimiters are in no text of the formats.
    templates = Environment(  # noqa: S701 - none of them is HTML; JSON and YAML quote with `json`
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True,
        block_start_string="<%", block_end_string="%>", comment_start_string="<%#",
        comment_end_string="%>", variable_start_string="<<", variable_end_string=">>",
    )  # fmt: skip
    templates.filters["json"] = json.dumps
    return templates.get_template(f"{kind}.j2").render(
        target=target, lock=lock, indexes=indexes, toolkit=toolkit, prefix=prefix
    )


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
