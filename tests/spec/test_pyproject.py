"""pyproject.toml and environment.yml as files of a spec, and where their packages come from."""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from provision.core.errors import SpecError
from provision.spec import uv_sources
from provision.spec.local import input_digests
from provision.spec.pyproject import read_pyproject
from provision.spec.reader import load_spec

if TYPE_CHECKING:
    from pathlib import Path

    from provision.spec.model import Target
    from provision.spec.pyproject import Pyproject

SPEC = """
summary = "a target"
accelerator = "cpu"
platform = "win-64"
python = "3.11"
[pip]
cutoff = 2026-11-01
{pip}
[pip.index]
pytorch-cpu = ["torch"]
"""
TRAINER = """
[project]
name = "Trainer"
dependencies = [
    "numpy>=2",
    "tomli; python_version < \\"3.11\\"",
]
[project.optional-dependencies]
Audio_In = ["soundfile"]
all = ["trainer[audio-in,gpu]; sys_platform == 'win32'", "tqdm"]
gpu = ["trainer[all]", "cupy"]
[dependency-groups]
Dev = ["ruff", { include-group = "test" }]
test = ["pytest", "trainer[audio-in]"]
loop = [{ include-group = "pool" }]
pool = [{ include-group = "loop" }]
"""


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(textwrap.dedent(text), encoding="utf-8")


def load(root: Path, pip: str) -> Target:
    write(root, "envs/thing.toml", SPEC.format(pip=pip))
    return load_spec(root / "envs" / "thing.toml")


def fault(root: Path, pip: str) -> str:
    with pytest.raises(SpecError) as caught:
        load(root, pip)
    return caught.value.evidence


@pytest.mark.parametrize(
    ("entry", "texts"),
    [
        ("", []),
        ("[audio.in]", ["soundfile"]),
        (
            "[all]",
            ['soundfile; sys_platform == "win32"', 'cupy; sys_platform == "win32"'],
        ),
    ],
)
def test_the_dependencies_and_the_extras_that_are_named(
    tmp_path: Path, entry: str, texts: list[str]
) -> None:
    write(tmp_path, "sub/pyproject.toml", TRAINER)
    target = load(tmp_path, f'files = ["sub/pyproject.toml{entry}"]')
    marked = 'tomli; python_version < "3.11"'
    wanted = {"numpy>=2", marked, *texts} | ({"tqdm"} if "all" in entry else set())
    assert set(target.pip.requirements) == wanted
    places = target.inputs.places
    assert places["numpy>=2"] == "sub/pyproject.toml, line 5"
    assert places[marked] == "sub/pyproject.toml, line 6"


def test_a_group_with_what_it_includes_and_the_package_itself(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", TRAINER)
    target = load(tmp_path, 'files = ["pyproject.toml:DEV"]')
    marked = 'tomli; python_version < "3.11"'
    assert target.pip.requirements == (
        "ruff",
        "pytest",
        "numpy>=2",
        marked,
        "soundfile",
    )
    assert target.inputs.places["pytest"] == "pyproject.toml, line 14"
    assert target.inputs.places["soundfile"] == "pyproject.toml, line 9"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("pyproject.toml[vision]", "no extra 'vision'; it has Audio_In, all, gpu"),
        ("pyproject.toml:docs", "no dependency group 'docs'; it has Dev, test, loop"),
        ("pyproject.toml:loop", "include themselves: loop → pool → loop"),
        ("sub/pyproject.toml", "No such file"),
        ("../pyproject.toml", "is outside the project"),
        ("setup.py", "no requirements file, pyproject.toml or environment.yml"),
        ("setup.cfg", "no requirements file, pyproject.toml or environment.yml"),
        ("uv.lock", "no requirements file, pyproject.toml or environment.yml"),
        ("Cargo.toml", "no requirements file, pyproject.toml or environment.yml"),
        ("broken/pyproject.toml", "broken/pyproject.toml: "),
        ("poetry/pyproject.toml", "`poetry export` writes"),
        (
            "dynamic/pyproject.toml",
            "line 3: its dependencies are dynamic, so only a build tells them; write `local = ",
        ),
        ("odd/pyproject.toml", "dependencies is not a list of requirements"),
        ("bad/pyproject.toml", "line 3: '!!' is not a requirement"),
        ("groups/pyproject.toml:text", "the dependency group text is not a list"),
        ("groups/pyproject.toml:table", "is not a requirement"),
    ],
)
def test_what_it_does_not_say_is_a_fault_with_its_place(
    tmp_path: Path, entry: str, said: str
) -> None:
    write(tmp_path, "pyproject.toml", TRAINER)
    write(tmp_path, "broken/pyproject.toml", "[project")
    write(tmp_path, "poetry/pyproject.toml", "[tool.poetry]\n")
    dynamic = '[project]\nname = "a"\ndynamic = ["version", "dependencies"]\n'
    write(tmp_path, "dynamic/pyproject.toml", dynamic)
    write(tmp_path, "odd/pyproject.toml", '[project]\ndependencies = "numpy"\n')
    bad = '[project]\nname = "a"\ndependencies = ["!!"]\n'
    write(tmp_path, "bad/pyproject.toml", bad)
    groups = "[dependency-groups]\ntext = 'x'\ntable = [{ include = 'text' }]\n"
    write(tmp_path, "groups/pyproject.toml", groups)
    assert said in fault(tmp_path, f'files = ["{entry}"]')


