"""Wheel variants (PEP 825): which one is locked, and what is then installed and verified."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from provision.artifacts.pip_config import PipConfig
from provision.catalog.simple_index import is_wanted
from provision.catalog.snapshot import Index, Wheel, load_snapshot
from provision.catalog.variants import SCHEMA
from provision.commands import lock
from provision.commands.export import export
from provision.commands.variants import doubts
from provision.core.errors import SpecError, ToolError, UsageError
from provision.core.hashing import sha256_file
from provision.core.process import run
from provision.core.project import CURRENT, Project, shipped
from provision.environment.contents import read_contents
from provision.environment.verify import verify
from provision.lockfile.formats import lost
from provision.lockfile.pip import PIP_LAYER, Artifact, Lock, parse_lock, read_lock
from provision.resolver import local_index
from provision.resolver.resolver import Resolver
from provision.spec.reader import load_spec, load_target
from provision.spec.tables import faults_of
from tests.commands.test_lock import wheel
from tests.lab import Lab, Silent, open_lab
from tests.small import make_wheel, write_vendor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

VENDOR = (
    wheel("torch-2.0-py3-none-any.whl", "filelock"),
    wheel("torch-2.0-py3-none-any-null.whl", "filelock"),
    wheel("torch-2.0-py3-none-any-cu13.whl", "filelock", "nvidia-runtime"),
    wheel("torch-3.0-py3-none-any-cu12.whl", "filelock"),
    wheel("kernels-1.0-py3-none-any-null.whl"),
    wheel("kernels-1.0-py3-none-any-bmg.whl"),
    wheel("only-1.0-py3-none-any-bmg.whl"),
    wheel("plain-1.0-py3-none-any-cu12.whl"),
    wheel("plain-2.0-py3-none-any.whl"),
)
DEFAULT = (
    wheel("filelock-3.0-py3-none-any.whl"),
    wheel("nvidia_runtime-13.0-py3-none-any.whl"),
)
SPEC = """
summary = "a target"
accelerator = "cpu"
platform = "linux-64"
python = "3.11"
[pip]
cutoff = 2026-11-01
requirements = {requirements}
[pip.index]
vendor = {assigned}
[pip.variants]
{variants}
"""

OF_BMG = {
    "$schema": SCHEMA,
    "default-priorities": {"namespace": ["intel", "x86_64"]},
    "variants": {
        "bmg": {"intel": {"family": ["bmg", "lnl"]}, "x86_64": {"level": ["v1"]}}
    },
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    write_vendor(made.catalog, VENDOR)
    return made


def locked(
    project: Project, requirements: list[str], variants: str = "", engine: str = "uv"
) -> dict[str, str]:
    """Lock a spec, and return the file of each distribution."""
    assigned = []
    for requirement in requirements:
        name = requirement.partition("==")[0]
        if name != "filelock":
            assigned.append(name)
    text = SPEC.format(requirements=requirements, assigned=assigned, variants=variants)
    (project.specs / "thing.toml").write_text(text)
    target = load_spec(project.specs / "thing.toml")
    with local_index.serve({"simple": DEFAULT}, "5" * 64) as urls:
        config = PipConfig(index_url=urls["simple"])
        resolver = Resolver(project.catalog, config, run, Silent(), engine)
        (result,) = lock.lock([target], project, resolver, write=True)
    if result.error:
        raise result.error
    hashes = {known.filename: known.sha256 for known in VENDOR + DEFAULT}
    files = {}
    for artifact in read_lock(project.lock("thing")).artifacts:
        assert artifact.sha256 == hashes[artifact.filename]
        files[artifact.name] = artifact.filename
    return files


@pytest.mark.machine
def test_the_wheel_that_is_no_variant_is_locked_by_default(project: Project) -> None:
    files = locked(project, ["torch", "kernels"])
    # torch 3.0 has no other wheel than a variant, and is not taken for being newer.
    assert files == {
        "torch": "torch-2.0-py3-none-any.whl",
        "filelock": "filelock-3.0-py3-none-any.whl",
        # Where all are variants, that without properties: it fits every machine.
        "kernels": "kernels-1.0-py3-none-any-null.whl",
    }


@pytest.mark.machine
@pytest.mark.parametrize(
    "engine", ["uv", pytest.param("pip-tools", marks=pytest.mark.slow)]
)
def test_the_spec_names_the_variant_and_its_requirements_are_resolved(
    project: Project, engine: str
) -> None:
    files = locked(project, ["torch"], 'torch = "cu13"', engine)
    assert files["torch"] == "torch-2.0-py3-none-any-cu13.whl"
    assert "nvidia-runtime" in files
    # The label decides the lock, so a lock without it is not fresh.
    assert locked(project, ["torch"])["torch"] == "torch-2.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("requirements", "variants", "what", "remedy"),
    [
        (["torch"], 'torch = "rocm"', "no variant rocm of torch", "one of them"),
        (["only"], "", "no variant null of only", 'only = "LABEL"'),
    ],
)
def test_a_variant_that_the_catalog_lacks_is_named_with_those_that_it_has(
    project: Project, requirements: list[str], variants: str, what: str, remedy: str
) -> None:
    with pytest.raises(SpecError, match=what) as error:
        locked(project, requirements, variants)
    assert "variants in the catalog of vendor: " in error.value.evidence
    assert remedy in error.value.remedy


@pytest.mark.machine
@pytest.mark.parametrize(
    ("requirement", "variants", "said", "mended"),
    [
        (
            "torch==3.0",
            "",
            (
                "vendor has torch==3.0 as a wheel variant: cu12",
                'write `torch = "cu12"` into [pip.variants] of envs/thing.toml, or change',
            ),
            'torch = "cu12"',
        ),
        (
            "torch==2.0",
            'torch = "cu12"',
            (
                "vendor has torch==2.0 as a wheel variant: cu13, null",
                'write `torch = "LABEL"` with one of them into [pip.variants]',
            ),
            'torch = "cu13"',
        ),
        (
            "plain==2.0",
            'plain = "cu12"',
            (
                "vendor has plain==2.0 without a variant label",
                "remove plain from [pip.variants] of envs/thing.toml, or change",
            ),
            "",
        ),
    ],
)
def test_a_release_that_has_other_labels_only_is_named_with_the_line_to_write(
    project: Project,
    requirement: str,
    variants: str,
    said: tuple[str, str],
    mended: str,
) -> None:
    with pytest.raises(SpecError, match=f"{requirement} is not available") as error:
        locked(project, [requirement], variants)
    assert said[0] in error.value.cause
    assert error.value.remedy.startswith(said[1])
    assert locked(project, [requirement], mended)


@pytest.mark.parametrize("label", ["CU13", "../cu13", "cu-13", ""])
def test_attack_a_label_with_other_characters_is_refused_with_its_place(
    project: Project, label: str
) -> None:
    """A label becomes part of a file name: a spec, a catalog and a lock refuse any separator."""
    with pytest.raises(SpecError) as error:
        locked(project, ["torch"], f'torch = "{label}"')
    assert "thing.toml" in str(error.value)
    assert "pip.variants.torch" in error.value.evidence
    catalog = project.catalog / "vendor.json"
    catalog.write_text(catalog.read_text().replace("any-cu13.whl", f"any-{label}.whl"))
    with pytest.raises(SpecError) as error:
        load_snapshot(project.catalog, "vendor", Index)
    assert "vendor.json" in str(error.value)
    assert "files[2].filename" in error.value.evidence


def test_update_refuses_the_markers_of_variants_with_the_wheel() -> None:
    marked = "nvidia-runtime; 'nvidia' in variant_namespaces"
    with pytest.raises(ValidationError) as error:
        wheel("torch-2.0-py3-none-any-cu13.whl", marked)
    (fault,) = faults_of(error.value, Wheel)
    assert "variant_namespaces" in fault


def test_an_index_with_variants_is_read_and_each_fitting_one_wanted() -> None:
    here = [("linux-64", "3.11", None)]
    for name in ("t-1-py3-none-any-cu13.whl", "t-1-py3-none-any.whl"):
        assert is_wanted(name, here, None)
    for name in ("t-1-py3-none-win_amd64-cu13.whl", "t-1-py3-none-any-CU13.whl"):
        assert not is_wanted(name, here, None)


@pytest.mark.machine
def test_a_variant_is_refused_in_a_format_that_cannot_name_it(lab: Lab) -> None:
    target = load_target(lab.project.specs, "tiny")
    tiny = read_lock(lab.project.lock("tiny"))
    supply = lab.order().supply
    options: dict[str, Any] = {"file": None, "progress": lab.listener, "supply": supply}
    with pytest.raises(UsageError, match="wheel variants") as error:
        export(lab.project, target, tiny, kind="pylock", **options)
    assert "alpha-1.0-py3-none-any-bmg.whl" in error.value.evidence
    assert export(lab.project, target, tiny, kind="requirements", **options).left_out


@pytest.mark.machine
@pytest.mark.parametrize("kind", ["requirements", "environment"])
def test_export_says_that_other_installers_do_not_take_a_variant(
    lab: Lab, kind: str
) -> None:
    target = load_target(lab.project.specs, "tiny")
    said = lost(target, read_lock(lab.project.lock("tiny")), kind)
    assert [text for text in said if text.startswith("that alpha is a wheel variant")]


def test_a_variant_of_the_default_index_is_refused(project: Project) -> None:
    with pytest.raises(SpecError) as error:
        locked(project, ["filelock"], 'filelock = "cu13"')
    assert "variants of the default index are not locked" in error.value.evidence


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Return a lab whose alpha is a variant, with a wheel that is none beside it."""
    with open_lab(tmp_path) as made:
        made.wheel("alpha", text="version = 'of none'\n")
        files = {
            "alpha.py": "version = 'of bmg'\n",
            "alpha-1.0.dist-info/variant.json": json.dumps(OF_BMG),
        }
        variant = make_wheel(
            made.index.root / "default", "alpha", "1.0", files, variant="bmg"
        )
        made.relock(variant, made.wheel("beta", index="vendor"))
        yield made


