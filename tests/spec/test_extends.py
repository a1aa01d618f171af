"""``extends``: what a spec inherits, what it says itself, and which file a fault is in."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from provision.core import project
from provision.core.errors import SpecError, UsageError
from provision.core.project import Project, shipped
from provision.spec.model import Target
from provision.spec.reader import (
    load_target,
    load_targets,
    read_hardware,
    target_names,
)

BASE = """
summary = "base"
accelerator = "cpu"
platform = "linux-64"
python = "3.11"
[hardware]
driver = ">=1"
[conda]
channels = ["conda-forge"]
dependencies = ["python 3.11.*", "libuv"]
[pip]
cutoff = 2026-11-01
cutoffs = { idna = 2026-11-09 }
requirements = ["torch==2.13.0", "numpy", "pytest>=8", "Foo.Bar[x]>=1; python_version >= '3'"]
forbid = [{ name = "triton", reason = "one" }, { name = "ipex", reason = "two" }]
[pip.index]
vendor = ["torch", "torchvision"]
other = ["alpha"]
[smoke]
speedup_over_cpu = 2.0
[environment]
A = "1"
"""


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    folder = tmp_path / "envs"
    folder.mkdir()
    (folder / "base.toml").write_text(BASE, encoding="utf-8")
    return folder


def child(specs: Path, text: str, name: str = "child") -> Target:
    (specs / f"{name}.toml").write_text(textwrap.dedent(text), encoding="utf-8")
    return load_target(specs, name)


def test_attack_a_spec_that_is_a_link_to_outside_is_not_read(
    specs: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A clone has any file of the machine read, and quoted in a public log."""
    secret = tmp_path_factory.mktemp("outside") / "secret"
    secret.write_text("password = swordfish!", encoding="utf-8")
    (specs / "foo.toml").symlink_to(secret)
    (specs / "foos.toml").write_text('extends = "foo"', encoding="utf-8")
    for name in ("foo", "foos"):
        with pytest.raises(SpecError) as caught:
            load_target(specs, name)
        assert "foo.toml is outside the project" in caught.value.evidence
        assert "swordfish" not in f"{caught.value.what}{caught.value.evidence}"
    (specs / "loop.toml").symlink_to("loop.toml")
    with pytest.raises(SpecError, match=r"cannot read .*loop\.toml"):
        load_target(specs, "loop")
    (specs.parent / "shared.toml").write_text(BASE, encoding="utf-8")
    (specs / "inside.toml").symlink_to("../shared.toml")
    assert load_target(specs, "inside").name == "inside"


def test_a_spec_that_says_nothing_equals_what_it_extends(specs: Path) -> None:
    same = child(specs, 'extends = "base"')
    base = load_target(specs, "base")
    assert same.model_dump() == base.model_dump() | {"name": "child"}
    assert same.digest() == base.digest()


def test_requirements_add_and_replace_by_distribution(specs: Path) -> None:
    target = child(
        specs,
        """
        extends = "base"
        [pip]
        requirements = ["einops", "NumPy<2", "foo_bar==3"]
        forbid = [{ name = "Triton", reason = "mine" }, { name = "xformers", reason = "new" }]
        drop = ["pytest"]
        [conda]
        dependencies = ["python 3.12.*"]
        [environment]
        B = "2"
        """,
    )
    assert target.pip.requirements == (
        "einops",
        "NumPy<2",
        "foo_bar==3",
        "torch==2.13.0",
    )
    forbidden = {entry.name: entry.reason for entry in target.pip.forbid}
    assert forbidden == {"triton": "mine", "xformers": "new", "ipex": "two"}
    assert target.conda is not None
    assert target.conda.dependencies == ("python 3.12.*", "libuv")
    assert target.conda.channels == ("conda-forge",)
    assert target.environment == {"A": "1", "B": "2"}
    assert (target.summary, target.smoke.speedup_over_cpu) == ("base", 2.0)


