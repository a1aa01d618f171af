"""`explain`: through whom a package is locked, what limits it, and what changes it, each tried."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.catalog.snapshot import Wheel
from provision.cli import main
from provision.commands.explain_limits import (
    LockedTarget,
    Metadata,
    admits,
    chains,
    limits_of,
)
from provision.core.errors import Exit
from provision.core.project import Project
from provision.lockfile.pip import (
    PIP_LAYER,
    WHEELHOUSE,
    read_lock,
    render_requirements,
)
from provision.lockfile.wheel_record import encoded
from provision.resolver import local_index
from provision.spec.extends import read_spec_file
from provision.spec.places import read_places
from provision.spec.reader import load_targets, target_names
from tests.small import TARGET, make_wheel, write_vendor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab import Lab

ROOT = Path(__file__).parents[2]
# Index, name, version, what it requires. `theta` and `zeta` go with one `beta` each.
WHEELS = [
    ("default", "alpha", "1.0", ["gamma>=1", "delta", "eta; extra == 'more'"]),
    ("default", "alpha", "0.9", ["gamma"]),
    ("default", "gamma", "1.0", []),
    ("default", "gamma", "2.0", []),
    ("default", "delta", "0.9", []),
    ("default", "delta", "1.0", []),
    ("default", "eta", "1.0", []),
    ("vendor", "beta", "1.0", ["zeta==1.0", "gamma"]),
    ("vendor", "beta", "2.0", ["zeta==2.0", "gamma"]),
    ("vendor", "theta", "1.0", ["beta==1.0"]),
    ("vendor", "theta", "2.0", ["beta==2.0"]),
    ("vendor", "zeta", "1.0", []),
    ("vendor", "zeta", "2.0", []),
]
BASE = """\
[pip]
cutoff = 2026-11-01
requirements = [
    "alpha", # of everybody
]
"""
SPEC = """\
extends = "base/project"
summary = "A target in miniature"
accelerator = "cpu"
{machine}
[pip]
files = ["requirements.txt"]
requirements = [
    "beta==1.0",
    "theta==1.0",
]
{more}