@pytest.mark.machine
def test_a_build_installs_the_variant_of_the_lock_on_a_machine_without_the_device(
    lab: Lab,
) -> None:
    lab.build()
    assert lab.says("import alpha; print(alpha.version)") == "of bmg"
    asked = [
        path
        for path in lab.index.asked
        if path.endswith("alpha-1.0-py3-none-any-bmg.whl")
    ]
    assert asked
    # Kept for the next build, which then needs no index; a wheelhouse does as well.
    lab.index.fault = 404
    for houses in ((), (lab.index.root / "default",)):
        shutil.rmtree(lab.home)
        if houses:
            shutil.rmtree(lab.project.variants)
        lab.build(offline=True, wheelhouses=houses)
        assert lab.says("import alpha; print(alpha.version)") == "of bmg"


@pytest.mark.machine
def test_a_build_says_what_the_targets_machines_need_not_have(lab: Lab) -> None:
    lab.build()
    (said,) = [note for note in lab.listener.notes if "variant" in note]
    assert said == (
        "alpha is the variant bmg, and not every machine of tiny needs to have "
        "intel :: family :: bmg, lnl"
    )
    alpha = lab.index.root / "default" / "alpha-1.0-py3-none-any-bmg.whl"
    files = {"alpha.py": "", "alpha-1.0.dist-info/variant.json": '{"variants": 1}'}
    make_wheel(alpha.parent, "alpha", "1.0", files, variant="bmg")
    lab.relock(alpha, *lab.wheels[1:])
    lab.listener.notes.clear()
    lab.build()
    (said,) = [note for note in lab.listener.notes if "variant" in note]
    assert said.startswith(
        "alpha is the variant bmg, and its variant.json is not valid"
    )


