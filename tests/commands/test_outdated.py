"""`outdated` on a miniature project, with an index that says when each file was uploaded."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.cli import main
from provision.commands.outdated import Outdated, Vulnerability
from provision.core.errors import Exit
from tests.commands.answering import Answering, served
from tests.small import TARGET, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab import Lab

OLD, LATE = "2026-10-01T00:00:00Z", "2026-11-05T00:00:00Z"  # the cut-off is 2026-11-01
SPEC = """
summary = "A target in miniature"
accelerator = "cuda"
platform = "linux-64"
python = "3.11"
[hardware]
driver = ">=525.60.13"
[pip]
cutoff = 2026-11-01
requirements = [
    "alpha==1.0", # what the program was written for
    "beta==1.0",
    "gamma>=1",
    "delta; sys_platform == 'win32'",
]
"""


class Shop:
    """A default index (PEP 691 with upload times) and a vulnerability service (OSV)."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, ""
        self.files: dict[str, tuple[Path, str, dict[str, object]]] = {}
        self.known: dict[str, list[dict[str, object]]] = {}

    def offer(
        self,
        name: str,
        version: str,
        day: str = OLD,
        requires: tuple[str, ...] = (),
        **more: object,
    ) -> None:
        wheel = make_wheel(self.folder, name, version, {f"{name}.py": ""}, requires)
        self.files[wheel.name] = wheel, day, more

    def page(self, name: str) -> list[dict[str, object]]:
        files = []
        beginning = name.replace("-", "_") + "-"
        for wheel, day, more in self.files.values():
            if wheel.name.startswith(beginning):
                content = wheel.read_bytes()
                digest = hashlib.sha256(content).hexdigest()
                entry = {
                    "filename": wheel.name,
                    "url": f"{self.url}/files/{wheel.name}",
                    "hashes": {"sha256": digest},
                    "size": len(content),
                    "upload-time": day,
                }
                files.append(entry | more)
        return files


class Handler(Answering):
    shop: Shop

    def do_GET(self) -> None:  # noqa: N802 - the name is the library's
        *_, place, leaf = self.path.strip("/").split("/")
        if place == "files" and leaf in self.shop.files:
            wheel, _, _ = self.shop.files[leaf]
            return self.answer(200, wheel.read_bytes())
        if place == "simple":
            return self.page(leaf, self.shop.page(leaf))
        return self.page(leaf, [])

    def do_POST(self) -> None:  # noqa: N802 - the name is the library's
        length = int(self.headers["Content-Length"])
        asked = json.loads(self.rfile.read(length))
        name = asked["package"]["name"]
        found = {"vulns": self.shop.known.get(name, [])}
        self.answer(200, json.dumps(found).encode())


@pytest.fixture
def shop(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path / "shop")
    for name in ("alpha", "beta", "gamma"):
        made.offer(name, "1.0")
    (lab.project.specs / f"{TARGET}.toml").write_text(SPEC)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "none"))
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    with served(Handler, made) as made.url:
        monkeypatch.setenv("PIP_INDEX_URL", f"{made.url}/simple/")
        monkeypatch.setenv("PIP_AUDIT_VULNERABILITY_SERVICE", "osv")
        monkeypatch.setenv("PIP_AUDIT_OSV_URL", f"{made.url}/v1/query")
        assert call(lab, "lock", TARGET) == Exit.OK
        yield made


def call(lab: Lab, *words: str) -> int:
    return main.main([*words, "--project", str(lab.project.root)])


