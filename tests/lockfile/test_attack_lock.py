"""What a lock that was edited, merged or made by an enemy may hold, and that it is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from provision.artifacts.parallel_fetch import fetch_all
from provision.artifacts.wheelhouse import WantedFile
from provision.commands.request import require_fresh_lock
from provision.core.errors import ProvisionError, SpecError
from provision.core.hashing import sha256_bytes
from provision.core.project import Project
from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import CONDA_LAYER, PIP_LAYER, parse_lock, read_lock, sealed
from provision.spec.reader import load_target
from tests.lab import Silent
from tests.small import Index, lock, make_project, make_wheel

FOLDER = Path("lockfiles/thing")
HEADER = "# schema: 2\n# platform: linux-64\n# python: 3.11\n"
ENTRY = f"""
alpha==1.0 \\
    --hash=sha256:{"a" * 64}
    # file: alpha-1.0-py3-none-any.whl
    # size: 10
    # record: {"b" * 64}
    # index: default
    # via: the spec
"""
FILE = "alpha-1.0-py3-none-any.whl"


def test_attack_a_file_name_that_leaves_its_folder_or_is_another_s() -> None:
    for name in (
        "../../x",
        "..%2fx.whl",
        "C:x.whl",
        "..\\x.whl",
        "/etc/" + FILE,
        "beta-1.0-py3-none-any.whl",
        "alpha-2.0-py3-none-any.whl",
        "alpha-1_0-py3-none-any.whl",
        "alpha-1.0.whl",
        FILE + "/../../x",
        FILE.replace("any", "a%2fny"),
        "alpha-1.0-py3-none-any.tar.gz",
    ):
        text = sealed(HEADER + ENTRY.replace(FILE, name))
        with pytest.raises(
            SpecError, match="line 6: alpha is not in a wheel"
        ) as caught:
            parse_lock(FOLDER, text, None)
        assert "provision lock thing" in caught.value.remedy


@pytest.mark.parametrize(
    ("version", "spelled"), [("1.0rc1", "1.0.rc1"), ("1.0+cu.1", "1.0+cu_1")]
)
def test_a_file_name_may_spell_a_version_otherwise(version: str, spelled: str) -> None:
    entry = ENTRY.replace("==1.0", f"=={version}").replace(
        "alpha-1.0", f"alpha-{spelled}"
    )
    (artifact,) = parse_lock(FOLDER, sealed(HEADER + entry), None).artifacts
    assert artifact.version == version


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("# size: 10", "# size: x", "line 9: .* not a line"),
        ("# size: 10", "# size: -1", "line 9: .* not a line"),
        ("# size: 10", f"# size: 1{'0' * 5000}", "line 9: .* not a line"),
        ("# record: b", "# record: x", "line 10: .* not a line"),
        ("# index: default", "# index: ../x", "line 6: .* from an index named"),
        ("# index: default", "# index: a\n    # index: b", "line 12: .* not a line"),
        (
            "    # file",
            f"    --hash=sha256:{'b' * 64}\n    # file",
            "line 8: .* not a line",
        ),
        (
            "    # via",
            "    --index-url=http://evil\n    # via",
            "line 12: .* not a line",
        ),
        ("    # via: the spec\n", "", "has no via"),
    ],
)
def test_attack_a_line_that_no_lock_has(old: str, new: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        parse_lock(FOLDER, sealed(HEADER + ENTRY.replace(old, new)), None)


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace("a" * 64, "c" * 64),  # another wheel
        lambda text: text.replace("# record: " + "b" * 64, "# record: " + "c" * 64),
        lambda text: text[: text.index("\nalpha")],  # an entry removed
        lambda text: text + ENTRY.replace("alpha", "gamma"),  # an entry added
        lambda text: text.replace("# via: the spec", "# via: beta"),
        lambda text: "".join(
            line for line in text.splitlines(True) if "# seal" not in line
        ),
        lambda text: text.replace("# seal: ", "# seal: 0"),
        lambda text: text.replace("# platform", "# seal: 0\n# platform"),
    ],
)
def test_attack_an_edit_without_the_seal(edit: object) -> None:
    with pytest.raises(SpecError, match="its seal is not that of its entries"):
        parse_lock(FOLDER, edit(sealed(HEADER + ENTRY)), None)  # type: ignore[operator]


def test_an_older_schema_says_what_to_do() -> None:
    with pytest.raises(SpecError, match="schema 2") as caught:
        parse_lock(FOLDER, (HEADER + ENTRY).replace("schema: 2", "schema: 1"), None)
    assert "provision lock thing" in caught.value.remedy


CONDA = """version: 1
metadata: {{}}
package:
- {{name: greet, version: '1.0', manager: conda, platform: linux-64, dependencies: {{}},
   url: '{url}', hash: {{sha256: {sha}}}, category: main, optional: false}}