@pytest.mark.parametrize("name", ["environment.yml", "environment.yaml"])
def test_environment_yml_gives_its_pip_part(tmp_path: Path, name: str) -> None:
    write(
        tmp_path,
        name,
        """
        channels:
        - conda-forge
        dependencies:
        - python=3.11
        - numpy=1.26
        - pip
        - pip:
          - einops>=0.7
          - -r more.txt
          - -e ./own
          - --extra-index-url https://example.org/simple
        """,
    )
    write(tmp_path, "more.txt", "tqdm\n")
    target = load(tmp_path, f'files = ["{name}"]')
    assert target.pip.requirements == ("einops>=0.7", "tqdm")
    assert target.pip.local == ("-e ./own",)
    assert target.inputs.places["einops>=0.7"] == f"{name}, line 9"
    notes = "\n".join(target.inputs.notes)
    assert notes.endswith("beyond what the spec has: python=3.11, numpy=1.26")
    assert "line 12: --extra-index-url" in notes


def test_paths_of_an_environment_yml_are_relative_to_it_as_for_conda(
    tmp_path: Path,
) -> None:
    """It runs pip in the file's folder: conda/env/installers/pip.py of conda 24 and 25."""
    lines = ["-e ./own[dev]", "own", "-r ../more.txt", "-e ../lib", "-e ./absent"]
    entries = "".join(f"      - {line}\n" for line in lines)
    write(tmp_path, "conda/environment.yml", f"dependencies:\n  - pip:\n{entries}")
    write(tmp_path, "more.txt", "-e ./own\n")
    for folder in ("own", "absent", "conda/own", "lib"):  # two are not meant
        write(
            tmp_path,
            f"{folder}/pyproject.toml",
            "[project]\nname = 'x'\n[project.optional-dependencies]\ndev = []\n",
        )
    pip = load(tmp_path, 'files = ["conda/environment.yml"]').pip
    own = "conda/own"
    assert pip.local == (f"-e {own}[dev]", f"-e {own}", "-e lib", "-e conda/absent")
    assert pip.requirements == ("own",)  # as for pip, which takes it for a name
    write(tmp_path, "after.txt", "-e ./own\n")
    after = load(tmp_path, 'files = ["conda/environment.yml", "after.txt"]')
    assert after.pip.local == (*pip.local, "-e ./own")
    assert not after.inputs.notes