def test_indexes_limits_and_days_add_to_those_of_a_base(specs: Path) -> None:
    (specs / "middle.toml").write_text(
        """
        extends = "base"
        [pip]
        cutoffs = { numpy = 2026-11-08 }
        constraints = ["protobuf<5"]
        [pip.variants]
        torchvision = "cu130"
        """
    )
    text = """
    extends = "middle"
    [pip]
    CUTOFF
    constraints = ["protobuf>3"]
    [pip.index]
    mine = ["Torch"]
    vendor = ["x"]
    default = ["alpha"]
    [pip.variants]
    torch = "cu128"
    """
    pip = child(specs, text.replace("CUTOFF", "")).pip
    assert pip.index == {"mine": ("torch",), "vendor": ("x", "torchvision")}
    assert pip.variants == {"torchvision": "cu130", "torch": "cu128"}
    assert pip.constraints == ("protobuf>3", "protobuf<5")
    days = {name: day.day for name, day in pip.cutoffs.items()}
    assert days == {"idna": 9, "numpy": 8}
    pip = child(specs, text.replace("CUTOFF", "cutoff = 2026-11-10")).pip
    assert (pip.cutoff.day, pip.cutoffs) == (10, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pip = 3", "pip: has to be a table"),
        ("[pip]\nrequirements = 'torch'", "pip.requirements: has to be a list"),
        ("[pip]\nindex = ['torch']", "pip.index: has to be a table"),
        ("name = 'other'", "name: unknown key"),
    ],
)
def test_what_cannot_be_added_to_a_base_is_a_fault(
    specs: Path, text: str, said: str
) -> None:
    with pytest.raises(SpecError) as caught:
        child(specs, f'extends = "base"\n{text}')
    assert said in f"{caught.value.what}\n{caught.value.evidence}"


def test_several_levels_and_a_folder_for_what_is_no_target(specs: Path) -> None:
    (specs / "shared").mkdir()
    (specs / "base.toml").rename(specs / "shared" / "base.toml")
    middle = 'extends = "shared/base"\n[hardware]\ndriver = ">=2"\n'
    (specs / "middle.toml").write_text(middle, encoding="utf-8")
    target = child(specs, 'extends = "middle"\n[pip]\nrequirements = ["numpy==1"]')
    assert (target.hardware.driver, target.pip.requirements[0]) == (">=2", "numpy==1")
    assert [hardware.name for hardware in read_hardware(specs)] == ["child", "middle"]
    assert [hardware.driver for hardware in read_hardware(specs)] == [">=2", ">=2"]


def test_several_bases_of_which_the_first_has_priority(specs: Path) -> None:
    (specs / "base").mkdir()
    project = """
    [hardware]
    driver = ">=7"
    [pip]
    requirements = ["numpy<2", "einops"]
    drop = ["pytest", "not-of-every-target"]
    exclude = ["Flash.Attn"]
    """
    (specs / "base" / "project.toml").write_text(textwrap.dedent(project))
    target = child(
        specs,
        """
        extends = ["base/project", "base"]
        [pip]
        requirements = ["einops==1"]
        exclude = ["flash_attn", "xformers"]
        """,
    )
    pinned = "Foo.Bar[x]>=1; python_version >= '3'"
    assert target.pip.requirements == ("einops==1", "numpy<2", "torch==2.13.0", pinned)
    assert target.pip.exclude == ("flash-attn", "xformers")
    assert target.hardware.driver == ">=7"
    names = ("envs/child.toml", "envs/base/project.toml", "envs/base.toml")
    assert target.inputs.specs == names


def test_what_several_bases_extend_is_below_all_of_them(specs: Path) -> None:
    for name, text in {
        "left": 'extends = "base"\n',
        "right": 'extends = "base"\nsummary = "right"\n',
    }.items():
        (specs / f"{name}.toml").write_text(text, encoding="utf-8")
    assert child(specs, 'extends = ["left", "right"]').summary == "right"
    assert child(specs, 'extends = ["base", "right"]').summary == "right"


@pytest.mark.parametrize(
    ("extends", "drop", "absent"),
    [
        ('extends = "base"', '["einops"]', "einops"),
        ('extends = ["base"]', '["pytest", "einops", "absent"]', "absent, einops"),
        ("", '["einops"]', "einops"),
    ],
)
def test_drop_is_of_inherited_requirements_only(
    specs: Path, extends: str, drop: str, absent: str
) -> None:
    (specs.parent / "needs.txt").write_text("einops\n", encoding="utf-8")
    text = f'{extends}\n[pip]\nfiles = ["needs.txt"]\ndrop = {drop}\n'
    with pytest.raises(SpecError, match="not a list of inherited") as caught:
        child(specs, text)
    assert caught.value.evidence == f"not inherited: {absent}"
    assert "`exclude` leaves out" in caught.value.remedy


