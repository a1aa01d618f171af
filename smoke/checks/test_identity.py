"""Identity: the installed distributions are those of the lock, without any from elsewhere.

Reads metadata only: these checks run where torch can't be imported, too.
"""

import base64
import hashlib
import json
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from importlib.machinery import PathFinder
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from smoke import PATH_AT_START
from smoke.engine.check import Numbers, check
from smoke.engine.expect import Expect
from smoke.engine.files import read_table
from smoke.engine.finding import REBUILD, fail, fail_if
from smoke.engine.requirements import NOT_CODE, installed, normal
from smoke.engine.runner import OWN

IPEX = "intel-extension-for-pytorch"
TABLE = read_table(__file__, "own.json")
SITES = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
STDLIB = Path(sysconfig.get_path("stdlib"))
MAPS = Path("/proc/self/maps")
PACKAGE = re.compile(r"\w+/__init__\.py")


@check(
    "identity.python",
    stands_for="another interpreter or site-packages than intended in use",
)
def test_python(expect: Expect) -> None:
    """The interpreter is the target's, and imports from its own environment only."""
    version = "{}.{}".format(*sys.version_info)
    if version != expect.python:
        fail(
            "python-version-unsupported",
            f"this is Python {version}, the target's is {expect.python}",
            [sys.executable],
        )
    outside = "modules can be imported from outside of the environment: "
    fail_if(
        [outside + path for path in _foreign_paths(expect)],
        "wrong-interpreter-site-packages",
    )


def _foreign_paths(expect: Expect) -> list[str]:
    """Return the folders on sys.path that are not of the environment, its Python or its user.

    Those of the user are packages that stay editable, which no lock has.
    """
    suite = Path(__file__).resolve().parents[2]
    user = Path(site.getusersitepackages()).resolve()
    homes = _editable(expect)
    for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix):
        homes.append(Path(prefix).resolve())
    foreign = []
    for entry in filter(None, PATH_AT_START):
        path = Path(entry).resolve()
        inside = any(path.is_relative_to(home) for home in homes)
        if path != suite and (not inside or path.is_relative_to(user)):
            foreign.append(entry)
    return foreign


def _editable(expect: Expect) -> list[Path]:
    """Return the folders of editable packages (PEP 610) that are not of a lock."""
    folders = []
    for distribution in metadata.distributions():
        source = json.loads(distribution.read_text("direct_url.json") or "{}")
        name = normal(distribution.metadata["Name"] or "")
        is_editable = source.get("dir_info", {}).get("editable")
        if is_editable and (expect.foreign or not expect.locks(name)):
            folder = url2pathname(urlsplit(source["url"]).path)
            folders.append(Path(folder).resolve())
    return folders


@check("identity.versions", stands_for="a later install replaced the locked torch")
def test_versions(expect: Expect, numbers: Numbers) -> None:
    """Every locked distribution is installed once, in its locked version."""
    distributions = installed()
    numbers.record("distributions", len(distributions), "count")
    wrong = []
    for name, version in sorted(expect.packages.items()):
        versions = distributions.get(name, set())
        if versions != {version}:
            words = ", ".join(sorted(versions)) or "nothing"
            locked = "" if expect.foreign else f"locked {version}, "
            wrong.append(f"{name}: {locked}installed {words}")
    fail_if(wrong, "not-as-locked")


@check("identity.forbidden", stands_for="IPEX in a CUDA environment breaks sd-scripts")
def test_forbidden(expect: Expect) -> None:
    """No forbidden distribution is installed."""
    distributions = installed()
    for name, reason in {**_standing(expect), **expect.forbid}.items():
        if name in distributions:
            versions = sorted(distributions[name])
            fail(
                _forbidden_code(name, expect),
                f"{name} {', '.join(versions)} is installed",
                [f"{name} {version}" for version in versions],
                cause=reason,
                remedy=REBUILD,
            )