[pip.index]
vendor = ["beta", "theta", "zeta"]
"""


class Market:
    """A lab whose packages require each other, and whose locks `uv` makes."""

    def __init__(self, lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
        self.lab, self.root, self._capsys = lab, lab.project.root, capsys
        text = (lab.project.specs / f"{TARGET}.toml").read_text(encoding="utf-8")
        self._machine = "\n".join(re.findall(r"^(?:platform|python) = .*", text, re.M))
        (lab.project.specs / "base").mkdir()
        self.write("envs/base/project.toml", BASE)
        self.write("requirements.txt", "# what we need\ngamma<3\n")
        self.spec()

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def spec(self, name: str = TARGET, more: str = "") -> None:
        text = SPEC.format(machine=self._machine, more=more)
        self.write(f"envs/{name}.toml", text)

    def call(self, *words: str) -> tuple[int, str]:
        self._capsys.readouterr()
        code = main.main([*words, "--project", str(self.root)])
        out, err = self._capsys.readouterr()
        return code, out + err

    def lock(self) -> None:
        code, said = self.call("lock")
        assert code == Exit.OK, said

    def explain(self, *words: str) -> list[dict[str, Any]]:
        code, said = self.call("explain", *words, "--json")
        assert code == Exit.OK, said
        found: list[dict[str, Any]] = json.loads(said)["result"]
        return found

    def locked(self, name: str) -> str | None:
        return read_lock(self.lab.project.lock(TARGET)).versions.get(name)

    def limits(self, name: str) -> dict[str, str | None]:
        (found,) = self.explain(name)
        return {limit["by"]: limit["versions"] for limit in found["limits"]}


@pytest.fixture
def market(
    lab: Lab,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Market]:
    served: dict[str, list[Wheel]] = {"default": [], "vendor": []}
    for index, name, version, requires in WHEELS:
        files = {f"{name}.py": ""}
        file = make_wheel(lab.index.root / index, name, version, files, requires)
        known = {
            "filename": file.name,
            "url": f"{lab.index.url}/{index}/{file.name}",
            "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
            "size": file.stat().st_size,
            "requires_dist": requires,
        }
        served[index].append(Wheel.model_validate_json(json.dumps(known)))
    write_vendor(lab.project.catalog, served["vendor"], f"{lab.index.url}/vendor/")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "none"))
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    with local_index.serve(served, "0" * 64) as urls:
        monkeypatch.setenv("PIP_INDEX_URL", urls["default"])
        made = Market(lab, capsys)
        made.lock()
        yield made


@pytest.mark.machine
def test_it_says_through_whom_and_within_which_limits(market: Market) -> None:
    (found,) = market.explain("Gamma")
    assert found["targets"] == [TARGET]
    assert found["version"] == "2.0"
    assert found["index"] == "default"
    assert found["files"][0]["name"] == "gamma-2.0-py3-none-any.whl"
    assert found["cutoff"] == "2026-11-01"
    assert found["cutoff_place"] == "envs/base/project.toml, line 2"
    why = [(c["packages"], c["line"], c["place"], c["source"]) for c in found["why"]]
    assert why == [
        ([], "gamma<3", "requirements.txt, line 2", "file"),
        (["alpha"], "alpha", "envs/base/project.toml, line 4", "inherited"),
        (["beta"], "beta==1.0", f"envs/{TARGET}.toml, line 9", "spec"),
    ]
    # The catalog has the requirements of beta; those of alpha are in no lock.
    assert market.limits("gamma") == {
        "requirements.txt, line 2": "<3",
        "alpha 1.0": None,
        "beta 1.0": "",
    }


@pytest.mark.machine
def test_attack_edited_metadata_of_an_environment_sets_no_limit(market: Market) -> None:
    """Whoever edits METADATA, and its line in RECORD, makes the limit unknown, not another one."""
    assert market.call("build", TARGET)[0] == Exit.OK
    assert market.limits("gamma")["alpha 1.0"] == ">=1"
    current = (market.lab.home / "current").resolve()
    (metadata,) = current.rglob("alpha-1.0.dist-info/METADATA")
    text = metadata.read_text(encoding="utf-8")
    metadata.write_text(text.replace("gamma>=1", "gamma>=0"), encoding="utf-8")
    assert market.limits("gamma")["alpha 1.0"] is None
    record = metadata.with_name("RECORD")
    digest = hashlib.sha256(metadata.read_bytes()).digest()
    line = f"METADATA,{encoded(digest)},{len(text)}"
    lines = re.sub(r"METADATA,[^,]+,\d+", line, record.read_text(encoding="utf-8"))
    record.write_text(lines, encoding="utf-8")
    assert market.limits("gamma")["alpha 1.0"] is None


@pytest.mark.machine
@pytest.mark.parametrize(
    ("requirement", "limits"),
    [
        pytest.param("alpha", {}, marks=pytest.mark.slow),
        ("alpha[more]", {"alpha 1.0": ""}),
    ],
)
def test_what_only_an_extra_requires_needs_the_extra(
    market: Market, requirement: str, limits: dict[str, str]
) -> None:
    text = BASE.replace('"alpha"', f'"{requirement}"')
    market.write("envs/base/project.toml", text)
    market.write("requirements.txt", "gamma<3\neta\n")
    market.lock()
    assert market.call("build", TARGET)[0] == Exit.OK
    known = market.limits("eta")
    assert known.pop("requirements.txt, line 2") == ""
    assert known == limits


@pytest.mark.machine
def test_a_newer_release_of_a_catalog_and_what_holds_it_back(market: Market) -> None:
    (beta,) = market.explain("beta")
    assert beta["assigned"] == f"envs/{TARGET}.toml, line 15"
    assert beta["newer"] == [
        {
            "version": "2.0",
            "held_by": [
                f"envs/{TARGET}.toml, line 9 requires beta==1.0",
                "theta 1.0 requires beta==1.0",
            ],
        }
    ]
    (theta,) = market.explain("theta")
    assert theta["newer"][0]["held_by"] == [
        f"envs/{TARGET}.toml, line 10 requires theta==1.0",
        f"it requires beta==2.0, and envs/{TARGET}.toml, line 9 beta==1.0",
    ]
    (zeta,) = market.explain("zeta")
    assert zeta["newer"][0]["held_by"] == ["beta 1.0 requires zeta==1.0"]


@pytest.mark.machine
@pytest.mark.parametrize(
    "name",
    ["theta", *(pytest.param(n, marks=pytest.mark.slow) for n in ("beta", "zeta"))],
)
def test_the_newest_is_taken_with_all_that_moves_with_it(
    market: Market, name: str
) -> None:
    (found,) = market.explain(name)
    command = shlex.split(found["changes"][0]["do"])
    assert {"beta==2.0", "theta==2.0"} <= {*command}
    code, said = market.call(*command[1:])
    assert code == Exit.OK, said
    for moved in ("beta", "theta", "zeta"):
        assert market.locked(moved) == "2.0"


@pytest.mark.machine
@pytest.mark.parametrize(
    "name",
    [
        "delta",
        "zeta",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("alpha", "gamma", "beta", "theta")
        ),
    ],
)
def test_each_change_that_it_prints_does_what_it_says(
    market: Market, name: str, tmp_path: Path
) -> None:
    (found,) = market.explain(name)
    before = market.locked(name)
    copy = tmp_path / "copy"
    shutil.copytree(market.root, copy)
    assert found["changes"]
    for change in found["changes"]:
        _follow(market, change["do"])
        now = market.locked(name)
        effect = change["effect"]
        if "stays in the lock" in effect or "cut-off" in effect:
            assert now == before
        elif "removes" in effect or "leaves it out" in effect:
            assert now is None, change
        else:
            assert now not in {None, before}, change
        shutil.rmtree(market.root)
        shutil.copytree(copy, market.root)


def _follow(market: Market, do: str) -> None:
    """Run a command, or write the line that a sentence names."""
    if do.startswith("provision "):
        code, said = market.call(*shlex.split(do)[1:])
        assert code == Exit.OK, f"{do}\n{said}"
        return
    line, file = re.findall(r"write `(.+)` into \[pip\] of (\S+)", do)[0]
    text = (market.root / file).read_text(encoding="utf-8")
    market.write(file, text.replace("[pip]\n", f"[pip]\n{line}\n", 1))
    market.lock()


@pytest.mark.machine
def test_an_override_replaces_the_limits_of_others(market: Market) -> None:
    more = 'constraints = ["gamma<9"]\n[[pip.overrides]]\nrequirement = "gamma==1.0"\nreason = "r"'
    market.spec(more=more)
    market.lock()
    (found,) = market.explain("gamma")
    constraint, override = found["limits"]
    assert constraint["kind"] == "constraint"
    assert constraint["versions"] == "<9"
    assert override["kind"] == "override"
    assert override["versions"] == "==1.0"
    assert found["version"] == "1.0"


@pytest.mark.machine
def test_an_override_requires_nothing(market: Market) -> None:
    more = '[[pip.overrides]]\nrequirement = "zeta==1.0"\nreason = "r"'
    market.spec(more=more)
    market.lock()
    (found,) = market.explain("zeta")
    (chain,) = found["why"]
    assert chain["packages"] == ["beta"]
    for change in found["changes"]:
        assert " remove " not in change["do"]


@pytest.mark.machine
def test_why_a_package_is_not_there(market: Market) -> None:
    more = (
        'exclude = ["delta"]\ndrop = ["alpha"]\n'
        'forbid = [{ name = "kappa", reason = "it breaks" }]'
    )
    market.spec("other", more)
    market.write("requirements.txt", "gamma<3\neta ; sys_platform == 'amiga'\n")
    market.lock()
    excluded = market.explain("delta")[-1]
    dropped = market.explain("alpha")[-1]
    assert excluded["layer"] == "none"
    assert excluded["targets"] == ["other"]
    assert excluded["notes"] == [
        "`exclude` of envs/other.toml, line 12 leaves it out, whatever requires it"
    ]
    assert dropped["notes"] == [
        "`drop` of envs/other.toml, line 13 undoes the inherited requirement"
    ]
    (forbidden,) = market.explain("kappa")
    assert forbidden["notes"] == ["`forbid` of envs/other.toml, line 14: it breaks"]
    (marked,) = market.explain("eta")
    assert marked["targets"] == ["other", TARGET]
    assert "requirements.txt, line 2: eta" in marked["notes"][0]
    assert "its marker excludes" in marked["notes"][0]
    assert f"envs/{TARGET}.toml" not in str(marked)


@pytest.mark.machine
def test_a_name_that_no_lock_has_is_refused_with_the_nearest(market: Market) -> None:
    market.spec("other", 'drop = ["alpha"]')
    market.lock()
    code, said = market.call("explain", "gama")
    assert code == Exit.USAGE
    assert f"gama is not in the lock of other, {TARGET}" in said
    assert "nearest names: gamma" in said
    # No line of `other` says anything of delta, which alpha brings to the first.
    code, said = market.call("explain", "delta", "-t", "other")
    assert code == Exit.USAGE
    assert "delta is not in the lock of other\n" in said
    assert f"{TARGET} has it" in said
    for word in ("gamma>=1", "../gamma", "", "(.*)"):
        code, said = market.call("explain", word)
        assert code == Exit.USAGE
        assert "is not the name of a package" in said
    code, said = market.call("explain", "gamma", "-t", "nowhere")
    assert code == Exit.USAGE
    assert "there is no target 'nowhere'" in said


@pytest.mark.machine
def test_targets_that_are_alike_are_one_block(market: Market) -> None:
    market.spec("other")
    market.spec("third", 'constraints = ["gamma<2"]')
    market.lock()
    (alike,) = market.explain("alpha")
    assert alike["targets"] == ["other", "third", TARGET]
    (file,) = alike["files"]
    assert file["targets"] == alike["targets"]
    # Lines of the targets' own specs are of another file each.
    blocks = market.explain("gamma")
    assert [block["targets"] for block in blocks] == [["other"], ["third"], [TARGET]]
    assert [block["version"] for block in blocks] == ["2.0", "1.0", "2.0"]
    (third,) = market.explain("gamma", "-t", "third")
    assert third["targets"] == ["third"]


@pytest.mark.machine
def test_a_stale_lock_is_said_to_be_stale(market: Market) -> None:
    market.write("requirements.txt", "gamma<2\n")
    (found,) = market.explain("gamma")
    assert found["notes"] == [
        "the lock is stale: requirements.txt changed since it was locked"
    ]
    assert found["changes"][0]["do"] == f"provision lock {TARGET}"
    market.lock()
    assert market.explain("gamma")[0]["version"] == "1.0"


@pytest.mark.machine
def test_an_own_package_and_what_it_requires(market: Market) -> None:
    manifest = (
        '[project]\nname = "ours"\nversion = "1"\ndependencies = [\n  "eta>=1",\n]\n'
    )
    market.write("ours/pyproject.toml", manifest)
    market.spec(more='local = ["-e ours"]')
    market.lock()
    (eta,) = market.explain("eta")
    place = "ours/pyproject.toml, line 5"
    assert eta["why"] == [
        {"packages": ["ours"], "line": "eta>=1", "place": place, "source": "file"}
    ]
    assert market.limits("eta") == {place: ">=1"}
    (ours,) = market.explain("ours")
    assert ours["layer"] == "own"
    assert ours["notes"][0] == f"envs/{TARGET}.toml, line 12 names it: -e ours"


@pytest.mark.machine
def test_what_was_built_from_a_source_has_no_index(market: Market) -> None:
    """With the lock that `lock` would write: it would fetch the repository."""
    source = "git+https://example.org/delta.git"
    folder = market.lab.project.lock(TARGET)
    lock = read_lock(folder)
    commit = "a" * 40
    built = {artifact.name: artifact for artifact in lock.artifacts}
    origin = {"index": WHEELHOUSE, "source": f"{source}@{commit}"}
    built["delta"] = replace(built["delta"], **origin)
    header = dict(lock.header)
    del header["schema"], header["seal"]
    text = render_requirements(header, list(built.values()))
    (folder / PIP_LAYER).write_text(text, encoding="utf-8")
    market.write("requirements.txt", f"gamma<3\ndelta @ {source}\n")
    (delta,) = market.explain("delta")
    assert delta["index"] == WHEELHOUSE
    assert delta["source"] == f"{source}@{commit}"
    assert delta["cutoff"] == ""
    assert delta["newer"] is None
    place = "requirements.txt, line 2"
    assert market.limits("delta")[place] == f"@ {source}"
    again, change, *_ = delta["changes"]
    assert again["do"] == f"provision lock {TARGET}"
    assert change["do"] == f"change {place}"
    _, said = market.call("explain", "delta")
    assert f"none: built from {source}@aaaa" in said


def every_lock() -> Iterator[LockedTarget]:
    """Every target of this repository that has a lock."""
    project = Project(ROOT)
    read = functools.cache(read_spec_file)
    names = target_names(project.specs)
    metadata = Metadata(project, names)
    for target in load_targets(project.specs, names)[0]:
        if project.lock(target.name).is_dir():
            lock = read_lock(project.lock(target.name))
            places = read_places(target, ROOT, read)
            yield LockedTarget(target, lock, places, metadata)


def test_every_locked_package_leads_to_a_line_and_keeps_to_its_limits() -> None:
    """No process and no network: this test may have neither."""
    known = 0
    for locked in every_lock():
        for name, artifact in locked.artifacts.items():
            what = f"{locked.target.name}: {name}"
            found = list(chains(locked, name))
            assert found, what
            for chain in found:
                file, _, number = chain.place.partition(", line ")
                line = (ROOT / file).read_text("utf-8").splitlines()[int(number) - 1]
                assert f'"{chain.line}"' in line, what
            for limit in limits_of(locked, name):
                assert admits(limit, artifact.version), f"{what}: {limit}"
                known += bool(limit.versions)
    assert known > 200


def explained(*words: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main.main(["explain", *words, "--json", "--project", str(ROOT)]) == Exit.OK
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["result"]
    return found


def test_a_package_of_the_conda_layer(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = explained("vc14-runtime", "-t", "arc-windows", capsys=capsys)
    assert found["layer"] == "conda"
    assert found["package"] == "vc14_runtime"
    assert found["index"] == "conda-forge"
    first = found["why"][0]
    assert first["packages"] == []
    assert first["line"] == "vc14_runtime"
    assert "envs/arc-windows.toml, line " in first["place"]
    assert ["python"] in [chain["packages"] for chain in found["why"]]
    bounds = {}
    for limit in found["limits"]:
        package, _, _ = limit["by"].partition(" ")
        bounds[package] = limit["versions"]
    assert bounds["python"].startswith(">=14.")


def test_the_interpreter_of_the_conda_layer_is_held_by_its_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (python,) = explained("python", "-t", "ipex-llm-windows", capsys=capsys)
    assert python["why"][0]["line"] == "python 3.11.*"
    assert python["why"][0]["place"].startswith("envs/ipex-llm-windows.toml, line ")
    held = {newer["version"]: newer["held_by"] for newer in python["newer"]}
    assert "requires python 3.11.*" in "\n".join(held["3.14.6"])


def test_targets_of_several_platforms_share_a_block_with_a_file_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("safetensors", "-t", "arc-linux", "-t", "arc-windows")
    (block,) = explained(*words, capsys=capsys)
    assert block["targets"] == ["arc-linux", "arc-windows"]
    linux, windows = block["files"]
    assert linux["targets"] == ["arc-linux"]
    assert windows["targets"] == ["arc-windows"]