SOURCES = """
[project]
name = "app"
dependencies = ["Ours[fast]>=1", "beside", "far; sys_platform == 'win32'", "torch", "core", "either",
    "absent; sys_platform == 'linux'"]
[tool.uv.sources]
ours = { git = "https://example.org/ours.git", tag = "v1", subdirectory = "python" }
beside = { path = "libs/beside", editable = true }
far = { url = "https://example.org/far-1.0-py3-none-any.whl" }
torch = { index = "mine" }
core = { workspace = true }
either = [
    { git = "https://example.org/either", marker = "sys_platform == 'linux'" },
    { url = "https://example.org/either.zip", marker = "sys_platform == 'win32'" },
]
absent = { path = "absent" }
nobody = { workspace = true }
[tool.uv.workspace]
members = ["packages/*"]
exclude = ["packages/old"]
"""
CORE = """
[project]
name = "core"
dependencies = ["sdk", "other"]
[build-system]
requires = []
[tool.uv.sources]
Other = { workspace = true }
"""
SDK = '[project]\nname = "%s"\n[build-system]\nrequires = []\n'


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    write(tmp_path, "pyproject.toml", SOURCES)
    write(tmp_path, "libs/beside/pyproject.toml", SDK % "beside")
    write(tmp_path, "packages/core/pyproject.toml", CORE)
    write(tmp_path, "packages/old/pyproject.toml", SDK % "core")
    write(tmp_path, "packages/notes/README.md", "")
    # Of the root's sources, which hold for its members, too; and no package, without a build.
    sdk = 'sdk = { path = "packages/sdk" }\n[tool.uv.workspace]'
    write(tmp_path, "pyproject.toml", SOURCES.replace("[tool.uv.workspace]", sdk))
    write(tmp_path, "packages/sdk/pyproject.toml", SDK % "sdk")
    other = '[project]\nname = "other"\ndependencies = ["einops"]\n'
    other += "[tool.uv]\npackage = false\n"
    write(tmp_path, "packages/other/pyproject.toml", other)
    return tmp_path


WANTED = (
    "Ours[fast] @ git+https://example.org/ours.git@v1#subdirectory=python",
    "far @ https://example.org/far-1.0-py3-none-any.whl ; sys_platform == 'win32'",
    "torch",
    "either @ https://example.org/either.zip ; sys_platform == 'win32'",
    "absent; sys_platform == 'linux'",
)


def test_sources_say_where_packages_come_from_also_those_of_members(
    workspace: Path,
) -> None:
    pip = load(workspace, 'files = ["pyproject.toml"]').pip
    plain = [text.replace('"', "'").replace(" ;", ";") for text in pip.requirements]
    wanted = [text.replace(" ;", ";") for text in WANTED]
    # What is no package itself stands for what it requires.
    assert plain == [*wanted, "einops"]
    assert pip.local == ("-e libs/beside", "-e packages/core", "packages/sdk")


def test_sources_of_own_packages_are_followed_as_no_resolver_does(
    workspace: Path,
) -> None:
    pip = load(workspace, 'local = ["-e ."]').pip
    names = {text.partition(" ")[0].partition("@")[0] for text in pip.requirements}
    assert names == {"Ours[fast]", "far", "either", "einops"}  # torch has its index
    assert pip.local == ("-e .", "-e libs/beside", "-e packages/core", "packages/sdk")


def test_a_source_without_a_build_system_is_a_package_as_for_uv(tmp_path: Path) -> None:
    text = "[project]\nname = 'app'\ndependencies = ['x']\n[tool.uv.sources]\n"
    write(tmp_path, "pyproject.toml", text + "x = { path = 'x' }\n")
    write(tmp_path, "x/pyproject.toml", "[project]\nname = 'x'\nversion = '1'\n")
    target = load(tmp_path, 'files = ["pyproject.toml"]')
    pip = target.pip
    assert (pip.requirements, pip.local) == ((), ("x",))
    write(tmp_path, "pyproject.toml", text + "x = { path = 'x', editable = false }\n")
    again = load(tmp_path, 'files = ["pyproject.toml"]')
    assert again.pip == pip
    assert again.inputs.digests != target.inputs.digests
    (tmp_path / "x" / "pyproject.toml").rename(tmp_path / "x" / "setup.py")
    assert load(tmp_path, 'files = ["pyproject.toml"]').pip == pip