def _standing(expect: Expect) -> dict[str, str]:
    """Return what no target of this kind may have, in addition to its spec."""
    if expect.locks(IPEX):
        return {}
    if expect.locks("ipex-llm"):
        why = "this stack's ipex-llm has no IPEX; one beside it breaks its operators"
    else:
        why = "IPEX replaces operators of torch for every device; this target has none locked"
    return {IPEX: why}


def _forbidden_code(name: str, expect: Expect) -> str:
    if name == IPEX and expect.locks("ipex-llm"):
        return "ipex-llm-with-separate-ipex"
    if name == IPEX and expect.accelerator == "cuda":
        return "ipex-in-cuda-env"
    return "forbidden-distribution"


@check(
    "identity.owners",
    stands_for="a second triton over the first: the last one unpacked wins",
)
def test_owners() -> None:
    """No module is provided by two distributions."""
    wrong = []
    for module, names in metadata.packages_distributions().items():
        owners = sorted(set(names))
        if module in TABLE["contested"] and len(owners) > 1:
            wrong.append(f"{module} comes from {' and '.join(owners)}")
    fail_if(wrong, "two-owners-of-a-module")


@check("identity.build", stands_for="a CPU build of torch came from the XPU index")
def test_build(expect: Expect) -> None:
    """The installed torch is built for the target's accelerator."""
    if "torch" not in installed():
        fail("missing-package", "torch is not installed", [sys.prefix])
    words = _torch_version_file()
    made_for = _made_for(words, expect)
    if made_for in (expect.accelerator, *_unused(expect)):
        return
    code = "wrong-index-resolved"
    if made_for == "cpu":
        code = "cpu-build-of-torch-installed"
    fail(
        code,
        f"torch {words['__version__']} is a build for {made_for}, not {expect.accelerator}",
        [f"{key} = {value}" for key, value in sorted(words.items())],
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
    """Return what else a target's torch may be for: a Mac's is for both, old torch for CUDA."""
    if expect.accelerator == "mps":
        return ["cpu"]
    return ["cuda"] if expect.locks_cuda and not expect.on_gpu else []


def _torch_version_file() -> dict[str, str]:
    """Parse torch/version.py without an import; the metadata often lacks its local version."""
    path = metadata.distribution("torch").locate_file("torch/version.py")
    text = Path(str(path)).read_text(encoding="utf-8")
    assignment = r"^(\w+)(?:\s*:[^=]+)?\s*=\s*['\"]?([^'\"\n]+)"
    words = dict(re.findall(assignment, text, re.MULTILINE))
    words.pop("__all__", None)
    return words


@check(
    "identity.code",
    stands_for="a .pth file or sitecustomize maps torch.cuda to torch.xpu",
)
def test_code(expect: Expect) -> None:
    """What runs at Python's start and what finds modules is as it was installed."""
    files = {}
    for distribution in metadata.distributions():
        for line in (distribution.read_text("RECORD") or "").splitlines():
            fields = line.rsplit(",", 2)
            if len(fields) > 1:
                files[fields[0]] = fields[1]
    libraries = [*_libraries()]
    added = [*_finders(files), *_start_lines(files), *_shadows(files)]
    if expect.foreign:
        _fail_of_foreign(libraries, added)
    fail_if(
        libraries + added,
        "foreign-code-loaded",
        cause="a file was added or edited after the build, or a program changes imports",
        remedy=f"remove it, or {REBUILD}",
    )


def _fail_of_foreign(libraries: list[str], added: list[str]) -> None:
    """End the check of an environment that no lock describes: what its owner added may be meant."""
    fail_if(
        libraries,
        "foreign-code-loaded",
        cause="a package does it when it is imported, or the loader finds another copy first",
        remedy="uninstall the package that does it, or remove the other copy",
    )
    fail_if(
        added,
        "foreign-code-loaded",
        "warning",
        cause="no package of the environment recorded this file, or a program changes imports",
        remedy="leave it where its owner added it on purpose: the checks ran with it; else remove it",
    )


def _libraries() -> Iterator[str]:
    """Yield loaded libraries that the environment has, too, and what one did to arithmetic."""
    # As libraries of -ffast-math do when they are loaded.
    if sys.float_info.min / 2 == 0:
        yield "a library lets this process take small numbers for zero"
    if not MAPS.is_file():
        return
    libraries = [*Path(sys.prefix, "lib").glob("lib*.so*")]
    for home, part in product(SITES, TABLE["libraries"]):
        libraries += home.glob(f"{part}/lib*.so*")
    by_name = {path.name: path for path in libraries}
    lines = MAPS.read_text(encoding="utf-8").splitlines()
    mapped = {line.split(maxsplit=5)[5] for line in lines if ".so" in line}
    for loaded in map(Path, sorted(mapped)):
        ours = by_name.get(loaded.name, loaded)
        is_driver = re.match(TABLE["drivers"], loaded.name)
        if not is_driver and ours.resolve() != loaded.resolve():
            yield f"{loaded} was loaded, not {ours}"


def _is_known(name: str, path: Path, files: dict[str, str]) -> bool:
    """Return whether code is Python's own, or a distribution's that is as its RECORD says."""
    entry = ""
    for home in SITES:
        if path.is_relative_to(home):
            entry = path.relative_to(home).as_posix()
    if entry in files:
        digest = hashlib.sha256(path.read_bytes()).digest()
        text = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        return files[entry] in ("", f"sha256={text}")
    if re.match(TABLE["known"], name):
        return True
    return not entry and path.is_relative_to(STDLIB)


def _finders(files: dict[str, str]) -> Iterator[str]:
    """Yield what finds modules or runs at the start, and is not Python's or a distribution's."""
    hooks = [*sys.meta_path, *sys.path_hooks]
    finders = [(hook.__module__, f"{hook!r:.80}") for hook in hooks]
    for name in ("sitecustomize", "usercustomize"):
        if name in sys.modules:
            finders.append((name, name))
    for name, words in finders:
        file = getattr(sys.modules.get(name), "__file__", None) or f"/{name}"
        if not _is_known(name, Path(file), files):
            yield f"{words} of {file} changes imports"


def _shadows(files: dict[str, str]) -> Iterator[str]:
    """Yield packages that are, or would be, imported from elsewhere than they were installed."""
    homes = {STDLIB}
    for distribution in metadata.distributions():
        homes.add(Path(str(distribution.locate_file(""))))
    homes |= {home.resolve() for home in homes}
    names = {file.partition("/")[0] for file in files if PACKAGE.fullmatch(file)}
    for name in sorted(names - OWN - NOT_CODE):
        module = sys.modules.get(name) or PathFinder.find_spec(name)
        place = getattr(module, "__file__", None) or getattr(module, "origin", None)
        if place:
            path = Path(place)
            # A package may be a link to elsewhere, as Nix makes them.
            if homes.isdisjoint([*path.parents, *path.resolve().parents]):
                yield f"{name} comes from {place}"


def _start_lines(files: dict[str, str]) -> Iterator[str]:
    """Yield lines of .pth files that run code."""
    paths: list[Path] = []
    for home in SITES:
        paths += home.glob("*.pth")
    for path in sorted(paths):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        code = [line for line in lines if line.startswith(("import ", "import\t"))]
        if code and not _is_known(path.name, path, files):
            yield f"{path.name} runs {code[0]:.120}"


@check(
    "identity.environment", stands_for="a legacy stack started without its library path"
)
def test_environment(expect: Expect) -> None:
    """The environment variables of the target are set."""
    wrong = []
    for name, text in sorted(expect.environment.items()):
        value = text.replace("{prefix}", sys.prefix)
        actual = os.environ.get(name)
        if actual != value:
            wrong.append(f"{name} is {actual!r}, the target sets {value!r}")
    fail_if(wrong, "environment-not-set")
