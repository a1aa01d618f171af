"""Where a requirement stands: in the spec, in one that it extends, in a file, shipped or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from provision.spec.places import Line, Places, read_places
from provision.spec.reader import load_spec

if TYPE_CHECKING:
    from pathlib import Path

BASE = """
[pip]
requirements = [
    # "numpy<2" was here once
    "numpy<2", "torch==2.1",
]
"""
SPEC = """
extends = "base/common"
summary = "a target"
accelerator = "cpu"
platform = "linux-64"
python = "3.11"
[pip]
cutoff = 2026-11-01
files = ["needs/all.txt"]
requirements = [
    "torch==2.2", # the base has 2.1
    'zed @ git+https://example.org/zed.git#egg=zed',
]
local = ["-e .", "-e größe"]
constraints = ["protobuf<5"]

[[pip.overrides]]
requirement = "pillow>=11"
reason = "one asks for an old one"
"""
ALL = "six\n-r more.txt\n-c limits.txt\n-e own\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {
        "envs/base/common.toml": BASE,
        "envs/thing.toml": SPEC,
        "needs/all.txt": ALL,
        "needs/more.txt": "# a comment\nFoo_Bar>=2 \\\n  --hash=sha256:aa\n",
        "needs/limits.txt": "\nurllib3<2\nprotobuf<5\n",
        "own/pyproject.toml": "[project]\nname = 'own'\n",
        "pyproject.toml": "[project]\nname = 'whole'\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def places(root: Path) -> Places:
    return read_places(load_spec(root / "envs" / "thing.toml"), root)


@pytest.mark.parametrize(
    ("text", "place", "source"),
    [
        ("torch==2.2", "envs/thing.toml, line 11", "spec"),
        (
            "zed @ git+https://example.org/zed.git#egg=zed",
            "envs/thing.toml, line 12",
            "spec",
        ),
        ("numpy<2", "envs/base/common.toml, line 5", "inherited"),
        ("six", "needs/all.txt, line 1", "file"),
        ("Foo_Bar>=2", "needs/more.txt, line 3", "file"),
        ("urllib3<2", "needs/limits.txt, line 2", "file"),
        ("protobuf<5", "envs/thing.toml, line 15", "spec"),
        ("pillow>=11", "envs/thing.toml, line 18", "spec"),
        ("-e .", "envs/thing.toml, line 14", "spec"),
        ("-e größe", "envs/thing.toml, line 14", "spec"),
        ("-e own", "needs/all.txt, line 4", "file"),
    ],
)
def test_each_line_has_its_file_and_number(
    places: Places, text: str, place: str, source: str
) -> None:
    (line,) = [line for line in places.lines if line.text == text]
    assert (line.place, line.source) == (place, source)
    assert places.of(text) == place


def test_what_was_made_of_a_line_is_found_by_its_name(places: Places) -> None:
    assert not Line("local", "own/", "", "spec").name
    assert places.of("zed==1.0") == "envs/thing.toml, line 12"
    assert places.of("foo-bar") == "needs/more.txt, line 3"
    assert places.of("nowhere") == "envs/thing.toml"
    assert places.of("-e file:///elsewhere") == "envs/thing.toml"


def test_what_is_replaced_is_not_among_the_lines(places: Places) -> None:
    assert [line.text for line in places.about("torch")] == ["torch==2.2"]


def test_a_shipped_file_is_called_shipped(root: Path) -> None:
    spec = root / "envs" / "other.toml"
    spec.write_text('extends = "cpu-linux"\n')
    found = read_places(load_spec(spec), root).about("transformers")
    (line,) = found
    assert line.place.startswith("the shipped envs/base/torch.toml, line ")


def test_what_serves_every_target_belongs_to_the_file_that_they_extend(
    places: Places, root: Path
) -> None:
    assert (places.spec, places.common) == ("envs/thing.toml", "envs/base/common.toml")
    alone = root / "envs" / "alone.toml"
    alone.write_text('extends = ["thing", "cpu-linux"]\n[pip]\nbuild = ["six"]\n')
    (root / "envs" / "thing.toml").write_text("[pip]\n")
    found = read_places(load_spec(alone), root)
    assert found.common == ""


@pytest.mark.parametrize(
    ("key", "entry", "table", "place"),
    [
        ("cutoff", "", "pip", "envs/thing.toml, line 8"),
        ("local", "-e .", "pip", "envs/thing.toml, line 14"),
        ("python", "", "", "envs/thing.toml, line 6"),
        ("exclude", "some-thing", "pip", "envs/base/keys.toml, line 3"),
        ("forbid", "some-thing", "pip", "envs/base/keys.toml, line 5"),
        ("cutoffs", "torch", "pip", "envs/base/keys.toml, line 6"),
        ("vendor", "torch", "pip.index", "envs/base/keys.toml, line 8"),
        ("vendor", "torchvision", "pip.index", ""),
        ("exclude", "torch", "pip", ""),
        ("build", "", "pip", ""),
    ],
)
def test_a_key_has_its_file_and_number(
    root: Path, key: str, entry: str, table: str, place: str
) -> None:
    base = """
[pip]
exclude = ["Some_Thing"]
forbid = [{ name = "else", reason = "of some-thing" },
  { name = "some-thing", reason = "r" }]
cutoffs = { numpy = 2026-01-01, torch = 2026-02-02 }
[pip.index]
vendor = ["torch"]
"""
    (root / "envs/base/keys.toml").write_text(base)
    spec = root / "envs/thing.toml"
    text = spec.read_text().replace('"base/common"', '["base/common", "base/keys"]')
    spec.write_text(text)
    places = read_places(load_spec(spec), root)
    assert places.key(key, entry, table) == place
