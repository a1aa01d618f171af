"""Write provision/doctor/names.json.gz: which public names came and went with which releases.

    python docs/record_names.py FOLDER [LIBRARY …]

Reads the Python sources of each minor release of the libraries below: from FOLDER/REPOSITORY, a git
repository (one that is absent is cloned there), or from wheels of the default index, one at a time.
Nothing is imported. Only a name that some of the releases have and some have not is written.
"""
# ruff: noqa: INP001, S607, T201 - a program, not a module of a package

from __future__ import annotations

import ast
import gzip
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

TOLD = Path(__file__).with_suffix(".toml")
TABLE = Path(__file__).parents[1] / "provision" / "doctor" / "names.json.gz"
_VERSION = re.compile(r"(?:[a-z-]*v?|.*@)(\d+(?:\.\d+)+)(?:\.post\d+)?")
_SKIPPED = re.compile(
    r"(^|/)(tests?|testing|dummy_\w+|conftest|benchmarks?|examples?|_vendor|_internal)(/|\.py)"
)
_FLAT = re.compile(
    r"^(?:class|def|async def)\s+(\w+)|^(\w+)\s*(?::[^=\n]+)?=", re.MULTILINE
)
_ALL = re.compile(r"^__all__\s*\+?=\s*\[(.*?)\]", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")
_EMPTY: frozenset[str] = frozenset()


class Library(NamedTuple):
    """A distribution: where its sources are, what it is imported as, and from which release on."""

    repository: str  # owner/name, or "" for the wheels of the index
    packages: tuple[str, ...]  # folders, each imported by its name after any "src/"
    first: str
    tag: str = ""  # pattern of the tags, where others are of something else
    step: int = 1  # of the minor releases every so many, and the last
    flat: str = ""  # modules, by path, of which only the names at the top level matter
    members: bool = (
        True  # whether the members of classes and arguments are told, or names alone
    )
    attributes: bool = True  # whether the members are, or arguments alone
    also: tuple[str, ...] = ()  # other names under which the same modules are imported
    reached: int = (
        0  # into what is not exported other code reaches: 1 for what went, 2 for all
    )


LIBRARIES = {
    "transformers": Library(
        "", ("transformers",), "4.0", flat=r"/models/|_tf_|_flax_", reached=1
    ),
    "diffusers": Library(
        "huggingface/diffusers",
        ("src/diffusers",),
        "0.2",
        flat="/pipelines/",
        reached=2,
    ),
    "accelerate": Library(
        "huggingface/accelerate", ("src/accelerate",), "0.3", reached=1
    ),
    "peft": Library("huggingface/peft", ("src/peft",), "0.1", reached=1),
    "trl": Library("huggingface/trl", ("trl",), "0.2", reached=1),
    "datasets": Library(
        "huggingface/datasets",
        ("src/datasets",),
        "1.1",
        flat="packaged_modules",
        reached=1,
    ),
    "huggingface_hub": Library(
        "huggingface/huggingface_hub", ("src/huggingface_hub",), "0.0", reached=1
    ),
    "tokenizers": Library(
        "huggingface/tokenizers",
        ("bindings/python/py_src/tokenizers",),
        "0.8",
        tag="(python-)?v",
        reached=2,
    ),
    "safetensors": Library(
        "huggingface/safetensors",
        ("bindings/python/py_src/safetensors",),
        "0.2",
        reached=2,
    ),
    "optimum": Library("huggingface/optimum", ("optimum",), "1.2", flat="."),
    "sentence-transformers": Library(
        "huggingface/sentence-transformers", ("sentence_transformers",), "1.0"
    ),
    "timm": Library(
        "huggingface/pytorch-image-models", ("timm",), "0.1", flat="/models/", reached=1
    ),
    "bitsandbytes": Library(
        "bitsandbytes-foundation/bitsandbytes", ("bitsandbytes",), "0.35", reached=2
    ),
    "torchao": Library("pytorch/ao", ("torchao",), "0.1", flat="."),
    "pytorch-lightning": Library(
        "Lightning-AI/pytorch-lightning",
        (
            "src/pytorch_lightning",
            "pytorch_lightning",
            "src/lightning/pytorch=pytorch_lightning",
        ),
        "1.0",
        also=("lightning.pytorch",),
    ),
    "torchmetrics": Library(
        "Lightning-AI/torchmetrics",
        ("src/torchmetrics", "torchmetrics"),
        "0.2",
        attributes=False,
    ),
    "torchvision": Library(
        "", ("torchvision",), "0.12", flat="/models/|/prototype/", reached=1
    ),
    "torchaudio": Library(
        "", ("torchaudio",), "0.12", flat="/models/|/prototype/", reached=2
    ),
    "torchtext": Library("pytorch/text", ("torchtext",), "0.5", reached=2),
    "xformers": Library(
        "facebookresearch/xformers",
        ("xformers",),
        "0.0",
        tag=r"v(?=0\.0\.)",
        flat=".",
        reached=2,
    ),
    "deepspeed": Library(
        "deepspeedai/DeepSpeed",
        ("deepspeed",),
        "0.3",
        flat="/inference/|module_inject",
        members=False,
    ),
    "fairseq": Library(
        "facebookresearch/fairseq", ("fairseq",), "0.6", flat="/models/", members=False
    ),
    "mmcv": Library("open-mmlab/mmcv", ("mmcv",), "1.0", reached=1),
    "mmengine": Library("open-mmlab/mmengine", ("mmengine",), "0.1", reached=2),
    "einops": Library("arogozhnikov/einops", ("einops",), "0.2", reached=2),
    "kornia": Library("kornia/kornia", ("kornia",), "0.4", flat="."),
    "albumentations": Library(
        "albumentations-team/albumentations", ("albumentations",), "0.5", members=False
    ),
    "librosa": Library("librosa/librosa", ("librosa",), "0.6", reached=2),
    "numba": Library("numba/numba", ("numba",), "0.48", flat=".", step=2),
    "numpy": Library(
        "numpy/numpy",
        ("numpy",),
        "1.15",
        flat="/core/|/_core/|/f2py/|distutils",
        members=False,
    ),
    "scipy": Library("scipy/scipy", ("scipy",), "1.2", flat="."),
    "pandas": Library("", ("pandas",), "1.1", flat=r"/(io|plotting|_libs|arrays)/"),
    "scikit-learn": Library(
        "", ("sklearn",), "0.22", flat="/externals/", attributes=False
    ),
    "scikit-image": Library(
        "scikit-image/scikit-image", ("skimage", "src/skimage"), "0.15", members=False
    ),
    "matplotlib": Library(
        "", ("matplotlib",), "3.2", flat="/backends/", attributes=False
    ),
    "networkx": Library(
        "networkx/networkx", ("networkx",), "2.1", tag="networkx-", members=False
    ),
    "pillow": Library("python-pillow/Pillow", ("src/PIL",), "6.0", reached=2),
    "moviepy": Library("Zulko/moviepy", ("moviepy",), "1.0", members=False, reached=2),
    "gradio": Library(
        "gradio-app/gradio", ("gradio",), "3.0", tag="(gradio@|v)", step=4
    ),
    "pydantic": Library(
        "pydantic/pydantic", ("pydantic",), "1.4", flat="/v1/", reached=2
    ),
    "protobuf": Library(
        "protocolbuffers/protobuf",
        ("python/google/protobuf",),
        "3.8",
        tag=r"v(?=3\.(?:[89]|1\d|20)\.|[4-9]\.)",
        reached=2,
    ),
    "langchain": Library("", ("langchain",), "0.0", flat=".", members=False),
    "openai": Library(
        "openai/openai-python",
        ("openai", "src/openai"),
        "0.27",
        tag=r"v(?=0\.2[78]\.|[1-9]\.\d*[05]\.)",
        flat="/types/",
        members=False,
    ),
    "httpx": Library("encode/httpx", ("httpx",), "0.11", reached=2),
    "starlette": Library("Kludex/starlette", ("starlette",), "0.12", reached=2),
    "omegaconf": Library("omry/omegaconf", ("omegaconf",), "1.4", reached=2),
    "hydra-core": Library("facebookresearch/hydra", ("hydra",), "1.0", reached=2),
    "fsspec": Library("fsspec/filesystem_spec", ("fsspec",), "0.6", reached=2),
    "packaging": Library(
        "pypa/packaging", ("src/packaging", "packaging"), "19.0", reached=2
    ),
    "setuptools": Library(
        "pypa/setuptools",
        ("setuptools", "pkg_resources"),
        "40.0",
        tag="v",
        step=2,
        members=False,
        reached=2,
    ),
    "typing_extensions": Library(
        "python/typing_extensions",
        ("src", "typing_extensions/src_py3"),
        "3.7",
        reached=2,
    ),
    "urllib3": Library("urllib3/urllib3", ("src/urllib3",), "1.25", reached=2),
    "jinja2": Library("pallets/jinja", ("src/jinja2", "jinja2"), "2.10", reached=2),
    "markupsafe": Library("pallets/markupsafe", ("src/markupsafe",), "1.1", reached=2),
    "click": Library("pallets/click", ("src/click", "click"), "7.0", reached=2),
    "flask": Library("pallets/flask", ("src/flask", "flask"), "1.0", reached=2),
    "werkzeug": Library(
        "pallets/werkzeug",
        ("src/werkzeug", "werkzeug"),
        "0.15",
        members=False,
        reached=2,
    ),
}


# The bases of a class, its members, and of each method the arguments; "**" for any.
Class = tuple[tuple[str, ...], frozenset[str], dict[str, frozenset[str]]]


class Module(NamedTuple):
    """What one file defines."""

    names: frozenset[str]
    stars: tuple[
        str, ...
    ]  # modules, relative ones with their dots, whose names it takes over
    classes: dict[str, Class]
    functions: dict[str, frozenset[str]]
    public: frozenset[str]  # __all__


_READ: dict[tuple[bytes, bool, bool], Module] = {}


def read(source: bytes, top: str, *, flat: bool, init: bool) -> Module:
    """Return what a source defines; equal sources are parsed once."""
    key = source, flat, init
    if key not in _READ:
        _READ[key] = _flat(source) if flat else _parsed(source, top, init=init)
    return _READ[key]


def _flat(source: bytes) -> Module:
    text = source.decode(errors="replace")
    public = frozenset(_WORD.findall(" ".join(_ALL.findall(text))))
    names = {a or b for a, b in _FLAT.findall(text)} | public
    return Module(frozenset(names), (), {}, {}, public)


def _parsed(source: bytes, top: str, *, init: bool) -> Module:  # noqa: C901 - one kind a branch
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return _flat(source)
    names, stars, classes, functions = set[str](), list[str](), {}, {}
    for node in _top_level(tree.body):
        if isinstance(node, ast.ClassDef):
            classes[node.name] = _class(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions[node.name] = _arguments(node)
        elif isinstance(node, ast.ImportFrom):
            inside = init or node.level or (node.module or "").split(".")[0] == top
            if any(alias.name == "*" for alias in node.names):
                stars.append("." * node.level + (node.module or ""))
            elif inside:
                names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(
                x.id for t in targets for x in ast.walk(t) if isinstance(x, ast.Name)
            )
        if init and not isinstance(
            node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ):
            # Packages that load their parts on demand hold the names as strings.
            texts = (x.value for x in ast.walk(node) if isinstance(x, ast.Constant))
            names.update(x for x in texts if isinstance(x, str) and _WORD.fullmatch(x))
    public = frozenset(
        _WORD.findall(" ".join(_ALL.findall(source.decode(errors="replace"))))
    )
    return Module(
        frozenset(names | set(classes) | set(functions)),
        tuple(stars),
        classes,
        functions,
        public,
    )


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        for part in ("body", "orelse", "handlers", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                for inner in getattr(node, part, []):
                    yield from _top_level(
                        getattr(inner, "body", [inner])
                        if part == "handlers"
                        else [inner]
                    )


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    a = node.args
    found = {x.arg for x in [*a.args, *a.kwonlyargs] if x.arg not in ("self", "cls")}
    decorated = any(
        "deprecat" in ast.unparse(x) or "wrap" in ast.unparse(x)
        for x in node.decorator_list
    )
    return frozenset(found | ({"**"} if a.kwarg or decorated else set()))


def _class(node: ast.ClassDef) -> Class:
    members, methods, fields = set[str](), dict[str, frozenset[str]](), set[str]()
    for item in node.body:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            methods[item.name] = _arguments(item)
            members |= {
                x.attr
                for x in ast.walk(item)
                if isinstance(x, ast.Attribute)
                and isinstance(x.ctx, ast.Store)
                and isinstance(x.value, ast.Name)
                and x.value.id == "self"
            }
        elif isinstance(item, ast.Assign | ast.AnnAssign):
            targets = item.targets if isinstance(item, ast.Assign) else [item.target]
            found = {
                x.id for t in targets for x in ast.walk(t) if isinstance(x, ast.Name)
            }
            members |= found
            fields |= found if isinstance(item, ast.AnnAssign) else set()
    bases = tuple(
        ast.unparse(x).rpartition(".")[2].partition("[")[0] for x in node.bases
    )
    if (
        any("dataclass" in ast.unparse(x) for x in node.decorator_list)
        and "__init__" not in methods
    ):
        methods["__init__"] = frozenset(fields | {"+"})  # those of its bases too
    return bases, frozenset(members | set(methods)), methods


def names_of(files: dict[str, bytes], library: Library) -> set[tuple[str, str]]:
    """Return all (module or class, name) of a release, from its files by path."""
    modules = dict[str, Module]()
    for package in library.packages:
        folder, _, imported = package.partition("=")
        parts = folder.split("/")
        cut = len(parts) - (
            2 if "google" in parts else 0 if parts[-1].startswith("src") else 1
        )
        for path, source in files.items():
            if path.startswith(folder + "/") and not _SKIPPED.search(
                path.removeprefix(folder)
            ):
                rest = (
                    path.removeprefix(folder)
                    if imported
                    else "/".join(path.split("/")[cut:])
                )
                name = re.sub(
                    r"(\.__init__)?\.pyi?$", "", (imported + rest).replace("/", ".")
                )
                flat = bool(
                    library.flat and re.search(library.flat, path)
                ) and not path.endswith("__init__.py")
                read_in = read(
                    source, name.split(".")[0], flat=flat, init="__init__" in path
                )
                modules[name] = (
                    _merged(modules[name], read_in) if name in modules else read_in
                )
    found = {("/", name) for name in modules}
    for name in modules:
        found.update((name, each) for each in _visible(name, modules, frozenset()))
    if library.members:
        found |= _members(modules)
    return found


def _merged(one: Module, other: Module) -> Module:
    return one._replace(names=one.names | other.names, stars=one.stars + other.stars)


def _visible(
    name: str, modules: dict[str, Module], seen: frozenset[str]
) -> frozenset[str]:
    if name in seen or name not in modules:
        return _EMPTY
    module, found, seen = modules[name], set[str](), seen | {name}
    is_package = any(each.startswith(name + ".") for each in modules)
    for star in (each for each in module.stars if "dummy" not in each):
        dots = len(star) - len(star.lstrip("."))
        base = (
            name.split(".")[: len(name.split(".")) - dots + is_package] if dots else []
        )
        source = ".".join([*base, *filter(None, [star.lstrip(".")])])
        public = modules[source].public if source in modules else _EMPTY
        found |= public or _visible(source, modules, seen)
    if "define_import_structure" in module.names or name == "transformers":
        below = "transformers.models" if name == "transformers" else name
        found |= {
            x for m in modules if m.startswith(below + ".") for x in modules[m].public
        }
    return module.names | found


def _joined(name: str, one: Class, other: Class) -> Class:
    """Return two classes of one name, such as an old place and the new one, as one."""
    methods = {
        m: one[2].get(m, _EMPTY) | other[2].get(m, _EMPTY)
        for m in {**one[2], **other[2]}
    }
    return (
        tuple(b for b in (*one[0], *other[0]) if b != name),
        one[1] | other[1],
        methods,
    )


def _members(modules: dict[str, Module]) -> set[tuple[str, str]]:  # noqa: C901 - one loop
    classes = dict[str, Class]()
    for module in modules.values():
        for name, one in module.classes.items():
            classes[name] = (
                _joined(name, classes[name], one) if name in classes else one
            )
    found = {
        (":", name)
        for name in [*classes, *(f for m in modules.values() for f in m.functions)]
    }
    found |= {
        (":<", f"{n}<{b}") for n, c in classes.items() for b in c[0][:1] if b in classes
    }
    for name in classes:
        chain, todo = list[str](), [name]
        while todo:
            if (now := todo.pop(0)) in classes and now not in chain:
                chain.append(now)
                todo += classes[now][0]
        found.update((f":{name}", each) for c in chain for each in classes[c][1])
        methods = {m for c in chain for m in classes[c][2]}
        for method in methods:
            owners = [classes[c][2][method] for c in chain if method in classes[c][2]]
            arguments = set(owners[0])
            for more in owners[1:]:
                arguments |= more if "+" in arguments else set()
            found.update((f":{name}.{method}", each) for each in arguments)
    for module in modules.values():
        found.update((f":{n}", a) for n, args in module.functions.items() for a in args)
    return found


def _git(folder: Path, *command: str) -> bytes:
    return subprocess.run(
        ["git", "-C", folder, *command], check=True, capture_output=True
    ).stdout


def _chosen(library: Library, versions: dict[str, str]) -> list[str]:
    """Return the last patch release of each minor one from the first on."""
    last = dict[tuple[int, ...], tuple[tuple[int, ...], str]]()
    for version in versions:
        number = tuple(map(int, version.split(".")))
        if number >= tuple(map(int, library.first.split("."))):
            minor = number if library.packages == ("xformers",) else number[:2]
            last[minor] = max(last.get(minor, ((), "")), (number, version))
    found = [version for _, (_, version) in sorted(last.items())]
    return [v for i, v in enumerate(reversed(found)) if i % library.step == 0][::-1]


def from_git(library: Library, folder: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the releases of a repository, oldest first, each with its files."""
    repository = folder / library.repository.split("/")[1]
    if not repository.exists():
        url = f"https://github.com/{library.repository}"
        subprocess.run(["git", "clone", "--bare", url, repository], check=True)
    tags = dict[str, str]()
    for tag in _git(repository, "tag").decode().split():
        match = _VERSION.fullmatch(tag)
        if match and (not library.tag or re.match(library.tag + r"\d", tag)):
            tags[match[1]] = tag
    for version in _chosen(library, tags):
        yield (
            version,
            _blobs(
                repository,
                tags[version],
                [each.partition("=")[0] for each in library.packages],
            ),
        )


def _blobs(repository: Path, tag: str, folders: list[str]) -> dict[str, bytes]:
    listed = (
        _git(repository, "ls-tree", "-r", tag, "--", *folders).decode().splitlines()
    )
    rows = [
        (line.split()[2], line.split("\t")[1])
        for line in listed
        if line.endswith((".py", ".pyi"))
    ]
    asked = "\n".join(blob for blob, _ in rows).encode()
    command = ["git", "-C", str(repository), "cat-file", "--batch"]
    out = subprocess.run(command, input=asked, check=True, capture_output=True).stdout
    files, at = dict[str, bytes](), 0
    for _, path in rows:
        end = out.index(b"\n", at)
        head = out[at:end].split()
        size = int(head[2]) if len(head) == 3 else 0
        files[path] = out[end + 1 : end + 1 + size]
        at = end + 1 + (size + 1 if len(head) == 3 else 0)
    return files


def from_wheels(name: str, library: Library) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the releases that the default index has, oldest first, each with its files."""
    pip = [sys.executable, "-m", "pip", "-q"]
    versions = dict[str, str]()
    for python in ("3.8", "3.11"):
        asked = [
            "--python-version",
            python,
            "--only-binary",
            ":all:",
            "--platform",
            "manylinux2014_x86_64",
            "--platform",
            "manylinux_2_28_x86_64",
        ]
        command = [*pip[:-1], "index", "versions", name, *asked]
        text = subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout
        listed = (
            text.partition("Available versions: ")[2].partition("\n")[0].split(", ")
        )
        versions.update(
            (each, "") for each in listed if re.fullmatch(r"\d+(\.\d+)+", each)
        )
    for version in _chosen(library, versions):
        with tempfile.TemporaryDirectory() as folder:
            for python, platform in (
                ("3.11", "macosx_12_0_arm64"),
                ("3.8", "manylinux2014_x86_64"),
                ("3.8", "manylinux1_x86_64"),
            ):
                one = [
                    "--python-version",
                    python,
                    "--platform",
                    platform,
                    "--no-deps",
                    "--only-binary",
                    ":all:",
                ]
                done = subprocess.run(
                    [*pip, "download", *one, "-d", folder, f"{name}=={version}"],
                    capture_output=True,
                    check=False,
                )
                if done.returncode == 0:
                    break
            for wheel in Path(folder).glob("*.whl"):
                with zipfile.ZipFile(wheel) as z:
                    yield (
                        version,
                        {
                            n: z.read(n)
                            for n in z.namelist()
                            if n.endswith((".py", ".pyi"))
                        },
                    )


Has = dict[tuple[str, str], list[int]]  # where and what, and in which releases it is


def presence(name: str, folder: Path) -> tuple[list[str], Has]:
    """Return the releases of a library and which names each of them has."""
    library, releases, has = (
        LIBRARIES[name],
        list[str](),
        defaultdict[tuple[str, str], list[int]](list),
    )
    source = (
        from_git(library, folder) if library.repository else from_wheels(name, library)
    )
    for version, files in source:
        found = names_of(files, library)
        if len(found) < 5:
            continue
        for each in found:
            has[each].append(len(releases))
        releases.append(version)
    return releases, has


_INNER = re.compile(
    r"\.models\.(?!(llama|mistral|mixtral|qwen2|gpt2|bert|t5|clip|gemma|phi|bloom|opt)\b)\w+\."
    r"|\.pipelines\.\w+\.|_fast$|convert_|_(tf|flax)_"
)
_FOREIGN = re.compile(
    r"TF[A-Z]|Flax[A-Z]|\w+_tf_|load_tf_|\w+OnnxConfig|\w+ImageProcessorFast|is_\w+_(before|1_\d+)|\w+Optional"
)
_CALLED = {
    "__init__",
    "forward",
    "__call__",
    "generate",
    "from_pretrained",
    "step",
    "fit",
    "prepare",
}
_IMPORTED = (
    4  # a name in more modules than these is one that they import for themselves
)
Spans = dict[tuple[str, str], tuple[int, int]]
_PRIVATE = re.compile(
    r"(^|\.)(_\w*|cli|commands|scripts|launch\w*|onnx|examples|dummy_\w+|testing\w*|test_\w+|experimental|benchmark\w*|__main__|legacy\w*)(\.|$)"
)
_NOISE = re.compile(
    r"__|\*\*$|\+$|[A-Z0-9_]+_(DOCSTRING|DOC|LIST|MAP|MAPPING|SAMPLE|OUTPUT|INPUTS)\w*$|_[A-Z][A-Z]|logger$|[a-z]$|\w{46}"
)


def entry(name: str, releases: list[str], has: Has) -> dict[str, Any]:
    """Return the part of the table for a library: what came or went, said once."""
    library, end = LIBRARIES[name], len(releases) - 1
    folder = library.packages[0].rpartition("/")[2]
    top = (
        "google.protobuf" if name == "protobuf" else name if folder == "src" else folder
    )
    bases = {
        sub: base
        for sub, _, base in (each.partition("<") for w, each in has if w == ":<")
    }
    any_argument = {where: at for (where, what), at in has.items() if what == "**"}
    life = dict[tuple[str, str], tuple[int, int]]()
    for (where, what), at in has.items():
        all_of = [*at, *any_argument.get(where, ())]
        life[where, what] = (min(all_of), max(all_of))
    kept = {
        key: span
        for key, span in life.items()
        if span != (0, end) and not (key[0][0] != ":" and _PRIVATE.search(key[0]))
    }
    kept = {key: span for key, span in kept.items() if _telling(key, span, life, bases)}
    packages = {module.rpartition(".")[0] for where, module in has if where == "/"} | {
        top
    }
    public = {what for where, what in has if where in packages}
    flat = re.compile(library.flat or "$^").search
    asking = {
        w
        for w, _ in has
        if w[0] not in "/:"
        and w not in packages
        and not flat(f"/{w.replace('.', '/')}/")
    }
    plain = Counter(what for where, what in has if where in asking)
    kept = {
        key: span
        for key, span in kept.items()
        if _asked(key, library, public, gone=span[1] < end)
    }
    kept = {
        (w, n): s
        for (w, n), s in kept.items()
        if w[0] in "/:" or w in packages or plain[n] <= _IMPORTED
    }
    table = defaultdict[str, dict[str, set[str]]](lambda: defaultdict(set))
    everywhere = defaultdict[str, set[tuple[int, int]]](set)
    for (where, what), span in life.items():
        if where[0] not in "/:" and not _PRIVATE.search(where):
            everywhere[what].add(span)
    imports = [
        top,
        *sorted(
            {re.split("[/=]", p)[-1] for p in library.packages}
            - {"src", "src_py3", "protobuf", top}
        ),
    ]
    used = set[str]()

    def root(module: str) -> str:
        return next(
            (each for each in imports if f"{module}.".startswith(f"{each}.")), ""
        )

    for (where, what), span in sorted(kept.items()):
        place, name_of = where, what
        if where == "/":
            name_of = what[len(root(what)) :]
        elif where[0] != ":":
            place = (
                "." if len(everywhere[what]) == 1 else where[len(root(where)) :] or "."
            )
        else:
            used.add(where[1:].partition(".")[0])
        table[place]["-".join(map(str, span))].add(name_of)
    rows = {
        at: {span: " ".join(sorted(v)) for span, v in spans.items()}
        for at, spans in table.items()
    }
    derived = {sub: base for sub, base in bases.items() if base in used}
    return {
        "imports": [*imports, *library.also],
        "releases": releases,
        "moved": rows,
        "bases": derived,
    }


def _asked(
    key: tuple[str, str], library: Library, public: set[str], *, gone: bool
) -> bool:
    """Whether other code asks for a name: a public one, or one within reach until it went."""
    where, what = key
    if where == "/":
        return library.reached > (not gone) or not _INNER.search(what)
    if where[0] == ":":
        owner, dot, method = where[1:].partition(".")
        wanted = method in _CALLED if dot else library.attributes or owner[0].islower()
        part = (
            re.search(r"(Plugin|Accelerator|Connector|Strategy|Loop|Mixin)$", owner)
            and not library.reached
        )
        return (
            library.members
            and wanted
            and not part
            and (owner in public or library.reached > (not gone))
        )
    return not _FOREIGN.match(what) and (
        what in public
        or (library.reached > (not gone) and not _INNER.search(where + "."))
    )


def _telling(
    key: tuple[str, str], span: tuple[int, int], life: Spans, bases: dict[str, str]
) -> bool:
    """Whether an entry says what no other one does: not that of its module, class or package."""
    where, what = key
    if where in (":", ":<") or (where != "/" and _NOISE.match(what)):
        return False
    if where == "/":
        parent = what.rpartition(".")[0]
        return not _PRIVATE.search(what) and life.get(("/", parent)) != span
    if where[0] != ":":
        parts = where.split(".")
        parents = (".".join(parts[:i]) for i in range(1, len(parts)))
        known = ("/", f"{where}.{what}") in life
        return (
            not known
            and life.get(("/", where)) != span
            and all(life.get((p, what)) != span for p in parents)
        )
    owner, dot, method = where[1:].partition(".")
    if what[0] == "_" or re.match("_[^_]", method or owner):
        return False
    base = bases.get(owner)
    inherited = base is not None and life.get((f":{base}{dot}{method}", what)) == span
    whole = (
        (":", owner),
        (f":{owner}", method),
        (f":{owner}.__init__", what) if not dot else ("", ""),
    )
    return not inherited and span not in map(life.get, whole)


def tell(table: dict[str, Any]) -> None:
    """Write into the table what record_names.toml tells."""
    for name, facts in tomllib.loads(TOLD.read_text(encoding="utf-8")).items():
        row = table.setdefault(name, {"moved": {}, "bases": {}})
        row.update({key: facts[key] for key in ("imports", "releases") if key in facts})
        minors = [".".join(each.split(".")[:2]) for each in row["releases"]]
        for kind in ("since", "gone"):
            for release, items in facts[kind].items():
                at = minors.index(release)
                span = f"{at}-{len(minors) - 1}" if kind == "since" else f"0-{at - 1}"
                for item in items:
                    place, _, names = item.rpartition(": ")
                    _put(row["moved"], place or ".", set(names.split()), span)


def _put(
    moved: dict[str, dict[str, str]], place: str, names: set[str], span: str
) -> None:
    spans = moved.setdefault(place, {})
    for each in {*spans, span}:
        left = set(spans.pop(each, "").split()) - names | (
            names if each == span else set()
        )
        spans |= {each: " ".join(sorted(left))} if left else {}


def main(arguments: list[str]) -> None:
    """Record the libraries that are named, or all, and keep the rest of the table."""
    folder, *names = arguments
    table = json.loads(gzip.decompress(TABLE.read_bytes())) if TABLE.exists() else {}
    for name in names or LIBRARIES:
        _READ.clear()
        table[name] = entry(name, *presence(name, Path(folder)))
        print(name, len(table[name]["releases"]), "releases", flush=True)
    tell(table)
    write(table)


def write(table: dict[str, Any]) -> None:
    """Write the table: equal bytes for an equal table."""
    text = json.dumps(
        dict(sorted(table.items())), separators=(",", ":"), ensure_ascii=False
    )
    TABLE.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1:])
