"""A package of the user's own that stays editable is imported from where the user has it."""

from __future__ import annotations

import json
from importlib import metadata
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from smoke.checks import test_identity as identity

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("editable", "locked", "lockless", "foreign"),
    [
        (True, {}, False, ["other"]),
        (False, {}, False, ["ours/src", "other"]),
        (True, {"ours": "1"}, False, ["ours/src", "other"]),
        # Of somebody else's environment the expectation has all that is installed.
        (True, {"ours": "1"}, True, ["other"]),
    ],
)
def test_only_an_editable_package_that_no_lock_has_adds_a_folder(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    editable: bool,
    locked: dict[str, str],
    lockless: bool,
    foreign: list[str],
) -> None:
    info = tmp_path / "ours-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Ours\nVersion: 1\n")
    told = {"url": (tmp_path / "ours").as_uri(), "dir_info": {"editable": editable}}
    (info / "direct_url.json").write_text(json.dumps(told))
    folders = [tmp_path / "ours" / "src", tmp_path / "other"]
    distributions = [metadata.PathDistribution(info)]
    monkeypatch.setattr(identity.metadata, "distributions", lambda: distributions)
    monkeypatch.setattr(identity, "PATH_AT_START", list(map(str, folders)))
    expect: Any = SimpleNamespace(locks=locked.__contains__, foreign=lockless)
    found = identity._foreign_paths(expect)
    assert found == [str(tmp_path / name) for name in foreign]
