"""Identity: the installed distributions are those of the lock, without any from elsewhere.

Reads metadata only: these checks run where torch can't be imported, too.
"""

from __future__ import annotations

import os
import re
import site
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from smoke import PATH_AT_START
from smoke.checks import check
from smoke.finding import fail
from smoke.requirements import normal

if TYPE_CHECKING:
    from smoke.checks import Numbers
    from smoke.expect import Expect

REBUILD = "build the environment again from its lock"
IPEX = "intel-extension-for-pytorch"
# Import names that several distributions provide; the one that is unpacked last overwrites.
CONTESTED = ("torch", "triton", "torchvision", "torchaudio", "intel_extension_for_pytorch")


def installed() -> dict[str, set[str]]:
    """Return every installed distribution with its versions: two, where an old one was left."""
    found: dict[str, set[str]] = {}
    for distribution in metadata.distributions():
        if name := distribution.metadata["Name"]:
            found.setdefault(normal(name), set()).add(distribution.version)
    return found


@check("identity.python", stands_for="another interpreter or site-packages than intended in use")
def test_python(expect: Expect) -> None:
    """The interpreter is the target's, and imports from its own environment only."""
    version = "{}.{}".format(*sys.version_info)
    if version != expect.python:
        fail(
            "python-version-unsupported",
            f"this is Python {version}, the target's is {expect.python}",
            cause="the suite was started with another interpreter than the environment's",
            remedy=REBUILD,
            evidence=[sys.executable],
        )
    if foreign := _foreign_paths():
        fail(
            "wrong-interpreter-site-packages",
            f"modules can be imported from outside of the environment: {foreign[0]}",
            cause="a .pth file or a setting adds another folder to sys.path",
            remedy=f"remove what adds it, or {REBUILD}",
            evidence=foreign,
        )


def _foreign_paths() -> list[str]:
    """Return the folders on sys.path that belong neither to the environment nor to its Python."""
    ours = Path(__file__).resolve().parent.parent
    homes = [Path(home).resolve() for home in (sys.prefix, sys.base_prefix, sys.exec_prefix)]
    user = Path(site.getusersitepackages()).resolve()

    def foreign(entry: str) -> bool:
        path = Path(entry).resolve()
        inside = any(path.is_relative_to(home) for home in homes)
        return path != ours and (not inside or path.is_relative_to(user))

    return [entry for entry in PATH_AT_START if entry and foreign(entry)]


@check("identity.versions", stands_for="a later install replaced the locked torch")
def test_versions(expect: Expect, numbers: Numbers) -> None:
    """Every locked distribution is installed once, in its locked version."""
    found = installed()
    numbers.record("distributions", len(found), "count")
    wrong = [
        f"{name}: locked {version}, installed {', '.join(sorted(found.get(name, ()))) or 'nothing'}"
        for name, version in sorted(expect.packages.items())
        if found.get(name) != {version}
    ]
    if wrong:
        fail(
            "not-as-locked",
            f"{len(wrong)} of {len(expect.packages)} packages differ from the lock: {wrong[0]}",
            cause="something was installed or removed after the build",
            remedy=REBUILD,
            evidence=wrong[:20],
        )


@check("identity.forbidden", stands_for="IPEX in a CUDA environment breaks sd-scripts")
def test_forbidden(expect: Expect) -> None:
    """No forbidden distribution is installed."""
    found = installed()
    for name, reason in {**_standing(expect), **expect.forbid}.items():
        if name in found:
            fail(
                _forbidden_code(name, expect),
                f"{name} {', '.join(sorted(found[name]))} is installed",
                cause=reason,
                remedy=REBUILD,
                evidence=[f"{name} {version}" for version in sorted(found[name])],
            )


def _standing(expect: Expect) -> dict[str, str]:
    """Return what no target of this kind may have, in addition to its spec."""
    if expect.locks(IPEX):
        return {}
    if expect.locks("ipex-llm"):
        return {IPEX: "this stack's ipex-llm has no IPEX; one beside it breaks its operators"}
    return {IPEX: "IPEX replaces operators of torch for every device; this target has none locked"}


def _forbidden_code(name: str, expect: Expect) -> str:
    if name != IPEX:
        return "forbidden-distribution"
    if expect.locks("ipex-llm"):
        return "ipex-llm-with-separate-ipex"
    return "ipex-in-cuda-env" if expect.accelerator == "cuda" else "forbidden-distribution"


@check("identity.owners", stands_for="a second triton over the first: the last one unpacked wins")
def test_owners() -> None:
    """No module is provided by two distributions."""
    owners = metadata.packages_distributions()
    for module in CONTESTED:
        names = sorted(set(owners.get(module, ())))
        if len(names) > 1:
            fail(
                "two-owners-of-a-module",
                f"{module} comes from {' and '.join(names)}",
                cause="both were unpacked into one folder, and their files are mixed",
                remedy=REBUILD,
                evidence=names,
            )


@check("identity.build", stands_for="a CPU build of torch came from the XPU index")
def test_build(expect: Expect) -> None:
    """The installed torch is built for the target's accelerator."""
    words = _torch_version_file()
    made_for = _made_for(words, expect)
    if made_for not in (expect.accelerator, *_unused(expect)):
        code = "cpu-build-of-torch-installed" if made_for == "cpu" else "wrong-index-resolved"
        fail(
            code,
            f"torch {words['__version__']} is a build for {made_for}, not {expect.accelerator}",
            cause="torch came from another index than the spec assigns to it",
            remedy=REBUILD,
            evidence=[f"{key} = {value}" for key, value in sorted(words.items())],
        )


def _made_for(words: dict[str, str], expect: Expect) -> str:
    """Return the accelerator that this torch, with the IPEX of the lock, has code for."""
    if words.get("cuda", "None") != "None":
        return "cuda"
    if words.get("xpu", "None") != "None" or "+xpu" in words["__version__"]:
        return "xpu"
    # The torch of the legacy stacks has no XPU code; their IPEX provides it.
    return "xpu" if "+xpu" in expect.packages.get(IPEX, "") else "cpu"


def _unused(expect: Expect) -> list[str]:
    """Return accelerators that the torch of a CPU target may have code for.

    Old torch is on the default index as a CUDA build only, for Linux.
    """
    return ["cuda"] if expect.locks_cuda and not expect.on_gpu else []


def _torch_version_file() -> dict[str, str]:
    """Parse torch/version.py without an import; the metadata often lacks its local version."""
    text = Path(str(metadata.distribution("torch").locate_file("torch/version.py"))).read_text(
        encoding="utf-8"
    )
    found = re.findall(r"^(\w+)(?:\s*:[^=]+)?\s*=\s*['\"]?([^'\"\n]+)", text, re.MULTILINE)
    return {key: value for key, value in found if not key.startswith("__all")}


@check("identity.environment", stands_for="a legacy stack started without its library path")
def test_environment(expect: Expect) -> None:
    """The environment variables of the target are set."""
    wanted = {
        name: value.replace("{prefix}", sys.prefix) for name, value in expect.environment.items()
    }
    wrong = [
        f"{name} is {os.environ.get(name)!r}, the target sets {value!r}"
        for name, value in sorted(wanted.items())
        if os.environ.get(name) != value
    ]
    if wrong:
        fail(
            "environment-not-set",
            wrong[0],
            cause="the suite was started outside of the target's environment",
            remedy="start it with `provision smoke`, and programs with `provision run`",
            evidence=wrong,
        )