@pytest.mark.parametrize(
    ("said", "requirements", "local"),
    [
        ("{ path = 'x' }", (), ("x",)),
        ("{ git = 'https://h/x', rev = 'v1' }", ("x @ git+https://h/x@v1",), ()),
        ("{ git = 'https://h/x', branch = 'b' }", ("x @ git+https://h/x@b",), ()),
        ("{ git = 'https://h/x', optional = true }", ("x @ git+https://h/x",), ()),
        ("'^1'", ("x",), ()),
        ("{ version = '^1', python = '^3.11' }", ("x",), ()),
    ],
)
def test_what_poetry_takes_from_elsewhere_is_not_looked_up_by_name(
    tmp_path: Path, said: str, requirements: tuple[str, ...], local: tuple[str, ...]
) -> None:
    text = "[project]\nname = 'app'\ndependencies = ['x']\n[tool.poetry.dependencies]\n"
    write(tmp_path, "pyproject.toml", f"{text}X = {said}\n")
    write(tmp_path, "x/pyproject.toml", "[project]\nname = 'x'\nversion = '1'\n")
    pip = load(tmp_path, 'files = ["pyproject.toml"]').pip
    assert (pip.requirements, pip.local) == (requirements, local)
    write(tmp_path, "pyproject.toml", f"{text}x = {{ source = 'corp' }}\n")
    assert "no index is assigned to x" in fault(tmp_path, 'files = ["pyproject.toml"]')


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = { workspace = true }", "no member of a workspace has its name"),
        ("x = { path = 'absent' }", "absent is no folder"),
        ("x = { registry = 'y' }", "of no kind that is known"),
        ("x = { git = 'https://example.org/x', lfs = true }", "of no kind"),
        ("x = 'y'", "of no kind that is known"),
        ("x = { index = 'corp' }", '[pip.index] CATALOG = ["x"]'),
        ("x = { git = 'git@example.org:x.git' }", "has to begin with git+https"),
        ("x = { url = 'https://u:p@example.org/x.zip' }", "has a login"),
        ("x = { git = 'https://example.org/x', marker = 'odd' }", "Expected"),
        ("", None),
    ],
)
def test_what_cannot_be_followed_is_a_fault_and_no_look_up_by_name(
    tmp_path: Path, source: str, said: str | None
) -> None:
    text = (
        f"[project]\nname = 'app'\ndependencies = ['x']\n[tool.uv.sources]\n{source}\n"
    )
    write(tmp_path, "pyproject.toml", text)
    if said is None:
        assert load(tmp_path, 'files = ["pyproject.toml"]').pip.requirements == ("x",)
        return
    for pip in ('files = ["pyproject.toml"]', 'local = ["-e ."]'):
        found = fault(tmp_path, pip)
        assert said in found
        assert f"{tmp_path}/pyproject.toml, line 3: x" in found or "Expected" in found


@pytest.mark.parametrize("kind", ["extra", "group"])
def test_a_source_can_be_for_one_extra_or_group(tmp_path: Path, kind: str) -> None:
    write(
        tmp_path,
        "pyproject.toml",
        f"""
        [project]
        dependencies = ["x"]
        [project.optional-dependencies]
        fast-one = ["x<2"]
        [dependency-groups]
        fast-one = ["x<2"]
        [tool.uv.sources]
        x = [{{ url = "https://example.org/x.zip", {kind} = "Fast_One" }}]
        """,
    )
    entries = {"extra": "pyproject.toml[fast-one]", "group": "pyproject.toml:fast-one"}
    texts = {}
    for part, entry in entries.items():
        texts[part] = load(tmp_path, f'files = ["{entry}"]').pip.requirements[-1]
    assert texts.pop(kind) == "x @ https://example.org/x.zip"
    assert [*texts.values()] == ["x<2"]


def test_packages_that_are_none_stand_for_what_they_require_once(
    tmp_path: Path,
) -> None:
    text = """
        [project]
        name = "NAME"
        dependencies = ["OTHER"]
        optional-dependencies.more = ["tqdm"]
        [tool.uv]
        package = false
        sources = { a = { path = "a" }, b = { path = "b" } }
    """
    for name, other in (("a", "b[more]"), ("b", "a")):
        document = text.replace("NAME", name).replace("OTHER", other)
        document = document.replace('path = "', 'path = "../')
        write(tmp_path, f"{name}/pyproject.toml", document)
    pip = load(tmp_path, 'files = ["a/pyproject.toml"]').pip
    assert (pip.requirements, pip.local) == (("tqdm",), ())


