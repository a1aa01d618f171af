"""Resolve the pip layer with pip-tools, a second resolver for this machine's own platform."""

import importlib.util
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from itertools import chain

from pypi_simple import PYPI_SIMPLE_ENDPOINT

from provision.core.errors import SpecError, ToolError, UsageError
from provision.core.platforms import this_platform
from provision.core.process import Run, clean_environment
from provision.core.temporary import scratch
from provision.resolver import local_index, uv
from provision.spec.model import Target

_MERGED = "merged"


def pins(
    target: Target,
    wheels: local_index.Indexes,
    default_index: str | None,
    run: Run,
    *,
    given: Mapping[str, str] | None = None,
) -> uv.Pins:
    """Resolve a target's requirements: at the given versions, or else by the cut-off.

    pip merges all indexes that it is given, so it gets a single one: that serves the names of the
    catalog itself, and redirects every other name to the default index.
    """
    require_support(target)
    served = {_MERGED: list(chain.from_iterable(wheels.values()))}
    fallback = default_index or PYPI_SIMPLE_ENDPOINT
    # --allow-unsafe: setuptools and pip are pinned like any package. --strip-extras: as uv writes
    # pins. --annotation-style line: the form that uv.parse_pins() reads.
    argv = [sys.executable, "-m", "piptools", "compile", "--quiet", "--dry-run"]
    argv += ["--no-config", "--no-header", "--annotation-style", "line"]
    argv += ["--strip-extras", "--allow-unsafe", "--no-emit-options"]
    argv += ["--output-file", "out.txt", uv.REQUIREMENTS]
    files: dict[str, Sequence[str]] = {uv.REQUIREMENTS: target.pip.requirements}
    if given is None:
        # pip can apply a cut-off only where the index lists upload times; given versions need none.
        argv += ["--uploaded-prior-to", uv.midnight(target.pip.cutoff)]
    else:
        argv += ["--constraint", uv.PINS]
        files[uv.PINS] = [f"{name}=={version}" for name, version in given.items()]
    with (
        local_index.serve(served, secrets.token_hex(), fallback) as urls,
        scratch() as folder,
    ):
        uv.write_lines(folder, files)
        url = urls[_MERGED]
        run = local_index.with_names(run, {"merged for pip-tools": url})
        done = run(argv, env=_environment(url), cwd=folder)
    if done.returncode:
        what = f"pip-tools finds no solution for {target.name}"
        raise SpecError(what, evidence=done.tail)
    # pip-compile writes the pins of a dry run to its log, on standard error.
    return uv.parse_pins(done.stdout + done.stderr)


def _environment(index_url: str) -> dict[str, str]:
    env = clean_environment(extra=uv.loopback_environment(os.environ))
    # The user's pip settings have no part here: the local index redirects to their mirror.
    settings = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_ONLY_BINARY": ":all:",
        "PIP_NO_INPUT": "1",
        "PIP_INDEX_URL": index_url,
    }
    if "SSL_CERT_FILE" in env:
        settings["PIP_CERT"] = env["SSL_CERT_FILE"]
    return env | settings


def require_support(target: Target) -> None:
    """Raise an error where pip-tools is absent, or cannot resolve a target."""
    if not importlib.util.find_spec("piptools"):
        raise ToolError(
            f"cannot resolve {target.name}: pip-tools is not installed",
            cause=f"{sys.executable} does not have it",
            remedy="install provision-torch[pip-tools]; in a clone "
            "`python3 noxfile.py` does",
        )
    platform = this_platform()
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if (platform, python) != (target.platform, target.python):
        raise UsageError(
            f"pip-tools cannot resolve {target.name} here",
            cause="it resolves for its own Python and platform, "
            f"{python} on {platform}",
            remedy="use uv, or run this on that platform",
        )
    pip = target.pip
    if pip.overrides or pip.exclude or pip.cutoffs or pip.local or pip.constraints:
        raise UsageError(
            f"pip-tools cannot resolve {target.name}",
            cause="overrides, excluded packages, constraints, local packages and "
            "cut-offs of single packages need uv",
            remedy="use uv",
        )