def doubted(folder: Path, change: Callable[[bytes], bytes] | None = None) -> list[str]:
    """Return the doubts about a wheel for cards of one family, on arc-linux, which has several."""
    project = Project(folder)
    shutil.copytree(shipped().catalog, project.catalog)
    needed = OF_BMG | {"variants": {"bmg": {"intel": {"family": ["bmg"]}}}}
    files = {"alpha-1.0.dist-info/variant.json": json.dumps(needed)}
    made = make_wheel(project.variants, "alpha", "1.0", files, variant="bmg")
    if change:
        made.write_bytes(change(made.read_bytes()))
    artifact = Artifact("alpha", "1.0", made.name, "0" * 64, None, "vendor", ())
    target = load_target(shipped().specs, "arc-linux")
    return doubts(target, Lock(folder, {}, (artifact,), None), project)


def test_a_wheel_for_one_of_several_families_is_doubted(tmp_path: Path) -> None:
    (said,) = doubted(tmp_path)
    assert said.endswith("of arc-linux needs to have intel :: family :: bmg")


def encrypted(wheel: bytes) -> bytes:
    """Set the flag of encryption in each header of a zip file."""
    for header, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        first, *others = wheel.split(header)
        flags = at - len(header)
        marked = [b"".join((o[:flags], b"\x01", o[flags + 1 :])) for o in others]
        wheel = header.join((first, *marked))
    return wheel


def packed(wheel: bytes) -> bytes:
    """Name a compression that no Python has in each entry of the directory."""
    first, *others = wheel.split(b"PK\x01\x02")
    marked = [b"".join((o[:6], b"\x63\x00", o[8:])) for o in others]
    return b"PK\x01\x02".join((first, *marked))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (encrypted, "encrypted"),
        (packed, "its compression is not one of wheels"),
        (lambda wheel: wheel.replace(b"variant.json", b"variant.text"), "has 0 such"),
        (lambda wheel: wheel.replace(b'"bmg": {', b'"dg2": {'), "Bad CRC"),
        (lambda wheel: wheel[:40], "not a zip file"),
    ],
)
def test_attack_a_damaged_variant_ends_no_build_and_is_named_in_a_sentence(
    tmp_path: Path, change: Callable[[bytes], bytes], said: str
) -> None:
    """Whoever made the wheel wrote its archive: what no Python can read is said, in one line."""
    (line,) = doubted(tmp_path, change)
    assert line.startswith(
        "alpha is the variant bmg, and its variant.json is not valid:"
    )
    assert said in line
    assert "\n" not in line


