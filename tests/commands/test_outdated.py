"""`outdated` on a miniature project, with an index that says when each file was uploaded."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from provision.cli import main
from provision.commands.outdated import moved
from provision.core.errors import Exit
from provision.core.project import shipped
from tests.commands.test_update_pages import Answering
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

    def page(self, name: str) -> dict[str, object] | None:
        files = [
            {
                "filename": wheel.name,
                "url": f"{self.url}/files/{wheel.name}",
                "hashes": {"sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()},
                "size": wheel.stat().st_size,
                "upload-time": day,
                **{key.replace("_", "-"): value for key, value in more.items()},
            }
            for wheel, day, more in self.files.values()
            if wheel.name.startswith(f"{name.replace('-', '_')}-")
        ]
        return (
            {"meta": {"api-version": "1.1"}, "name": name, "files": files}
            if files
            else None
        )


class Handler(Answering):
    shop: Shop

    def do_GET(self) -> None:  # noqa: N802 - the name is the library's
        *_, place, leaf = self.path.strip("/").split("/")
        if place == "files" and leaf in self.shop.files:
            return self.answer(200, self.shop.files[leaf][0].read_bytes())
        page = self.shop.page(leaf) if place == "simple" else None
        body = json.dumps(page).encode() if page else b""
        return self.answer(
            200 if page else 404, body, "application/vnd.pypi.simple.v1+json"
        )

    def do_POST(self) -> None:  # noqa: N802
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(
            200,
            json.dumps(
                {"vulns": self.shop.known.get(asked["package"]["name"], [])}
            ).encode(),
        )


@pytest.fixture
def shop(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path / "shop")
    for name in ("alpha", "beta", "gamma"):
        made.offer(name, "1.0")
    (lab.project.specs / f"{TARGET}.toml").write_text(SPEC)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "none"))
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    handler = type("ShopHandler", (Handler,), {"shop": made})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        made.url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("PIP_INDEX_URL", f"{made.url}/simple/")
        monkeypatch.setenv("PIP_AUDIT_VULNERABILITY_SERVICE", "osv")
        monkeypatch.setenv("PIP_AUDIT_OSV_URL", f"{made.url}/v1/query")
        assert (
            main.main(["lock", TARGET, "--project", str(lab.project.root)]) == Exit.OK
        )
        yield made
        server.shutdown()


def state(lab: Lab) -> dict[str, bytes]:
    files = [*lab.project.specs.rglob("*"), *lab.project.lock(TARGET).rglob("*")]
    return {str(path): path.read_bytes() for path in files if path.is_file()}


def compare(
    lab: Lab, capsys: pytest.CaptureFixture[str], *words: str, code: int = Exit.FINDINGS
) -> dict[str, Any]:
    """Run the verb, which writes nothing; return its one document."""
    before = state(lab)
    capsys.readouterr()
    argv = ["outdated", TARGET, *words, "--json", "--project", str(lab.project.root)]
    found = main.main(argv)
    result: dict[str, Any]
    (result,) = json.loads(capsys.readouterr().out)["result"]
    assert found == code, result
    assert state(lab) == before
    return result


def apply(lab: Lab, newer: dict[str, Any]) -> None:
    """Run the commands of an edit, and find that they give what was promised."""
    for command in newer["commands"]:
        words = [word.strip("'") for word in command.split(" ")[1:]]
        assert main.main([*words, "--project", str(lab.project.root)]) == Exit.OK
    text = (lab.project.lock(TARGET) / "requirements.txt").read_text()
    assert f"{newer['name']}=={newer['locks']}" in text
    spec = (lab.project.specs / f"{TARGET}.toml").read_text()
    assert all(f'"{line}"' in spec for line in newer["edit"])


pytestmark = pytest.mark.machine


def test_nothing_newer_ends_with_0(
    lab: Lab, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.offer("alpha", "2.0", yanked="it breaks")
    shop.offer("alpha", "3.0rc1")
    shop.offer("gamma", "2.0", requires_python=">=3.99")
    result = compare(lab, capsys, code=Exit.OK)
    assert (result["newer"], result["packages"], result["later"]) == ([], 3, 0)


def test_a_pin_is_named_with_its_place_and_comment_and_the_edit_locks(
    lab: Lab, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.offer("alpha", "2.0")
    (newer,) = compare(lab, capsys)["newer"]
    assert (newer["locked"], newer["newest"], newer["locks"]) == ("1.0", "2.0", "2.0")
    assert newer["held_by"] == [
        f"alpha==1.0 in envs/{TARGET}.toml:11: what the program was written for"
    ]
    assert newer["edit"] == ["alpha==2.0"]
    assert [change["name"] for change in newer["changes"]] == ["alpha"]
    apply(lab, newer)
    assert compare(lab, capsys, code=Exit.OK)["newer"] == []


def test_what_was_uploaded_after_the_cut_off_needs_that_moved_only(
    lab: Lab, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.offer("gamma", "2.0", LATE)
    result = compare(lab, capsys)
    (newer,) = result["newer"]
    assert newer["held_by"] == [
        "the cut-off 2026-11-01, as it was uploaded on 2026-11-05"
    ]
    assert (newer["edit"], result["later"]) == ([], 1)
    apply(lab, newer)


def test_a_new_dependency_of_the_same_day_moves_every_cut_off(
    lab: Lab, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.offer("alpha", "2.0", LATE, ("epsilon",))
    shop.offer("epsilon", "1.0", LATE)
    (newer,) = compare(lab, capsys)["newer"]
    assert newer["commands"][0].endswith("--upgrade")
    assert {change["name"] for change in newer["changes"]} == {"alpha", "epsilon"}
    apply(lab, newer)


def test_a_companion_moves_along(
    lab: Lab, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.offer("alpha", "2.0")
    shop.offer("beta", "2.0", requires=("alpha==2.0",))
    shop.offer("alpha", "1.0")
    alpha, beta = compare(lab, capsys)["newer"]
    assert alpha["edit"] == ["alpha==2.0"]  # beta 1.0 asks for no alpha, so it can stay
    assert beta["edit"] == ["alpha==2.0", "beta==2.0"]
    assert "alpha==1.0, which moves along" in beta["held_by"]
    apply(lab, beta)


def test_where_the_newest_does_not_lock_the_newest_that_does_is_found(
    lab: Lab, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.offer("alpha", "3.0", requires=("nowhere",))
    shop.offer("alpha", "2.0")
    (newer,) = compare(lab, capsys)["newer"]
    assert (newer["newest"], newer["locks"], newer["edit"]) == (
        "3.0",
        "2.0",
        ["alpha==2.0"],
    )
    assert any("nowhere" in held for held in newer["held_by"])
    apply(lab, newer)


def test_what_does_not_lock_is_no_reason_to_end_with_1(
    lab: Lab, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.offer("alpha", "3.0", requires=("nowhere",))
    (newer,) = compare(lab, capsys, code=Exit.OK)["newer"]
    assert (newer["locks"], newer["edit"], newer["commands"]) == (None, [], [])


def test_another_cuda_needs_the_driver_floor_raised_first(
    lab: Lab, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.offer("nvidia_cuda_runtime_cu12", "12.8")
    shop.offer("alpha", "1.0", requires=("nvidia-cuda-runtime-cu12",))
    assert main.main(["lock", TARGET, "--project", str(lab.project.root)]) == Exit.OK
    shop.offer("nvidia_cuda_runtime", "13.2")
    shop.offer("alpha", "2.0", requires=("nvidia-cuda-runtime",))
    (newer,) = compare(lab, capsys, code=Exit.OK)["newer"]
    assert (newer["locks"], newer["driver"]) == ("2.0", ">=580.65.06")
    assert "driver >=525.60.13 of the spec" in newer["held_by"]


def test_a_legacy_target_is_listed_and_not_tried(
    lab: Lab, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = lab.project.specs / f"{TARGET}.toml"
    spec.write_text('status = "legacy"\nreason = "it was archived"' + spec.read_text())
    shop.offer("alpha", "2.0")
    (newer,) = compare(lab, capsys, code=Exit.OK)["newer"]
    assert newer["held_by"][-1] == "a legacy target, not tried"


def test_the_age_of_a_conda_layer_s_catalog_is_told(
    lab: Lab, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    with (lab.project.specs / f"{TARGET}.toml").open("a") as spec:
        spec.write('[conda]\nchannels = ["conda-forge"]\ndependencies = ["python"]\n')
    catalog = lab.project.catalog / "conda-forge.json"
    document = json.loads((shipped().catalog / "conda-forge.json").read_text())
    document["packages"] = document["packages"][:2]
    for record, second in zip(
        document["packages"], (1_700_000_000, 1_710_000_000), strict=True
    ):
        record["timestamp"] = 1000 * second
    catalog.write_text(json.dumps(document))
    assert compare(lab, capsys, code=Exit.OK)["channels"] == {
        "conda-forge": "2024-03-09"
    }
    main.main(["outdated", TARGET, "--project", str(lab.project.root)])
    shown = capsys.readouterr().out
    assert "the newest record of conda-forge in the catalog is of 2024-03-09" in shown
    assert "update conda-forge" in shown


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
VULNERABLE: dict[str, object] = {
    "id": "PYSEC-2026-1",
    "aliases": ["CVE-2026-1"],
    "details": "d",
    "published": OLD,
    "modified": OLD,
    "affected": [
        {
            "package": {"name": "alpha", "ecosystem": "PyPI"},
            "versions": ["1.0"],
            "ranges": [RANGE],
        }
    ],
}


@pytest.mark.parametrize(
    ("until", "status"),
    [(None, "open"), ("2999-01-01", "accepted"), ("2026-01-01", "expired")],
)
def test_a_vulnerability_is_open_accepted_or_expired(
    lab: Lab,
    shop: Shop,
    capsys: pytest.CaptureFixture[str],
    until: str | None,
    status: str,
) -> None:
    shop.known["alpha"] = [VULNERABLE]
    if until:
        spec = lab.project.specs / f"{TARGET}.toml"
        table = f'[[pip.accepted]]\nid = "CVE-2026-1"\nreason = "not reached"\nuntil = {until}\n'
        spec.write_text(f"{spec.read_text()}\n{table}")
        assert (
            main.main(["lock", TARGET, "--check", "--project", str(lab.project.root)])
            == 0
        )
    code = Exit.OK if status == "accepted" else Exit.FINDINGS
    result = compare(lab, capsys, "--audit", code=code)
    (found,) = result["vulnerabilities"]
    assert (found["package"], found["version"], found["state"]) == (
        "alpha",
        "1.0",
        status,
    )
    assert "CVE-2026-1" in (found["id"], *found["aliases"])
    assert found["fixed"] == ["1.5"]
    assert result["not_looked_up"] == ""
    assert result["newer"] is None


def test_an_audit_that_reaches_no_service_is_not_green(
    lab: Lab,
    shop: Shop,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PIP_AUDIT_OSV_URL", "http://127.0.0.1:9/")
    result = compare(lab, capsys, "--audit", code=Exit.TOOL)
    assert result["not_looked_up"]
    assert (
        main.main(["outdated", TARGET, "--audit", "--project", str(lab.project.root)])
        == 3
    )
    assert f"{TARGET}: not compared" in "".join(capsys.readouterr())
    main.main(["outdated", TARGET, "--project", str(lab.project.root)])
    assert "known vulnerabilities: not looked up" in "".join(capsys.readouterr())


BASH = shutil.which("bash") or "bash"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "up-to-date.md"


def test_the_scheduled_job_makes_the_edits_and_says_what_changes(
    lab: Lab, shop: Shop
) -> None:
    """The steps of the page, as a runner would start them."""
    if not shutil.which("jq"):
        pytest.skip("jq is not installed")
    shop.offer("alpha", "2.0")
    shop.offer("beta", "2.0", requires=("alpha==2.0",))
    shop.offer("gamma", "2.0", LATE)
    block = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block
    steps = yaml.safe_load(block[1])["jobs"]["cpu-linux"]["steps"]
    script = {step["name"]: step["run"] for step in steps if "name" in step}
    env = os.environ | {
        "TARGET": TARGET,
        "GITHUB_OUTPUT": str(lab.project.root / "out"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for name in ("look", "edit"):
        done = subprocess.run(
            [BASH, "-e", "-c", script[name]],
            cwd=lab.project.root,
            env=env,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    assert (lab.project.root / "out").read_text() == "code=1\n"
    locked = (lab.project.lock(TARGET) / "requirements.txt").read_text()
    assert re.findall(r"^(\w+==\S+)", locked, re.MULTILINE) == [
        "alpha==2.0",
        "beta==2.0",
        "gamma==2.0",
    ]
    assert (
        "| alpha | 1.0 | 2.0 |\n| beta | 1.0 | 2.0 |"
        in (lab.project.root / "body.md").read_text()
    )


def test_the_pattern_for_renovate_finds_the_pins_of_the_default_index() -> None:
    block = re.search(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block
    (pattern,) = json.loads(block[1])["customManagers"][0]["matchStrings"]
    text = (PAGE.parents[2] / "envs" / "cuda-linux.toml").read_text()
    found = re.findall(
        pattern.replace("(?<", "(?P<"), f'{text}\n"torch==2.13.0+cpu"\n"a==5.*"'
    )
    assert [name for name, _ in found] == ["torch", "torchvision"]


@pytest.mark.parametrize(
    ("text", "version", "expected"),
    [
        ("torch==2.13.0+cpu", "2.14.0+cpu", "torch==2.14.0+cpu"),
        ("torch==2.13.0", "2.14.0+cpu", "torch==2.14.0"),
        ("transformers==5.*", "6.1.0", "transformers==6.*"),
        ("numpy<2", "2.4.6", "numpy"),
        (
            "numpy>=1.20,<2; python_version < '4'",
            "2.4.6",
            'numpy>=1.20; python_version < "4"',
        ),
        ("a[x]~=1.4", "2", "a[x]~=2.0"),
        ("a!=2.0", "2.0", "a"),
        ("a>=1", "2.0", "a>=1"),
    ],
)
def test_a_requirement_moves_in_the_form_that_it_has(
    text: str, version: str, expected: str
) -> None:
    assert moved(text, version) == expected
