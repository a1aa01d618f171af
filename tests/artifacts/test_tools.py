"""The wheels of the toolkit's own tools."""

from __future__ import annotations

from pathlib import Path

from provision.artifacts.tools import Tool, choose_wheels
from provision.core.hashing import sha256_bytes
from provision.spec.reader import load_target

SPECS = Path(__file__).parents[2] / "envs"


def test_a_wheelhouse_s_file_is_found_under_every_spelling_of_its_name(
    tmp_path: Path,
) -> None:
    """Wheels of before PEP 625 keep dots and capitals in their file names."""
    names = ("jaraco.classes", "Two_Words", "plain")
    tools = []
    for name in names:
        content = name.encode()
        (tmp_path / f"{name}-1.0-py3-none-any.whl").write_bytes(content)
        locked = name.lower().replace(".", "-").replace("_", "-")
        tools.append(Tool(locked, "1.0", frozenset({sha256_bytes(content)})))
    target = load_target(SPECS, "cpu-linux")
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / "plain-1.0-py3-none-any.whl").write_bytes(b"another file")
    wanted, missing = choose_wheels(tools, [tmp_path, evil], None, target)
    assert missing == []
    assert [file.sha256 for file in wanted] == [min(tool.sha256s) for tool in tools]
    assert [file.filename.partition("-")[0] for file in wanted] == list(names)