@pytest.fixture
def without_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pip-audit be absent, which the extra leaves to the user."""
    monkeypatch.setitem(sys.modules, "pip_audit", None)


def state(lab: Lab) -> dict[str, bytes]:
    files = {}
    for folder in (lab.project.specs, lab.project.lock(TARGET)):
        for path in folder.rglob("*"):
            if path.is_file():
                files[str(path)] = path.read_bytes()
    return files


def compare(
    lab: Lab, capsys: pytest.CaptureFixture[str], *words: str, code: int = Exit.FINDINGS
) -> dict[str, Any]:
    """Run the verb, which writes nothing; return its one document."""
    before = state(lab)
    capsys.readouterr()
    found = call(lab, "outdated", TARGET, *words, "--json")
    document = json.loads(capsys.readouterr().out)
    result: dict[str, Any]
    (result,) = document["result"]
    assert found == code, result
    assert state(lab) == before
    return result


pytestmark = pytest.mark.machine


def test_an_index_that_does_not_answer_is_no_green(
    lab: Lab,
    shop: Shop,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    error = compare(lab, capsys, code=Exit.TOOL)["error"]
    assert "what is newer" in error["what"]
    assert error["cause"] == "`uv pip compile` ended with exit code 2"
    assert error["remedy"].startswith("check the network")


RANGE = {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.5"}]}


def vulnerability(number: int) -> dict[str, object]:
    affected = {
        "package": {"name": "alpha", "ecosystem": "PyPI"},
        "versions": ["1.0"],
        "ranges": [RANGE],
    }
    return {
        "id": f"PYSEC-2026-{number}",
        "aliases": [f"CVE-2026-{number}"],
        "details": "d",
        "published": OLD,
        "modified": OLD,
        "affected": [affected],
    }


def test_an_audit_that_reaches_no_service_is_not_green(
    lab: Lab,
    shop: Shop,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PIP_AUDIT_OSV_URL", "http://127.0.0.1:9/")
    result = compare(lab, capsys, "--audit", code=Exit.TOOL)
    assert result["not_looked_up"].startswith("pip-audit ended with 1")


def test_an_audit_without_pip_audit_is_not_green(
    lab: Lab, shop: Shop, without_audit: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(lab, "outdated", TARGET, "--audit") == Exit.TOOL
    shown = "".join(capsys.readouterr())
    assert "known vulnerabilities of 1 target: not looked up (pip-audit" in shown
    assert "newer" not in shown
    call(lab, "outdated", TARGET)
    shown = "".join(capsys.readouterr())
    assert f"nothing is newer for {TARGET}\n" in shown
    assert shown.count("pip-audit is not installed") == 1
    assert shown.count(f"pip install --python {sys.executable} pip-audit`") == 1


def test_what_the_target_can_install_is_newer_also_after_the_cut_off(
    lab: Lab, shop: Shop, without_audit: None, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.offer("alpha", "2.0", yanked="it breaks")
    shop.offer("alpha", "3.0rc1")
    shop.offer("gamma", "2.0", **{"requires-python": ">=3.99"})
    result = compare(lab, capsys, code=Exit.OK)
    assert result["newer"] == []
    assert result["packages"] == 3
    shop.offer("gamma", "1.5", LATE)
    shop.offer("alpha", "2.5", requires=("nowhere",))
    alpha, gamma = compare(lab, capsys, code=Exit.OK)["newer"]
    assert alpha["locked"] == "1.0"
    assert alpha["newest"] == "2.5"
    assert alpha["requirement"] == "alpha==1.0"
    assert gamma["newest"] == "1.5"
    assert gamma["uploaded"] == "2026-11-05"
    call(lab, "outdated", TARGET)
    head, first, second, *_ = capsys.readouterr().out.splitlines()
    columns = "package locked newest uploaded required as targets"
    assert head.split() == columns.split()
    assert first.split()[:3] == ["alpha", "1.0", "2.5"]
    row = f"gamma 1.0 1.5 2026-11-05 gamma>=1 {TARGET}"
    assert second.split() == row.split()


def test_a_vulnerability_is_open_accepted_or_expired(
    lab: Lab, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = {"open": 1, "accepted": 2, "expired": 3}
    shop.known["alpha"] = [vulnerability(number) for number in numbers.values()]
    spec = lab.project.specs / f"{TARGET}.toml"
    text = spec.read_text()
    ends = {2: "2999-01-01", 3: "2026-01-01"}
    for number, until in ends.items():
        text += "\n[[pip.accepted]]\n"
        text += f'id = "CVE-2026-{number}"\n'
        text += 'reason = "not reached"\n'
        text += f"until = {until}\n"
    spec.write_text(text)
    assert call(lab, "lock", TARGET, "--check") == 0
    result = compare(lab, capsys, "--audit")
    entries = {entry["state"]: entry for entry in result["vulnerabilities"]}
    assert entries.keys() == numbers.keys()
    for state, number in numbers.items():
        entry = entries[state]
        assert entry["package"] == "alpha"
        assert entry["version"] == "1.0"
        names = [entry["id"], *entry["aliases"]]
        assert f"CVE-2026-{number}" in names
        assert entry["fixed"] == ["1.5"]
    assert result["not_looked_up"] == ""
    assert result["newer"] is None
    judged = Vulnerability("alpha", "1.0", "CVE-2026-2", (), (), "accepted", "")
    assert not Outdated(TARGET, vulnerabilities=(judged,)).bad
