"""The collection on real hosts: provision, prove, report; what fails is a finding."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet

pytestmark = pytest.mark.fleet


def test_first(fleet: Fleet) -> None:
    import time
    t = time.time()
    played = fleet.play("site")
    print(time.time() - t)
    (fleet.lab.folder / "first.json").write_text(json.dumps(played.document, indent=1))
    print(played.code, played.document["stats"], fleet.lab.folder, played.stderr)
    t = time.time()
    played = fleet.play("site")
    print(time.time() - t)
    (fleet.lab.folder / "second.json").write_text(json.dumps(played.document, indent=1))
    print(played.code, played.document["stats"], fleet.lab.folder)
    raise AssertionError
