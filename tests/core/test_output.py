"""Files that a user names for a result: what Provision did not write stays as it is."""

from __future__ import annotations

import io
import json
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from provision.core.errors import Exit, UsageError
from provision.core.output import begins_with, require_replaceable, write_output
from provision.image.oci import is_layout
from provision.lockfile.formats import SIGNATURES
from provision.report import evidence, junit
from provision.ui import html_report
from tests.lab import typed
from tests.report.test_evidence import make_key, report

if TYPE_CHECKING:
    from pathlib import Path

MARKS = [*SIGNATURES.values(), evidence.MARK, junit.MARK, html_report.MARK]
OTHERS = {
    "a private key": b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\n",
    "text with a mark in a line": b"see %s here\n",
    "a comment that tells how": b"# pip install --require-hashes --only-binary :all: -r a.txt\n",
    "text with a mark far below": b"#\n" * 4000 + b"%s\n",
    "bytes": bytes(range(256)),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("mark", MARKS)
def test_attack_a_result_is_named_as_another_file(
    tmp_path: Path, name: str, mark: str
) -> None:
    """`-o` names a key, a document or any other file: it is not overwritten."""
    file = tmp_path / "out"
    content = OTHERS[name].replace(b"%s", mark.encode())
    file.write_bytes(content)
    with pytest.raises(UsageError, match="was not made by this command"):
        write_output(file, mark, mark)
    assert file.read_bytes() == content


def test_attack_a_result_is_named_as_no_file(tmp_path: Path) -> None:
    """`-o` names a pipe, a folder or a link to nothing: none is replaced, and nobody waits."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("gone")
    for name in ("pipe", "folder"):
        with pytest.raises(UsageError, match="is no regular file"):
            write_output(tmp_path / name, "x", "x")
    with pytest.raises(UsageError, match="was not made by this command"):
        write_output(tmp_path / "link", "x", "x")
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("mark", MARKS)
def test_an_earlier_result_is_replaced_and_a_link_to_it_stays(
    tmp_path: Path, mark: str
) -> None:
    (tmp_path / "out").touch()  # as mktemp makes one
    write_output(tmp_path / "out", f"first\n{mark}", mark)
    (tmp_path / "link").symlink_to("out")
    write_output(tmp_path / "link", f"second\n{mark}", mark)
    assert (tmp_path / "out").read_text("utf-8") == f"second\n{mark}"
    assert (tmp_path / "link").is_symlink()


def test_results_have_the_marks_by_which_they_are_known(tmp_path: Path) -> None:
    key = make_key(tmp_path, "somebody")
    results = {
        evidence.MARK: evidence.sign(evidence.statement(report()), key, str),
        junit.MARK: junit.junit_xml(report()),
        html_report.MARK: html_report.render_page([report()]),
    }
    for mark, text in results.items():
        (tmp_path / "out").write_text(text, encoding="utf-8")
        require_replaceable(tmp_path / "out", begins_with(mark))


def layout_of(name: str) -> bytes:
    """Return a tar file as `docker --oci` writes it, of an image with a name."""
    entries = [{"annotations": {"io.containerd.image.name": name}}]
    return archive_of(json.dumps({"manifests": entries}))


def archive_of(text: str) -> bytes:
    """Return a tar file with a text as its index."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        entry = tarfile.TarInfo("index.json")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text.encode()))
    return content.getvalue()


def test_attack_a_layout_is_named_as_another_archive(tmp_path: Path) -> None:
    """`docker --oci` names another file, or the image of somebody else: it is not overwritten."""
    file = tmp_path / "image.tar"
    other, deep = layout_of("example.org/other:1"), archive_of("[" * 200_000)
    for content in (b"text", other, b"\x1f\x8b" * 999, deep, archive_of("")):
        file.write_bytes(content)
        with pytest.raises(UsageError, match="was not made by this command"):
            require_replaceable(file, is_layout)
    file.write_bytes(layout_of("provision/cpu-linux:0123"))
    require_replaceable(file, is_layout)
    require_replaceable(tmp_path / "absent.tar", is_layout)


def test_attack_a_page_of_a_fleet_is_named_as_another_file(tmp_path: Path) -> None:
    """`fleet report --html` names a document of the user: it is not overwritten."""
    (tmp_path / "verdicts").mkdir()
    page = tmp_path / "page.html"
    page.write_text("<!DOCTYPE html>mine", encoding="utf-8")
    words = ("fleet", "report", tmp_path / "verdicts", "--html", page)
    assert typed(*words).returncode == Exit.USAGE
    assert page.read_text("utf-8") == "<!DOCTYPE html>mine"
    page.unlink()
    typed(*words)
    first = page.read_text("utf-8")
    typed(*words)
    assert page.read_text("utf-8") == first
    require_replaceable(page, begins_with(html_report.MARK))


def test_pages_that_the_last_version_wrote_without_a_mark_are_replaced(
    tmp_path: Path,
) -> None:
    """Who writes a page each night, at one place, does so after an upgrade."""
    (tmp_path / "verdicts").mkdir()
    page = tmp_path / "page.html"
    words = ("fleet", "report", tmp_path / "verdicts", "--html", page)
    typed(*words)
    new = page.read_text("utf-8")
    assert html_report.MARK in new
    page.write_text(new.replace(f"{html_report.MARK}\n", ""), encoding="utf-8")
    typed(*words)
    assert page.read_text("utf-8") == new
    of_target = html_report.render_page([report()])
    page.write_text(of_target.replace(f"{html_report.MARK}\n", ""), encoding="utf-8")
    write_output(page, of_target, html_report.MARK, html_report.EARLIER)
    assert page.read_text("utf-8") == of_target
