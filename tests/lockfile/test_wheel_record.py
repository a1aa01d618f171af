"""A RECORD in the form that a wheel and its installations on all platforms share."""

from __future__ import annotations

import pytest

from provision.lockfile.wheel_record import (
    RecordEntry,
    common_path,
    encoded,
    parse_record,
    record_digest,
)

LINUX, WINDOWS = "lib/python3.11/site-packages", "Lib/site-packages"


@pytest.mark.parametrize(
    ("path", "site", "common"),
    [
        ("a/b.py", "", "a/b.py"),
        ("a-1.data/purelib/b.py", "", "b.py"),
        ("a-1.data/platlib/b.so", "", "b.so"),
        ("a-1.data/data/lib/python3.12/site-packages/b.py", "", "b.py"),
        ("a-1.data/data/share/b", "", "../share/b"),
        ("a-1.data/scripts/b", "", "../bin/b"),
        ("../../../bin/b", LINUX, "../bin/b"),
        ("../../Scripts/b.exe", WINDOWS, "../bin/b.exe"),
        ("../../share/b", WINDOWS, "../share/b"),
        ("a-1.data/headers/b.h", "", "../include/b.h"),
        ("../../../include/site/python3.11/a/b.h", LINUX, "../include/b.h"),
        ("../../Include/a/b.h", WINDOWS, "../include/b.h"),
    ],
)
def test_a_path_of_a_wheel_is_that_of_each_installation(
    path: str, site: str, common: str
) -> None:
    assert common_path(path, site) == common


def test_hashes_and_sizes_are_read_where_they_are_some() -> None:
    digest = bytes(range(32))
    lines = f"a,{encoded(digest)},3\nb,md5=AAAA,x\nc,sha256=A,{'1' * 16}\n\nd\n"
    read = [(entry.sha256, entry.size) for entry in parse_record(lines)]
    assert read == [(digest.hex(), 3), (None, None), (None, None), (None, None)]


def test_what_installers_add_does_not_change_the_digest() -> None:
    lines = [("a.py", "sha256=A"), ("a-1.dist-info/METADATA", "sha256=B")]
    added = [("a-1.dist-info/INSTALLER", "sha256=C"), ("__pycache__/a.pyc", "")]
    assert record_digest([*added, *reversed(lines)]) == record_digest(lines)
    for more in (
        ("a-1.dist-info/LICENSE", "sha256=C"),
        ("a/INSTALLER", "sha256=C"),
        ("a/b.dist-info/INSTALLER", "sha256=C"),
        ("a.pyc", "sha256=C"),
        ("b.py", ""),
    ):
        assert record_digest([*lines, more]) != record_digest(lines)


def test_a_name_in_a_record_may_hold_any_sign() -> None:
    text = '"a\rb\n,c",,\r\nd,,\n'
    assert parse_record(text) == [RecordEntry(n, "", "") for n in ("a\rb\n,c", "d")]