@pytest.mark.parametrize("text", ["libs/beside", "-e ./libs/beside"])
def test_an_own_package_of_the_spec_is_not_added_again(
    tmp_path: Path, text: str
) -> None:
    document = "[project]\nname = 'app'\ndependencies = ['beside[EXTRA]']\n"
    document += "[tool.uv.sources]\nbeside = { path = 'libs/beside' }\n"
    write(tmp_path, "libs/beside/setup.py", "")
    words = f'local = ["{text}"]\nfiles = ["pyproject.toml"]'
    write(tmp_path, "pyproject.toml", document.replace("[EXTRA]", ""))
    assert load(tmp_path, words).pip.local == (text,)
    write(tmp_path, "pyproject.toml", document.replace("EXTRA", "fast"))
    assert load(tmp_path, words).pip.local == (text, "libs/beside[fast]")


def test_a_workspace_is_of_its_members_and_inside_the_project(workspace: Path) -> None:
    own = "[project]\nname = 'core'\ndependencies = ['sdk', 'app']\n"
    write(workspace, "packages/old/pyproject.toml", own)
    old = load(workspace, 'files = ["packages/old/pyproject.toml"]').pip
    assert (old.requirements, old.local) == (("sdk", "app"), ())
    app = "[tool.uv.sources]\napp = { workspace = true }\n"
    write(workspace, "packages/core/pyproject.toml", own + app)
    core = load(workspace, 'files = ["packages/core/pyproject.toml"]').pip
    assert core.local[:2] == ("packages/sdk", "-e .")
    inner = workspace / "packages" / "sdk"
    write(inner, "pyproject.toml", own)
    alone = load(inner, 'files = ["pyproject.toml"]').pip
    assert (alone.requirements, alone.local) == (("sdk", "app"), ())
    assert load(inner, 'local = ["-e ../old"]').pip.local == ("-e ../old",)


@pytest.mark.parametrize(
    "line",
    [
        'exclude = ["x"]',
        'overrides = [{ requirement = "x==1", reason = "a release of it" }]',
        'requirements = ["x @ https://example.org/x.zip"]',
        'local = ["old", "own"]',
    ],
)
def test_the_spec_can_say_itself_where_a_package_comes_from(
    tmp_path: Path, line: str
) -> None:
    text = (
        "[project]\ndependencies = ['X']\n[tool.uv.sources]\nx = { workspace = true }\n"
    )
    write(tmp_path, "pyproject.toml", text)
    write(tmp_path, "own/pyproject.toml", SDK % "x")
    write(tmp_path, "old/setup.py", "")
    names = load(tmp_path, f'{line}\nfiles = ["pyproject.toml"]').pip.requirements
    assert ("X" in names) == ("exclude" not in line)
    version = 'requirements = ["x==1"]\nfiles = ["pyproject.toml"]'
    assert "no member of a workspace has its name" in fault(tmp_path, version)


def test_a_member_without_a_source_is_a_fault_as_for_uv(workspace: Path) -> None:
    text = (workspace / "pyproject.toml").read_text(encoding="utf-8")
    text = text.replace("core = { workspace = true }\n", "")
    write(workspace, "pyproject.toml", text)
    found = fault(workspace, 'files = ["pyproject.toml"]')
    assert "core is a member of the workspace and has no source" in found


def test_extras_that_only_a_build_tells_are_left_to_it(workspace: Path) -> None:
    """As pip and uv take `-e .[extra]`: the line that the fault of `files` says works."""
    text = (workspace / "pyproject.toml").read_text(encoding="utf-8")
    dynamic = '[project]\ndynamic = ["optional-dependencies"]\n'
    text = text.replace("[project]\n", dynamic)
    write(workspace, "pyproject.toml", text)
    load(workspace, 'local = ["-e ."]')  # no extra, so nobody is asked for
    any_of_them = 'nobody = { url = "https://example.org/nobody.zip" }'
    text = text.replace("nobody = { workspace = true }", any_of_them)
    write(workspace, "absent/setup.py", "")
    write(workspace, "pyproject.toml", text)
    said = fault(workspace, 'files = ["pyproject.toml[fast]"]')
    line = said.partition("write `")[2].partition("`")[0]
    assert line == 'local = ["-e .[fast]"]'
    pip = load(workspace, line).pip
    assert pip.local[0] == "-e .[fast]"
    # Of the sources, any can be of the extra, or of dynamic dependencies.
    nobody = "nobody @ https://example.org/nobody.zip"
    assert nobody in pip.requirements
    all_dynamic = text.replace('["optional-dependencies"]', '["dependencies"]')
    write(workspace, "pyproject.toml", all_dynamic)
    assert nobody in load(workspace, 'local = ["-e ."]').pip.requirements
    write(workspace, "pyproject.toml", text.replace("dynamic", "unknown"))
    assert "it has no extra 'fast'" in fault(workspace, line)


