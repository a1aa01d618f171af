"""A layer as the archive of an image has it: equal files, equal bytes."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

from provision.image.layer import write_sorted

if TYPE_CHECKING:
    from collections.abc import Iterable

CAPABILITY = "SCHILY.xattr.security.capability"


def entry(
    name: str, kind: bytes = tarfile.REGTYPE, **fields: object
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.mode, made.mtime = kind, 0o644, 1_793_491_200
    for field, value in fields.items():
        setattr(made, field, value)
    return made


FILES = [
    entry("opt", tarfile.DIRTYPE, mode=0o755),
    entry("opt/.wh.gone"),
    entry("opt/a", tarfile.DIRTYPE, mode=0o755),
    entry("opt/a-1", tarfile.DIRTYPE, mode=0o1777),
    entry("opt/a-1/x", mode=0o4755, uid=10001, gid=7),
    entry("opt/a/link", tarfile.SYMTYPE, linkname="../a-1/x"),
    entry("opt/a/null", tarfile.CHRTYPE, devmajor=1, devminor=3),
    entry("opt/a/x", pax_headers={CAPABILITY: "\x01\udcff\x02"}),
    entry("opt/a/" + "long" * 60, mtime=7),
    entry("opt/ünïcode"),
]


def layer(
    entries: Iterable[tarfile.TarInfo],
    form: int = tarfile.PAX_FORMAT,
    content: bytes = b"",
) -> io.BytesIO:
    """Return a layer in which each file has the same content, or its name as content."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for one in entries:
            data = content or one.name.encode() if one.isreg() else b""
            one.size = len(data)
            archive.addfile(one, io.BytesIO(data))
    stream.seek(0)
    return stream


def by_folder(one: tarfile.TarInfo) -> list[str]:
    return one.name.split("/")


def by_path(one: tarfile.TarInfo) -> str:
    return one.name


def written(source: io.BytesIO) -> io.BytesIO:
    target = io.BytesIO()
    write_sorted(source, target)
    return target


def contents(stream: io.BytesIO) -> dict[str, tuple[object, ...]]:
    """Return what a container sees of each entry."""
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        return {
            one.name: (
                one.type,
                one.mode,
                one.mtime,
                (one.uid, one.gid),
                (one.devmajor, one.devminor),
                one.linkname,
                one.pax_headers.get(CAPABILITY),
                archive.extractfile(one).read() if one.isreg() else b"",  # type: ignore[union-attr]
            )
            for one in archive
        }


def test_both_orders_of_the_engine_give_the_same_bytes_and_lose_nothing() -> None:
    ordered = sorted(FILES, key=by_folder)
    by_folders, by_paths = layer(ordered), layer(sorted(FILES, key=by_path))
    assert by_folders.getvalue() != by_paths.getvalue()
    first, second = written(by_folders), written(by_paths)
    assert first.getvalue() == second.getvalue()
    found = contents(first)
    assert found == contents(by_folders)
    assert list(found) == [one.name for one in ordered]


def test_only_what_a_container_sees_decides_about_the_bytes() -> None:
    plain = [entry("a"), entry("b", tarfile.DIRTYPE)]
    times = {"atime": "1.5", "ctime": "2.5", "mtime": "1793491200.25"}
    noisy = [
        entry("a", mode=0o100644, uname="root", gname="root", pax_headers=times),
        entry("b/", tarfile.DIRTYPE, mode=0o40644, uname="root"),
    ]
    expected = written(layer(plain)).getvalue()
    assert written(layer(noisy)).getvalue() == expected
    assert written(layer(plain, tarfile.GNU_FORMAT)).getvalue() == expected


def test_the_content_of_hard_links_is_under_the_first_name_whichever_name_had_it() -> (
    None
):
    names = {"a-1/x", "a/x", "b"}
    made = set()
    for owner in names:
        entries = [entry(owner)]
        for name in sorted(names - {owner}):
            entries.append(entry(name, tarfile.LNKTYPE, linkname=owner))
        made.add(written(layer(entries, content=b"x")).getvalue())
    (data,) = made
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        first, *others = archive.getmembers()
        assert first.name == "a/x"
        assert archive.extractfile(first).read() == b"x"  # type: ignore[union-attr]
    assert [one.name for one in others] == ["a-1/x", "b"]
    for one in others:
        assert one.linkname == "a/x"


def test_a_hard_link_to_a_link_is_what_that_is() -> None:
    link = entry("a", tarfile.SYMTYPE, linkname="/usr/bin/x")
    again = entry("b", tarfile.LNKTYPE, linkname="a")
    kept = contents(written(layer([link, again])))
    assert list(kept) == ["a", "b"]
    for kind, *_, target, _, _ in kept.values():
        assert kind == tarfile.SYMTYPE
        assert target == "/usr/bin/x"


def test_a_hard_link_to_a_hard_link_is_one_to_the_file() -> None:
    twice = [
        entry("c"),
        entry("d", tarfile.LNKTYPE, linkname="c"),
        entry("e", tarfile.LNKTYPE, linkname="d"),
    ]
    stream = written(layer(twice, content=b"x"))
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        assert [one.linkname for one in archive] == ["", "c", "c"]


def test_a_layer_without_a_file_stays_one() -> None:
    assert contents(written(io.BytesIO(b"\0" * 1024))) == {}
