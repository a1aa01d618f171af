"""`add` and `remove`: a spec and its lock change together, and nothing else in the file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from provision.catalog.snapshot import Wheel
from provision.cli import main
from provision.commands.edit_spec import add_to, edit_and_lock, remove_from
from provision.core.errors import Exit, UsageError
from provision.core.locking import try_lock
from provision.core.program import program_name
from provision.lockfile.pip import read_lock
from provision.resolver import local_index
from tests.small import FAILING_SUITE, TARGET, make_wheel, write_vendor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab import Lab

SPEC = """\
# why this target is here
summary = "a target"
accelerator = "cpu"
platform = "linux-64"
python = "3.11"

[pip] # of the vendor
cutoff = 2026-11-01
requirements = [
    "torch==2.0", # the reason

    "Some_Thing>=1",
    "numpy",  # the last
]

[pip.index]
vendor = ["torch"]

[docker]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "thing.toml"
    path.write_text(SPEC)
    return path


def test_what_is_added_follows_and_the_rest_stays(path: Path) -> None:
    assert add_to(path, ["einops", "pillow>=10"]).pip.requirements[-2:] == (
        "einops",
        "pillow>=10",
    )
    added = '    "numpy",  # the last\n    "einops",\n    "pillow>=10",\n'
    assert path.read_text() == SPEC.replace('    "numpy",  # the last\n', added)
    remove_from(path, ["Pillow", "einops"])
    assert path.read_text() == SPEC


def test_another_version_takes_the_place_of_the_first(path: Path) -> None:
    add_to(path, ["torch[all]==2.1", "some.thing>=2", "numpy"])
    expected = SPEC.replace("torch==2.0", "torch[all]==2.1").replace(
        "Some_Thing>=1", "some.thing>=2"
    )
    assert path.read_text() == expected


def test_a_package_can_be_assigned_to_an_index_and_moved(path: Path) -> None:
    assert add_to(path, ["einops"], "vendor").pip.index == {
        "vendor": ("torch", "einops")
    }
    moved = add_to(path, ["torch==2.1", "torchvision"], "other")
    assert moved.pip.index == {"vendor": ("einops",), "other": ("torch", "torchvision")}
    assert add_to(path, ["einops"], "other").pip.index == {
        "other": ("torch", "torchvision", "einops")
    }


def test_what_the_spec_does_not_require_cannot_be_removed(path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not require tqdm") as caught:
        remove_from(path, ["numpy", "tqdm"])
    assert "numpy, some-thing, torch" in caught.value.cause
    assert path.read_text() == SPEC


@pytest.fixture
def shop(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Lab]:
    """A lab whose spec can be resolved: its wheels, also as metadata with upload times.

    Of these delta requires gamma.
    """
    served: dict[str, list[Wheel]] = {"default": [], "vendor": []}
    for name in ("alpha", "beta", "delta", "gamma"):
        index = "vendor" if name == "beta" else "default"
        requires = ("gamma",) if name == "delta" else ()
        text = {f"{name}.py": "version = '1.0'\n"}
        file = make_wheel(lab.index.root / index, name, "1.0", text, requires)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        url = f"{lab.index.url}/{index}/{file.name}"
        served[index].append(
            Wheel(
                filename=file.name,
                url=url,
                sha256=digest,
                size=file.stat().st_size,
                requires_dist=requires,
            )
        )
    write_vendor(lab.project.catalog, served["vendor"], f"{lab.index.url}/vendor/")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "none"))
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    with local_index.serve(served, "0" * 64) as urls:
        monkeypatch.setenv("PIP_INDEX_URL", urls["default"])
        assert call(lab, "lock") == Exit.OK
        yield lab


def call(lab: Lab, verb: str, *words: str, target: str = TARGET) -> int:
    return main.main([verb, target, *words, "--project", str(lab.project.root)])


def state(lab: Lab) -> list[bytes]:
    files = [
        lab.project.specs / f"{TARGET}.toml",
        *sorted(lab.project.lock(TARGET).glob("*")),
    ]
    return [path.read_bytes() for path in files]