def test_each_file_of_a_workspace_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each member the workspace is looked for, which asks for all members."""
    names = [f"m{number}" for number in range(20)]
    sources = "".join(f"{name} = {{ workspace = true }}\n" for name in names)
    text = f"[project]\nname = 'app'\ndependencies = {names}\n[tool.uv.sources]\n"
    text += f"{sources}[tool.uv.workspace]\nmembers = ['packages/*']\n"
    write(tmp_path, "pyproject.toml", text)
    for name in names:
        own = SDK % name + "[tool.uv.sources]\nm1 = { workspace = true }\n"
        write(tmp_path, f"packages/{name}/pyproject.toml", own)
    read: Counter[Path] = Counter()

    def counted(path: Path, root: Path) -> Pyproject:
        read[path] += 1
        return read_pyproject(path, root)

    monkeypatch.setattr(uv_sources, "read_pyproject", counted)
    assert len(load(tmp_path, 'files = ["pyproject.toml"]').pip.local) == len(names)
    assert len(read) == len(names) + 1
    assert set(read.values()) == {1}


def test_of_the_settings_of_uv_constraints_hold_and_others_are_named(
    workspace: Path,
) -> None:
    settings = """
    [tool.uv]
    constraint-dependencies = ["protobuf<5"]
    override-dependencies = ["numpy==2", "pillow==11"]
    exclude-dependencies = ["xformers"]
    [[tool.uv.index]]
    name = "mine"
    url = "https://example.org/other"
    [[tool.uv.index]]
    url = "https://example.org/simple"
    [[tool.uv.index]]
    name = "of-sources"
    explicit = true
    """
    text = (workspace / "pyproject.toml").read_text(encoding="utf-8")
    write(workspace, "pyproject.toml", text + textwrap.dedent(settings))
    override = '{ requirement = "numpy==2", reason = "so" }'
    words = f'overrides = [{override}]\nexclude = ["xformers"]'
    core = "packages/core"
    write(workspace, f"{core}/pyproject.toml", SDK % "core")
    own = load(workspace, f'local = ["{core}"]')
    assert own.pip.constraints == ("protobuf<5",)
    target = load(workspace, f'{words}\nfiles = ["{core}/pyproject.toml"]')
    assert target.pip.constraints == ("protobuf<5",)
    number = text.count("\n") + 3
    place = f"pyproject.toml, line {number}"
    assert target.inputs.places["protobuf<5"] == place
    said = [note.partition(": ")[2] for note in target.inputs.notes]
    simple = "https://example.org/simple"
    assert said == [
        "override-dependencies pillow==11: not used; `overrides` of a spec does that",
        f"[[tool.uv.index]] mine, {simple}: ignored, as [pip.index] of the spec decides that",
    ]


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("vendor/x-1.0.tar.gz", "x @ file:vendor/x-1.0.tar.gz", ""),
        ("vendor/absent-1.0.tar.gz", "", "absent-1.0.tar.gz is no file"),
        ("../x-1.0.tar.gz", "", "the file is not in the project's folder"),
    ],
)
def test_a_source_can_be_an_archive_of_the_project(
    tmp_path: Path, path: str, text: str, said: str
) -> None:
    root = tmp_path / "root"
    for folder in ("root/vendor", "."):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "x-1.0.tar.gz").touch()
    document = "[project]\ndependencies = ['x>=1']\n[tool.uv.sources]\n"
    write(root, "pyproject.toml", f"{document}x = {{ path = '{path}' }}\n")
    if said:
        assert said in fault(root, 'files = ["pyproject.toml"]')
    else:
        assert load(root, 'files = ["pyproject.toml"]').pip.requirements == (text,)


@pytest.mark.parametrize(
    ("takes", "said"),
    [
        (">=3.11.4,<3.12", False),
        ("<3.11.4", False),
        (">=3.12", True),
        ("<3.11", True),
        ("^3.9", False),
    ],
)
def test_a_python_that_the_project_does_not_take_is_noted(
    tmp_path: Path, takes: str, said: bool
) -> None:
    text = f"[project]\nname = 'a'\nrequires-python = '{takes}'\n"
    write(tmp_path, "pyproject.toml", text)
    notes = load(tmp_path, 'files = ["pyproject.toml"]').inputs.notes
    assert bool(notes) == said
    assert all("line 3: requires-python" in note for note in notes)
    assert not load(tmp_path, 'local = ["-e ."]').inputs.notes  # uv says it then


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("environment.yml", f"dependencies: {'[' * 5000}"),
        ("environment.yml", "dependencies: &a\n- pip: *a\n- *a\n- {"),
        ("environment.yml", "dependencies:\n- pip:\n  - {a: b}\n"),
        ("pyproject.toml", f"a = {'[' * 5000}"),
        ("pyproject.toml", "[tool.uv]\nworkspace = 3\n[project]\nname = 'a'\n"),
        ("pyproject.toml", "[project]\nname = 'a'\ndynamic = 3\n"),
    ],
)
def test_attack_a_damaged_file_is_a_fault_that_names_it(
    tmp_path: Path, name: str, text: str
) -> None:
    """Somebody's file is nested deeper than a parser can follow, or has values of other types."""
    write(tmp_path, name, text)
    assert f"{tmp_path}/{name}" in fault(tmp_path, f'files = ["{name}"]')