def test_any_project_can_extend_a_shipped_target_even_of_the_same_name(
    specs: Path,
) -> None:
    for name in ("cpu-linux", "arc-windows"):
        with pytest.raises(UsageError) as caught:
            load_target(specs, name)
        assert f"init --target {name}` adds it" in (caught.value.remedy or "")
        own = child(specs, f'extends = "{name}"', name)
        assert own.inputs.specs == (f"envs/{name}.toml", f"the shipped {name}")
        assert own.digest() == load_target(shipped().specs, name).digest()


@pytest.mark.parametrize("name", ["nothing", "../envs/base", "", "/base", 3])
def test_an_unknown_name_lists_the_known_ones(specs: Path, name: object) -> None:
    with pytest.raises(SpecError, match=r"extends .* which is no spec") as caught:
        child(specs, f"extends = {json.dumps(name)}")
    assert "base, " in caught.value.cause
    assert "cpu-linux" in caught.value.cause


def test_cycles_are_named(specs: Path) -> None:
    (specs / "base.toml").write_text('extends = "child"', encoding="utf-8")
    with pytest.raises(SpecError, match="extends itself") as caught:
        child(specs, 'extends = "base"')
    assert caught.value.evidence.count(" → ") == 2
    (specs / "base.toml").write_text('extends = ["cpu-linux", "child"]')
    with pytest.raises(SpecError, match="extends itself"):
        child(specs, 'extends = "base"')
    with pytest.raises(
        SpecError, match="no spec"
    ):  # and there is no shipped one of this name
        child(specs, 'extends = "alone"', "alone")


def test_a_fault_names_the_file_that_it_is_in(specs: Path) -> None:
    text = BASE.replace('driver = ">=1"', 'driver = "new"').replace(
        '"numpy"', '"num py ="'
    )
    (specs / "base.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match=r"child\.toml has 4 errors") as caught:
        child(
            specs,
            'extends = "base"\nsumary = "x"\n[pip]\nrequirements = ["b@d =", "ok"]',
        )
    lines = caught.value.evidence.splitlines()
    base = specs / "base.toml"
    begins = {
        "hardware.driver": f'  {base}, line 7, column 1: driver = "new"',
        "pip.requirements[3]": f"  {base}, line 14, column 1: requirements = [",
        "sumary": '  line 2, column 1: sumary = "x"',
        "pip.requirements[0]": '  line 4, column 1: requirements = ["b@d =", "ok"]',
    }
    faults = {}
    for fault, place in zip(lines[::2], lines[1::2], strict=True):
        faults[fault.partition(":")[0]] = place
    assert faults.keys() == begins.keys()
    assert all(faults[keys].startswith(place) for keys, place in begins.items())


def test_what_contradicts_the_platform_or_status_is_said_of_the_file_that_has_it(
    specs: Path,
) -> None:
    old = 'status = "legacy"\nreason = "old"\n'
    (specs / "base.toml").write_text(
        f'{old}{BASE}[docker]\napt = ["git"]', encoding="utf-8"
    )
    with pytest.raises(SpecError, match="2 errors") as caught:
        child(specs, 'extends = "base"\nplatform = "win-64"\nstatus = "supported"')
    reason, at, docker, docker_at = caught.value.evidence.splitlines()
    assert reason.startswith("reason: ")
    assert docker == "docker: [docker] is for targets of Linux, not win-64"
    base = specs / "base.toml"
    assert at == f'  {base}, line 2, column 1: reason = "old"'
    assert docker_at.startswith(f"  {base}, line ")
    assert docker_at.endswith(", column 2: [docker]")


def test_the_own_file_of_a_catalog_wins(tmp_path: Path) -> None:
    catalog = Project(tmp_path).catalog
    common = shipped().catalog / "pytorch-cpu.json"
    assert project.fact(catalog, "pytorch-cpu.json") == common
    catalog.mkdir(parents=True)
    (catalog / "pytorch-cpu.json").touch()
    assert project.fact(catalog, "pytorch-cpu.json") == catalog / "pytorch-cpu.json"


def test_specs_that_share_files_are_read_together_as_each_alone() -> None:
    specs = Path(__file__).parents[2] / "envs"
    names = target_names(specs)
    targets, broken = load_targets(specs, names)
    assert targets == [load_target(specs, name) for name in names]
    assert not broken