"""
CHANNEL = "https://conda.example/forge/"


def conda_lock(tmp_path: Path, url: str) -> Path:
    """Write a project whose spec takes its conda packages from one channel, and its lock."""
    extra = '[conda]\nchannels = ["forge"]\ndependencies = ["greet"]\n'
    project = make_project(
        tmp_path,
        Index(tmp_path, "http://localhost:1"),
        extra=extra,
        platform="linux-64",
    )
    (project.catalog / "forge.json").write_text(
        f'{{"$schema": "channel.schema.json", "url": "{CHANNEL}", "packages": []}}'
    )
    folder = project.lock("tiny")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONDA_LAYER).write_text(CONDA.format(url=url, sha="a" * 64))
    lock(project, [make_wheel(tmp_path / "default", "alpha", "1.0", {})])
    return folder


GOOD = f"{CHANNEL}linux-64/greet-1.0-0.conda"


def test_attack_a_conda_archive_with_a_name_that_is_no_name(tmp_path: Path) -> None:
    for name in (
        "..%2f..%2fgreet-1.0-0.conda",
        "greet-1.0-..%2f0.conda",
        "a\\greet-1.0-0.conda",
        "C:greet-1.0-0.conda",
        "other-1.0-0.conda",
        "greet-2.0-0.conda",
        ".greet-1.0-0.conda",
    ):
        folder = conda_lock(tmp_path, f"{CHANNEL}linux-64/{name}")
        with pytest.raises(SpecError):
            conda_packages(read_lock(folder))


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/forge/linux-64/greet-1.0-0.conda",
        f"{CHANNEL}$AWS_SECRET/linux-64/greet-1.0-0.conda",
        "https://evil.example/$HOME/linux-64/greet-1.0-0.conda",
    ],
)
def test_attack_a_conda_address_outside_of_the_spec_s_channels(
    tmp_path: Path, url: str
) -> None:
    project = Project(conda_lock(tmp_path, url).parents[1])
    with pytest.raises(SpecError) as caught:
        require_fresh_lock(project, load_target(project.specs, "tiny"))
    refusals = ("takes packages from where", "name variables that")
    assert any(text in f"{caught.value.what} {caught.value.cause}" for text in refusals)


@pytest.mark.parametrize("index", ["unknown", "vendor"])
def test_attack_an_index_that_the_spec_does_not_name(
    tmp_path: Path, index: str
) -> None:
    project = make_project(
        tmp_path, Index(tmp_path, "http://localhost:1"), platform="linux-64"
    )
    lock(project, [make_wheel(tmp_path / index, "alpha", "1.0", {})])
    with pytest.raises(SpecError, match="from where the spec does not"):
        require_fresh_lock(project, load_target(project.specs, "tiny"))


def test_attack_nothing_is_written_outside_of_the_folder(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    for name in ("../victim", str(victim), "a/b", "..", "", "C:x", "a\\b"):
        item = WantedFile(name, "0" * 64, None, None, None)
        with pytest.raises(ProvisionError, match="not the name of a file"):
            fetch_all([item], tmp_path / "out", [], Silent(), offline=True)
    assert victim.read_text() == "kept"


def test_attack_a_sealed_lock_with_another_conda_layer(tmp_path: Path) -> None:
    folder = conda_lock(tmp_path, GOOD)
    path = folder / CONDA_LAYER
    path.write_text(path.read_text().replace("a" * 64, "b" * 64))
    with pytest.raises(SpecError, match="not the one that was locked with it"):
        read_lock(folder)
    digest = sha256_bytes(path.read_bytes())
    text = (folder / PIP_LAYER).read_text()
    resealed = sealed(re.sub("# conda: .*", f"# conda: {digest}", text))
    assert parse_lock(folder, resealed, path.read_text()).conda