def test_attack_groups_include_each_other_twice(tmp_path: Path) -> None:
    """A clone's groups stand for more than a million others: they are read at once."""
    lines = ["[dependency-groups]", "g20 = ['torch']"]
    for number in range(20):
        entry = f"{{ include-group = 'g{number + 1}' }}"
        lines.append(f"g{number} = [{entry}, {entry}]")
    write(tmp_path, "pyproject.toml", "\n".join(lines))
    begin = time.process_time()
    pip = load(tmp_path, 'files = ["pyproject.toml:g0"]').pip
    assert time.process_time() - begin < 1
    assert pip.requirements == ("torch",)


def test_lines_are_counted_as_toml_and_editors_count_them(tmp_path: Path) -> None:
    text = "[project]\n# a\u2028b\x85c\ndependencies = ['bad name!']\n"
    write(tmp_path, "pyproject.toml", text)
    assert "pyproject.toml, line 3: " in fault(tmp_path, 'files = ["pyproject.toml"]')


def test_the_line_of_a_key_is_not_that_of_a_comment_below_it(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(
        '[project]\nrequires-python = ">=3.11"\nversion = "1"\n# a comment\n'
    )
    manifest = read_pyproject(file, tmp_path)
    assert manifest.line("project", "requires-python") == 2
    assert manifest.line("project", "requires-python", ">=3.11") == 2


def test_the_line_of_a_key_is_that_of_its_table(tmp_path: Path) -> None:
    text = (
        "[tool.x]\nname = 'no'\n[ project ]\nname = 'a'\ndependencies = [\n  'x',\n]\n"
    )
    write(tmp_path, "pyproject.toml", text)
    manifest = read_pyproject(tmp_path / "pyproject.toml", tmp_path)
    assert manifest.line("project", "name") == 4
    assert manifest.line("project", "dependencies", "x") == 6


def test_attack_a_setup_file_has_a_long_word(tmp_path: Path) -> None:
    """A clone's setup.py repeats the word that is looked for: `lock` reads it all the same."""
    write(tmp_path, "setup.py", f'"{"require" * 20_000}", "requirements.txt"')
    write(tmp_path, "requirements.txt", "einops\n")
    target = load(tmp_path, 'local = ["."]')
    begin = time.process_time()
    digests = input_digests(target, tmp_path)
    assert time.process_time() - begin < 1
    assert {"setup.py", "requirements.txt"} <= digests.keys()