@pytest.mark.machine
def test_it_is_edited_locked_and_built_in_one_go(
    shop: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(shop)
    capsys.readouterr()
    assert call(shop, "add", "gamma", "--json") == Exit.OK
    (edited,) = json.loads(capsys.readouterr().out)["result"]
    assert [change["name"] for change in edited["lock"]["changes"]] == ["gamma"]
    assert edited["build"]["generation"]["record"]["proof"] == "proven"
    assert shop.says("import gamma; print(gamma.version)") == "1.0"
    assert call(shop, "build") == Exit.OK
    assert "up to date" in "".join(capsys.readouterr())
    assert call(shop, "remove", "gamma") == Exit.OK
    assert "stays in the lock" not in capsys.readouterr().err
    assert state(shop) == before
    assert (
        shop.says("import importlib.util as u; print(u.find_spec('gamma'))") == "None"
    )


@pytest.mark.machine
@pytest.mark.parametrize(
    "words",
    [
        ("gamma==9",),
        ("gamma", "nowhere"),
        ("gamma ==",),
        ("gamma", "--index", "absent"),
        ("gamma", "--index", "vendor"),
    ],
)
def test_what_cannot_be_locked_changes_nothing(
    shop: Lab, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    before = state(shop)
    capsys.readouterr()
    assert call(shop, "add", *words) == Exit.USAGE
    assert state(shop) == before
    assert f"put back as before: {shop.project.specs / TARGET}.toml" in "".join(
        capsys.readouterr()
    ).replace("\n", "").replace(" " * 12, "")
    assert not (shop.home / "current").exists()


@pytest.mark.machine
def test_what_stays_is_said_where_the_build_fails(
    shop: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(shop, "build") == Exit.OK
    suite = shop.project.smoke / "run.py"
    suite.write_text(FAILING_SUITE, encoding="utf-8")
    capsys.readouterr()
    assert call(shop, "add", "gamma") == Exit.FINDINGS
    out, err = capsys.readouterr()
    assert "the checks failed, and the environment stays as it was" in out
    assert "requirements and lock stay as edited" in " ".join(err.split())
    suite.write_text("raise SystemExit(9)", encoding="utf-8")
    assert call(shop, "add", "gamma>=1") == Exit.TOOL
    assert "requirements and lock stay as edited" in " ".join(
        capsys.readouterr().err.split()
    )
    assert "gamma" in read_lock(shop.project.lock(TARGET)).versions


@pytest.mark.machine
def test_what_is_not_built_after_an_edit_of_several_targets_is_named(
    shop: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """But no target that was not built before."""
    spec = shop.project.specs / f"{TARGET}.toml"
    for name in ("another", "never"):
        shutil.copy(spec, spec.with_stem(name))
        assert call(shop, "lock", target=name) == Exit.OK
    for name in ("another", TARGET):
        assert call(shop, "build", target=name) == Exit.OK
    suite = shop.project.smoke / "run.py"
    suite.write_text("raise SystemExit(9)", encoding="utf-8")
    capsys.readouterr()
    assert call(shop, "add", "gamma", target="all") == Exit.TOOL
    for name in ("another", "never", TARGET):
        assert "gamma" in read_lock(shop.project.lock(name)).versions
    said = " ".join(capsys.readouterr().err.replace(program_name(), "P").split())
    assert "`P build another` tries it again; not built yet, too: `P build tiny` " in (
        f"{said} "
    )
    assert "build never" not in said


@pytest.mark.machine
def test_what_was_locked_for_a_package_and_is_added_is_named(
    shop: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    def notes(*words: str) -> str:
        assert call(shop, "add", *words, "--no-build") == Exit.OK
        return " ".join(capsys.readouterr().err.split())

    assert "was locked already" not in notes("delta")
    said = notes("gamma>=1", "alpha")
    now = "it is a requirement of the project now"
    assert f"{TARGET}: gamma 1.0 was locked already, required by delta; {now}" in said
    assert said.count("was locked already") == 1
    assert "was locked already" not in notes("gamma")


@pytest.mark.machine
def test_a_second_edit_waits_for_the_first(shop: Lab) -> None:
    held: list[bool] = []

    def edit(path: Path) -> None:
        handle = os.open(path.parents[1] / ".cache" / "edit.lock", os.O_RDWR)
        held.append(not try_lock(handle))
        os.close(handle)
        raise UsageError("enough")

    resolver: Any = SimpleNamespace(progress=shop.listener)  # it is not reached
    with pytest.raises(UsageError, match="enough"):
        edit_and_lock([TARGET], edit, shop.project, resolver)
    assert held == [True]


@pytest.mark.machine
def test_what_was_never_built_is_only_locked_where_its_device_is_not(
    shop: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = shop.project.specs / f"{TARGET}.toml"
    spec.write_text(spec.read_text().replace('"cpu"', '"xpu"'))
    assert call(shop, "add", "gamma") == Exit.OK
    assert f"not built; `provision build {TARGET}`" in capsys.readouterr().out.replace(
        program_name(), "provision"
    )
    assert "gamma" in read_lock(shop.project.lock(TARGET)).versions
    assert not shop.home.exists()
    assert call(shop, "build") == Exit.OK
    assert call(shop, "remove", "gamma") == Exit.OK
    assert (
        shop.says("import importlib.util as u; print(u.find_spec('gamma'))") == "None"
    )