@pytest.mark.machine
def test_a_variant_that_is_a_file_is_required_like_any_wheel(lab: Lab) -> None:
    wheels = lab.project.root / "wheels"
    wheels.mkdir()
    shutil.copy(lab.wheels[0], wheels)
    path = lab.project.specs / "tiny.toml"
    head = path.read_text().partition("[pip]")[0]
    needs = '"alpha @ file:wheels/alpha-1.0-py3-none-any-bmg.whl"'
    table = f"[pip]\ncutoff = 2026-11-01\nrequirements = [{needs}]\n"
    path.write_text(head + table)
    target = load_target(lab.project.specs, "tiny")
    config = PipConfig(index_url=f"{lab.index.url}/default/")
    resolver = Resolver(lab.project.catalog, config, run, lab.listener)
    (result,) = lock.lock([target], lab.project, resolver)
    assert not result.error
    (locked_one,) = read_lock(lab.project.lock("tiny")).artifacts
    assert locked_one.filename == lab.wheels[0].name
    assert locked_one.index == "wheelhouse"
    lab.index.asked.clear()
    lab.build()
    assert lab.says("import alpha; print(alpha.version)") == "of bmg"
    # Another file of its name on an index is another package.
    assert not [path for path in lab.index.asked if "alpha" in path]


@pytest.mark.machine
def test_variant_json_is_verified_as_every_file_is(lab: Lab) -> None:
    lab.build()
    prefix = lab.home / CURRENT
    (path,) = prefix.glob("**/alpha-1.0.dist-info/variant.json")
    found = verify(
        read_contents(prefix, "tiny"),
        read_lock(lab.project.lock("tiny")),
        (),
        deep=True,
    )
    assert not found.findings
    path.write_text("{}")
    found = verify(
        read_contents(prefix, "tiny"),
        read_lock(lab.project.lock("tiny")),
        (),
        deep=True,
    )
    (finding,) = found.findings
    assert "variant.json" in "".join(finding.evidence)


@pytest.mark.machine
def test_attack_another_file_under_the_name_of_the_variant_is_not_installed(
    lab: Lab,
) -> None:
    """An index offers other bytes under the locked name: the hash of the lock decides."""
    files = {"alpha.py": "version = 'of whoever'\n"}
    make_wheel(lab.index.root / "default", "alpha", "1.0", files, variant="bmg")
    with pytest.raises(ToolError, match="wheel variant") as error:
        lab.build()
    assert "another file of this name" in error.value.evidence
    assert not (lab.home / CURRENT).exists()


@pytest.mark.machine
def test_attack_what_a_clone_brings_along_as_a_variant_is_not_installed(
    lab: Lab,
) -> None:
    """A repository has other bytes where a build keeps variants: each is hashed first."""
    variant = lab.wheels[0]
    files = {"alpha.py": "version = 'of whoever'\n"}
    folder = lab.project.variants
    make_wheel(folder, "alpha", "1.0", files, variant="bmg")
    make_wheel(folder / sha256_file(variant), "alpha", "1.0", files)
    lab.build()
    assert lab.says("import alpha; print(alpha.version)") == "of bmg"


@pytest.mark.machine
def test_a_build_goes_on_after_one_that_was_killed_while_it_linked(lab: Lab) -> None:
    """Another run can have the number of the killed process, as in a container."""
    house = lab.project.variants / sha256_file(lab.wheels[0])
    house.mkdir(parents=True)
    shutil.copy(lab.wheels[0], lab.project.variants)
    kept = lab.project.variants / lab.wheels[0].name
    (house / f"{os.getpid()}.part").hardlink_to(kept)
    lab.build()
    assert lab.says("import alpha; print(alpha.version)") == "of bmg"


@pytest.mark.machine
def test_attack_a_link_that_a_clone_brings_along_is_not_followed(lab: Lab) -> None:
    """A repository links the folder of a variant to one of its user's: nothing is written there."""
    outside = lab.project.root.parent / "outside"
    outside.mkdir()
    lab.project.variants.mkdir(parents=True)
    house = lab.project.variants / sha256_file(lab.wheels[0])
    house.symlink_to(outside)
    with pytest.raises(ToolError, match="is a link") as error:
        lab.build()
    assert f"remove {house}" in error.value.remedy
    assert not [*outside.iterdir()]


@pytest.mark.machine
def test_attack_a_lock_refuses_a_label_that_is_none(lab: Lab) -> None:
    """A lock comes with a repository: its file names must not lead out of a folder."""
    folder = lab.project.lock("tiny")
    text = (folder / PIP_LAYER).read_text()
    for label in ("../bmg", "BMG", "b mg", ""):
        edited = text.replace("any-bmg.whl", f"any-{label}.whl")
        with pytest.raises(SpecError, match=r"line \d+: alpha is not in a wheel"):
            parse_lock(folder, edited, None)
