"""`bisect` on releases of a small package with a planted fault: real locks, builds and runs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from provision.commands import build as building
from provision.core.errors import Exit
from provision.core.filesystem import read_link
from provision.report.history import history
from tests.commands.answering import Answering, served
from tests.lab import kill, new_cache, typed, without_a_route
from tests.published import faults
from tests.small import TARGET, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.lab import Lab

pytestmark = pytest.mark.machine
SLOW = pytest.mark.slow
RELEASES = ["1.0", "2.0", "3.0", "4.0", "5.0"]
CHECK = "tiny.check"
# The contract of smoke/run.py: `tiny.check` fails where gamma is broken, and measures its speed; of
# "heat" it warns, and while a file `fault` is in the project it fails in any release.
SUITE = """
import json, pathlib, sys
import gamma
finding, outcome = None, "passed"
code = gamma.code
if (pathlib.Path(__file__).parents[1] / "fault").exists():
    code = "wrong-numbers"
if code:
    outcome = "warned" if code == "heat" else "failed"
    level = "warning" if code == "heat" else "error"
    finding = {"code": code, "level": level, "symptom": "it is " + code,
               "cause": "c", "remedy": "r", "evidence": ["e"]}
check = {"id": "tiny.check", "outcome": outcome, "title": "t",
         "stands_for": "s", "seconds": 0.1, "finding": finding,
         "numbers": {"speed": {"value": gamma.speed, "unit": "images/s"}}}
known = "--only" not in sys.argv or sys.argv[sys.argv.index("--only") + 1] == "tiny.check"
json.dump({"schema": 2, "suite": "full" if "--full" in sys.argv else "quick",
           "target": json.load(open(sys.argv[1]))["target"], "python": "3", "torch": None,
           "device": {"name": "toy"}, "started": "2026-01-01T00:00:00Z", "seconds": 0.1,
           "load": {"steal": gamma.steal}, "checks": [check] if known else [],
           "broken": "" if known else "no such check: other"}, open(sys.argv[2], "w"))
sys.exit(outcome == "failed")
"""
# In an empty network namespace loopback is down, which on a machine without a network is up.
LOOPBACK = """
import fcntl, os, socket, struct, sys
with socket.socket() as any_socket:
    up = struct.pack("16sh", b"lo", 1)  # IFF_UP, by SIOCSIFFLAGS of netdevice(7)
    fcntl.ioctl(any_socket, 0x8914, up)
os.execv(sys.argv[1], sys.argv[1:])
"""
PROGRAM = "import gamma, sys; sys.exit(3 if gamma.code else 0)"


COMMAND = [sys.executable, "-I", "-m", "provision", "bisect", TARGET]
GAMMA = ["--package", "gamma"]
BY_CHECK = [*GAMMA, "--check", CHECK]


def program(text: str) -> list[str]:
    return ["--", "python", "-c", text]


def by_program(text: str = PROGRAM) -> list[str]:
    return [*GAMMA, *program(text)]


class Shop:
    """A default index (PEP 691 with upload times) of releases of gamma, and what it was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, ""
        self.fetched: list[str] = []
        self.gone: set[str] = set()  # files that are listed and cannot be had

    def offer(
        self, version: str, code: str = "", speed: float = 100.0, steal: float = 0.0
    ) -> Path:
        text = f"code = {code!r}\nspeed = {speed}\nsteal = {steal}\n"
        return make_wheel(self.folder, "gamma", version, {"gamma.py": text})

    def metadata(self, filename: str) -> bytes:
        stem = "-".join(filename.split("-")[:2])
        with zipfile.ZipFile(self.folder / filename) as wheel:
            return wheel.read(f"{stem}.dist-info/METADATA")

    def page(self, name: str) -> list[dict[str, object]]:
        files: list[dict[str, object]] = []
        for wheel in sorted(self.folder.glob(f"{name}-*.whl")):
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            files.append(
                {
                    "filename": wheel.name,
                    "url": f"{self.url}/files/{wheel.name}",
                    "hashes": {"sha256": digest},
                    "size": wheel.stat().st_size,
                    "core-metadata": True,
                    "upload-time": "2026-10-01T00:00:00Z",
                }
            )
        return files


class Handler(Answering):
    shop: Shop

    def do_GET(self) -> None:  # noqa: N802 - the name is the library's
        *_, place, leaf = self.path.strip("/").split("/")
        if place != "files":
            return self.page(leaf, self.shop.page(leaf))
        if leaf.endswith(".metadata"):
            return self.answer(200, self.shop.metadata(leaf.removesuffix(".metadata")))
        if self.command == "GET" and "Range" not in self.headers:
            self.shop.fetched.append(leaf)
        if leaf in self.shop.gone:
            return self.answer(404)
        return self.answer(200, (self.shop.folder / leaf).read_bytes())


@pytest.fixture
def shop(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path / "shop")
    (lab.project.root / "smoke" / "run.py").write_text(SUITE)
    spec = lab.project.specs / f"{TARGET}.toml"
    text = spec.read_text().replace('["alpha"]', '["gamma==5.0"]')
    spec.write_text(text.replace('[pip.index]\nvendor = ["beta"]\n', ""))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "none"))
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    with served(Handler, made) as made.url:
        monkeypatch.setenv("PIP_INDEX_URL", f"{made.url}/simple/")
        yield made


def plant(shop: Shop, first_bad: int, code: str = "wrong-numbers") -> None:
    """Offer five releases, of which the one at a place and all later ones are broken."""
    for place, version in enumerate(RELEASES):
        shop.offer(version, code if place >= first_bad else "")


def unlockable(shop: Shop, *versions: str) -> None:
    files = {"gamma.py": ""}
    for version in versions:
        make_wheel(shop.folder, "gamma", version, files, ["nowhere>=1"])


def call(lab: Lab, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
    return typed(verb, TARGET, "--project", lab.project.root, *words)


def edit_spec(lab: Lab, old: str, new: str) -> None:
    spec = lab.project.specs / f"{TARGET}.toml"
    spec.write_text(spec.read_text().replace(old, new))


def lock(lab: Lab) -> None:
    done = call(lab, "lock")
    assert done.returncode == Exit.OK, done.stderr


def lock_and_build(lab: Lab) -> None:
    lock(lab)
    call(lab, "build", "--no-smoke")
    assert read_link(lab.home / "current")


def smoke(lab: Lab, code: int = Exit.OK) -> None:
    assert call(lab, "smoke").returncode == code


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folder of each real installation."""
    made: list[str] = []
    install = building.install_verified

    def counted(prefix: Path, *rest: Any) -> Any:  # noqa: ANN401 - passed on
        made.append(prefix.name)
        return install(prefix, *rest)

    monkeypatch.setattr(building, "install_verified", counted)
    return made


def bisect(lab: Lab, *words: str, code: int = Exit.OK) -> dict[str, Any]:
    """Run the verb; return its result, which is as published, and leave `current` as it was."""
    before = read_link(lab.home / "current")
    done = call(lab, "bisect", "--json", *words)
    document = json.loads(done.stdout)
    assert faults("bisect", document) == []
    result: dict[str, Any] = document["result"]
    assert done.returncode == code, (result, done.stderr)
    assert read_link(lab.home / "current") == before
    return result


def versions(result: dict[str, Any]) -> list[str]:
    return [release["version"] for release in result["releases"]]


@pytest.mark.parametrize(
    ("first_bad", "by"),
    [
        (2, BY_CHECK),
        *(pytest.param(place, BY_CHECK, marks=SLOW) for place in (1, 3, 4)),
        # By a program, quickly: the release that cannot be built, and the crash.
        *(pytest.param(place, by_program(), marks=SLOW) for place in (1, 2, 3, 4)),
    ],
)
def test_the_planted_release_is_found_in_at_most_three_builds_of_five(
    lab: Lab, shop: Shop, builds: list[str], first_bad: int, by: list[str]
) -> None:
    plant(shop, first_bad)
    lock_and_build(lab)
    builds.clear()
    result = bisect(lab, *by)
    assert result["state"] == "found"
    assert result["bad"] == RELEASES[first_bad]
    assert result["good"] == RELEASES[first_bad - 1]
    assert result["suspects"] == [RELEASES[first_bad]]
    (change,) = result["changes"]
    assert change["name"] == "gamma"
    assert change["before"] == RELEASES[first_bad - 1]
    assert change["after"] == RELEASES[first_bad]
    assert 0 < len(builds) <= result["builds"] <= 3
    # What it built is gone again.
    assert len(lab.left()) == 2


@SLOW
def test_ends_that_are_both_bad_are_said_to(
    lab: Lab, shop: Shop, builds: list[str]
) -> None:
    plant(shop, 0)
    lock_and_build(lab)
    builds.clear()
    result = bisect(lab, *BY_CHECK, code=Exit.FINDINGS)
    assert result["state"] == "bad"
    assert result["suspects"] == []
    assert len(builds) == 1


@SLOW
def test_ends_that_are_both_good_are_said_to(lab: Lab, shop: Shop) -> None:
    plant(shop, 9)
    lock_and_build(lab)
    result = bisect(lab, *by_program(), code=Exit.FINDINGS)
    assert result["state"] == "good"
    assert result["suspects"] == []
    outcomes = [release["outcome"] for release in result["releases"]]
    assert outcomes == ["not tried"] * 4 + ["good"]


def test_a_release_that_cannot_be_built_is_skipped_and_the_answer_is_a_range(
    lab: Lab, shop: Shop
) -> None:
    plant(shop, 2)
    lock_and_build(lab)
    shop.gone.add("gamma-3.0-py3-none-any.whl")
    result = bisect(lab, *by_program())
    assert result["state"] == "range"
    assert result["suspects"] == ["3.0", "4.0"]
    assert result["good"] == "2.0"
    assert result["bad"] == "4.0"
    assert versions(result) == RELEASES
    skipped = result["releases"][2]
    outcomes = [release["outcome"] for release in result["releases"]]
    assert outcomes.count("skipped") == 1
    assert skipped["outcome"] == "skipped"
    assert "could not install" in skipped["why"]


@SLOW
def test_a_release_that_cannot_be_locked_is_skipped(lab: Lab, shop: Shop) -> None:
    plant(shop, 4)
    lock_and_build(lab)
    unlockable(shop, "3.0")
    result = bisect(lab, *by_program())
    assert result["state"] == "found"
    assert result["bad"] == "5.0"
    places = {release["version"]: release for release in result["releases"]}
    assert places["3.0"]["outcome"] == "skipped"
    assert places["3.0"]["lock"] is None
    assert "nowhere" in places["3.0"]["why"]
    # Without a second release that can be locked there is nothing to compare.
    unlockable(shop, "1.0", "2.0")
    result = bisect(lab, "--bad", "4.0", *by_program(), code=Exit.USAGE)
    assert "no older release of gamma than 4.0" in result["error"]["what"]


@SLOW
def test_another_failure_than_that_of_the_bad_end_is_skipped(
    lab: Lab, shop: Shop
) -> None:
    plant(shop, 3)
    shop.offer("3.0", "import-fails")
    lock_and_build(lab)
    result = bisect(lab, *BY_CHECK)
    assert result["good"] == "2.0"
    assert result["bad"] == "4.0"
    assert result["suspects"] == ["3.0", "4.0"]


@SLOW
@pytest.mark.parametrize(
    "end", ["os.kill(os.getpid(), signal.SIGSEGV)", "sys.exit(139)", "sys.exit(127)"]
)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
def test_exit_codes_are_those_of_git_and_a_crash_is_bad(
    lab: Lab, shop: Shop, end: str
) -> None:
    plant(shop, 2)
    lock_and_build(lab)
    # At 3.0 and 4.0 the program ends otherwise than at 5.0.
    text = (
        "import gamma, os, signal, sys, importlib.metadata as m\n"
        "if m.version('gamma') == '3.0':\n    sys.exit(125)\n"
        f"if m.version('gamma') == '4.0':\n    {end}\n"
        "sys.exit(1 if gamma.code else 0)"
    )
    result = bisect(lab, *by_program(text))
    assert result["state"] == "range"
    assert result["suspects"] == ["3.0", "4.0"]
    assert result["good"] == "2.0"
    assert result["bad"] == "4.0"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
@pytest.mark.parametrize(
    "end",
    [
        "sys.exit(255)",
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", marks=SLOW),
    ],
)
def test_a_program_without_a_verdict_ends_the_search(
    lab: Lab, shop: Shop, end: str
) -> None:
    plant(shop, 2)
    lock_and_build(lab)
    words = by_program(f"import os, signal, sys\n{end}")
    result = bisect(lab, *words, code=Exit.TOOL)
    assert "no verdict" in result["error"]["what"]
    done = call(lab, "bisect", *words)
    assert f"`provision clean {TARGET}` removes it" in done.stderr


@pytest.fixture
def slower(
    lab: Lab, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Let a GPU have a history of 1.0, and then 5.0: releases since 4.0 are slower."""
    monkeypatch.setattr("provision.commands.check.PAUSE", 0.0)

    def build(runs: int, busy: str = "") -> None:
        for version in RELEASES:
            speed = 50.0 if version >= "4.0" else 100.0
            steal = 90.0 if version == busy else 0.0
            shop.offer(version, speed=speed, steal=steal)
        edit_spec(lab, '"gamma==5.0"', '"gamma==1.0"')
        edit_spec(lab, '"cpu"', '"cuda"')  # a CPU promises no speed
        lock_and_build(lab)
        smoke(lab)
        (path,) = history(lab.project, TARGET)
        for day in range(1, runs):
            shutil.copy(path, path.with_name(f"2025010{day}{path.name[8:]}"))
        edit_spec(lab, '"gamma==1.0"', '"gamma==5.0"')
        lock_and_build(lab)

    return build


@pytest.mark.parametrize(
    ("busy", "state", "suspects", "why"),
    [
        ("", "found", ["4.0"], "fell"),
        pytest.param("4.0", "range", ["4.0", "5.0"], "the host was busy", marks=SLOW),
    ],
    ids=["evaluated", "busy"],
)
def test_a_slower_release_counts_once_it_is_measured_again(
    lab: Lab,
    slower: Callable[..., None],
    *,
    busy: str,
    state: str,
    suspects: list[str],
    why: str,
) -> None:
    slower(9, busy)
    smoke(lab, Exit.SLOWER)
    # The package and the good end are those of the history.
    result = bisect(lab, "--check", CHECK)
    assert result["package"] == "gamma"
    assert result["releases"][0]["version"] == "1.0"
    assert result["state"] == state
    assert result["good"] == "3.0"
    assert result["suspects"] == suspects
    assert why in result["releases"][3]["why"]


@SLOW
def test_of_too_few_runs_nothing_is_slower_and_nothing_is_good(
    lab: Lab, slower: Callable[..., None]
) -> None:
    slower(3)
    result = bisect(lab, *BY_CHECK, code=Exit.FINDINGS)
    assert result["state"] == "unknown"
    assert result["suspects"] == []
    assert "3 of 8 runs" in result["releases"][-1]["why"]


def test_what_the_history_tells_is_not_built_again(
    lab: Lab, shop: Shop, builds: list[str]
) -> None:
    plant(shop, 2)
    edit_spec(lab, '"gamma==5.0"', '"gamma==2.0"')
    lock_and_build(lab)
    smoke(lab)
    edit_spec(lab, '"gamma==2.0"', '"gamma==5.0"')
    lock(lab)
    # The quick checks of the upgrade fail, and the old one stays current.
    assert call(lab, "build").returncode == Exit.FINDINGS
    builds.clear()
    plan = bisect(lab, "--check", CHECK, "--plan")
    # The bad end is known, and is built where it is next to a good one.
    assert plan["state"] == "plan"
    assert plan["builds"] == 3
    assert builds == []
    assert versions(plan) == ["2.0", "3.0", "4.0", "5.0"]
    assert plan["releases"][0]["built"]
    result = bisect(lab, "--check", CHECK)
    assert result["package"] == "gamma"
    assert result["bad"] == "3.0"
    assert 0 < len(builds) <= plan["builds"]


@SLOW
def test_what_a_report_says_of_the_bad_end_is_run_again(lab: Lab, shop: Shop) -> None:
    plant(shop, 9)
    lock_and_build(lab)
    # The last report has a failure that is gone.
    fault = lab.project.root / "fault"
    fault.touch()
    smoke(lab, Exit.FINDINGS)
    fault.unlink()
    assert bisect(lab, *BY_CHECK, code=Exit.FINDINGS)["state"] == "good"


def test_a_failure_that_comes_and_goes_finds_nothing(
    lab: Lab, shop: Shop, tmp_path: Path
) -> None:
    plant(shop, 9)
    lock_and_build(lab)
    # Only the first run fails: the answer would be 5.0.
    first = f"import pathlib, sys\nf = pathlib.Path({str(tmp_path / 'first')!r})\n"
    text = f"{first}if f.exists():\n    sys.exit()\nf.touch()\nsys.exit(3)"
    result = bisect(lab, *by_program(text), code=Exit.FINDINGS)
    assert result["state"] == "unstable"
    assert result["suspects"] == []
    assert result["bad"] is None
    assert "run again, good" in result["releases"][-1]["why"]


@pytest.mark.parametrize(
    ("codes", "bad"),
    [
        pytest.param(["heat"] * 2 + ["wrong-numbers"] * 3, "3.0", marks=SLOW),
        pytest.param(["", "noise", "heat", "heat", "heat"], None, marks=SLOW),
        pytest.param(["", "", "", "heat", "heat"], "4.0", marks=SLOW),
    ],
)
def test_a_warning_is_bad_where_the_bad_end_has_it(
    lab: Lab, shop: Shop, codes: list[str], bad: str | None
) -> None:
    for version, code in zip(RELEASES, codes, strict=True):
        shop.offer(version, code)
    lock_and_build(lab)
    result = bisect(lab, *BY_CHECK)
    if bad:
        assert result["state"] == "found"
        assert result["bad"] == bad
    else:  # 2.0 fails otherwise
        assert result["suspects"] == ["2.0", "3.0"]


def test_a_lock_that_was_good_before_is_not_searched(lab: Lab, shop: Shop) -> None:
    plant(shop, 9)
    lock_and_build(lab)
    smoke(lab)
    result = bisect(lab, "--check", CHECK, code=Exit.USAGE)
    assert "with this very lock" in result["error"]["what"]


def test_a_plan_downloads_nothing_and_is_printed_before_any_download(
    lab: Lab, shop: Shop, builds: list[str]
) -> None:
    plant(shop, 2)
    lock_and_build(lab)
    shop.fetched.clear()
    builds.clear()
    plan = bisect(lab, *BY_CHECK, "--plan")
    assert plan["state"] == "plan"
    assert plan["builds"] == 3
    assert builds == []
    assert shop.fetched == []
    sizes = [path.stat().st_size for path in sorted(shop.folder.glob("*.whl"))]
    assert versions(plan) == RELEASES
    assert [release["download"] for release in plan["releases"]] == sizes
    assert max(sizes) < plan["download"] <= 3 * max(sizes)
    shown = call(lab, "bisect", *BY_CHECK, "--plan").stdout
    assert "5 releases of gamma in the default index" in shown
    done = call(lab, "bisect", *BY_CHECK)
    for line in shown.splitlines():
        assert line.strip() in done.stderr
    assert "gamma 3.0 is the first bad release; 2.0 is good" in done.stdout


def test_files_of_unknown_size_are_counted_in_the_plan(lab: Lab, shop: Shop) -> None:
    """As those of a vendor's index, which states none."""
    plant(shop, 2)
    path = lab.project.catalog / "vendor.json"
    catalog = json.loads(path.read_text())
    for wheel in sorted(shop.folder.glob("*.whl")):
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        entry = {
            "filename": wheel.name,
            "url": f"{catalog['url']}{wheel.name}",
            "sha256": digest,
            "requires_dist": [],
        }
        catalog["files"].append(entry)
    path.write_text(json.dumps(catalog))
    spec = lab.project.specs / f"{TARGET}.toml"
    spec.write_text(spec.read_text() + '[pip.index]\nvendor = ["gamma"]\n')
    lock(lab)
    shown = call(lab, "bisect", *BY_CHECK, "--plan").stdout
    assert "5 releases of gamma in the catalog of vendor" in shown
    most = "at most 4 builds and 0 bytes and 4 files of unknown size to download"
    assert most in shown


@SLOW
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
def test_killed_in_the_middle_it_goes_on(lab: Lab, shop: Shop, tmp_path: Path) -> None:
    plant(shop, 3)
    lock_and_build(lab)
    flag = tmp_path / "flag"
    # It waits in the first release that it is run in after the bad end.
    text = (
        "import gamma, pathlib, sys, time, importlib.metadata as m\n"
        f"flag = pathlib.Path({str(flag)!r})\n"
        "if m.version('gamma') == '1.0' and not flag.exists():\n"
        "    flag.touch()\n    time.sleep(60)\n"
        "sys.exit(1 if gamma.code else 0)"
    )
    argv = [*COMMAND, "--project", str(lab.project.root), *by_program(text)]
    child = subprocess.Popen(argv, env=os.environ, start_new_session=True)
    until = time.monotonic() + 60
    while not flag.exists() and time.monotonic() < until:
        time.sleep(0.05)
    kill(child, alone=False)
    assert len(lab.left()) == 3  # the current one, the link, and what was built beside
    before = set(lab.left())
    result = bisect(lab, *by_program(text))
    assert result["state"] == "found"
    assert result["bad"] == "4.0"
    assert result["releases"][0]["version"] == "1.0"
    assert result["releases"][0]["built"]
    assert len(lab.left()) == 2
    assert set(lab.left()) < before


@SLOW
def test_kept_generations_are_no_way_back_and_clean_removes_them(
    lab: Lab, shop: Shop
) -> None:
    plant(shop, 3)
    lock_and_build(lab)
    bisect(lab, "--keep", *by_program())
    assert len(lab.left()) > 2
    assert call(lab, "rollback").returncode == Exit.USAGE
    assert call(lab, "clean").returncode == Exit.OK
    assert len(lab.left()) == 2


@SLOW
def test_one_that_was_in_use_is_not_removed(lab: Lab, shop: Shop) -> None:
    plant(shop, 3)
    lock_and_build(lab)
    bisect(lab, "--keep", *by_program())
    edit_spec(lab, '"gamma==5.0"', '"gamma==1.0"')
    lock_and_build(lab)  # the one of 1.0 that the search made
    now = read_link(lab.home / "current")
    assert now
    assert json.loads((now / "provision.json").read_text())["reason"] == ""
    edit_spec(lab, '"gamma==1.0"', '"gamma==5.0"')
    lock_and_build(lab)
    bisect(lab, *by_program())
    assert now.is_dir()


@SLOW
@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
def test_offline_the_releases_are_those_of_the_wheelhouse(
    lab: Lab, shop: Shop, tmp_path: Path
) -> None:
    plant(shop, 3)
    lock_and_build(lab)
    house = tmp_path / "house"
    shutil.copytree(shop.folder, house)
    (house / "gamma-2.0-py3-none-any.whl").unlink()
    (house / "no wheel.whl").touch()
    # Of a locked name with another hash.
    (house / "gamma-5.0-py3-none-any.whl").write_bytes(b"another")
    shutil.copy(shop.folder / "gamma-5.0-py3-none-any.whl", house)
    words = ["--project", str(lab.project.root), "--json", "--offline"]
    words += ["--wheelhouse", str(house), *by_program()]
    done = subprocess.run(
        [*without_a_route(), sys.executable, "-c", LOOPBACK, *COMMAND, *words],
        env=os.environ | {"UV_CACHE_DIR": str(new_cache(tmp_path / "another cache"))},
        check=False,
        capture_output=True,
        text=True,
    )
    result = json.loads(done.stdout)["result"]
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert versions(result) == ["1.0", "3.0", "4.0", "5.0"]
    assert result["good"] == "3.0"
    assert result["bad"] == "4.0"
    assert str(house) in result["offered"]


def test_attack_offline_no_file_of_a_locked_name_with_another_hash_is_taken(
    lab: Lab, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of wheels holds the locked release with other code; it is no release of a search."""
    plant(shop, 3)
    lock_and_build(lab)
    house = tmp_path / "house"
    shutil.copytree(shop.folder, house)
    make_wheel(house, "gamma", "5.0", {"gamma.py": "import os; os.abort()"})
    words = ["--offline", "--wheelhouse", str(house), *by_program()]
    result = bisect(lab, *words)
    assert result["good"] == "3.0"
    assert result["bad"] == "4.0"
    # The one that was built of the lock, and not the file of the folder.
    assert "exit code 3" in result["releases"][-1]["why"]
    call(lab, "clean", "--all")
    # Without that, and without uv's copy, it cannot be built.
    monkeypatch.setenv("UV_CACHE_DIR", str(new_cache(tmp_path / "another cache")))
    result = bisect(lab, *words, code=Exit.TOOL)
    assert "could not install" in result["error"]["what"]


# What cannot be searched, and what the error says.
USAGE: tuple[tuple[list[str], str], ...] = (
    ([], "a check or a program"),
    (["--check", CHECK, "--", "true"], "a check or a program"),
    (["--check", CHECK, "--good", "one"], "--good one"),
    ([*BY_CHECK, "--good", "0.5"], "--good 0.5"),
    ([*BY_CHECK, "--bad", "7"], "--bad 7"),
    ([*BY_CHECK, "--good", "5.0"], "is not older"),
    (["--check", CHECK, "--package", "delta"], "--package delta"),
    (["--check", CHECK], "which package"),
    (["--check", "other", "--package", "gamma"], "--check other"),
    (["--package", "gamma", "--", "pyhton", "x.py"], "pyhton"),
)


def test_what_cannot_be_searched_is_an_error_of_usage(
    lab: Lab, shop: Shop, builds: list[str]
) -> None:
    plant(shop, 2)
    lock_and_build(lab)
    builds.clear()
    for words, said in USAGE:
        result = bisect(lab, *words, code=Exit.USAGE)
        assert said in result["error"]["what"], words
        assert builds == [], words


def test_a_check_that_is_not_there_is_an_error_before_any_build(
    lab: Lab, shop: Shop, builds: list[str]
) -> None:
    plant(shop, 2)
    lock(lab)
    lab.home.mkdir(parents=True)
    words = ["--package", "gamma", "--check", "tiny.chekc"]
    result = bisect(lab, *words, code=Exit.USAGE)
    assert "--check tiny.chekc" in result["error"]["what"]
    assert builds == []


@SLOW
def test_an_edited_environment_counts_as_a_build(
    lab: Lab, shop: Shop, builds: list[str]
) -> None:
    plant(shop, 3)
    lock_and_build(lab)
    current = read_link(lab.home / "current")
    assert current
    next(current.rglob("gamma.py")).write_text("code = ''\n")
    builds.clear()
    result = bisect(lab, *by_program())
    assert result["bad"] == "4.0"
    assert result["builds"] == 4
    assert result["releases"][-1]["why"] == "exit code 3"
    assert 3 < len(builds) <= 5  # one of them twice: uv's copy is edited, too


@SLOW
def test_a_good_report_of_a_newer_release_is_named(lab: Lab, shop: Shop) -> None:
    plant(shop, 9)
    lock_and_build(lab)
    smoke(lab)
    shop.offer("4.0", "wrong-numbers")
    edit_spec(lab, '"gamma==5.0"', '"gamma==4.0"')
    lock_and_build(lab)
    done = call(lab, "bisect", "--check", CHECK)
    assert "the last good report has gamma 5.0" in done.stderr
    assert "gamma 4.0 is the first bad release; 3.0 is good" in done.stdout


@SLOW
def test_a_package_that_others_pin_moves_against_their_pin(
    lab: Lab, shop: Shop
) -> None:
    """As torch pins its triton: no release of that but one could be locked otherwise."""
    plant(shop, 2)
    files = {"frame.py": ""}
    make_wheel(shop.folder, "frame", "1.0", files, ["gamma==5.0"])
    edit_spec(lab, '"gamma==5.0"', '"frame"')
    lock_and_build(lab)
    result = bisect(lab, *by_program())
    assert result["good"] == "2.0"
    assert result["bad"] == "3.0"
    # The lines that it prints lock the good release.
    spec = lab.project.specs / f"{TARGET}.toml"
    spec.write_text(spec.read_text() + "\n" + "\n".join(result["remedy"]))
    lock(lab)
    assert "gamma==2.0" in (lab.project.lock(TARGET) / "requirements.txt").read_text()


def test_the_remedy_pins_what_moves_with_torch(lab: Lab, shop: Shop) -> None:
    for version in ("1.0", "2.0"):
        make_wheel(shop.folder, "torch", version, {"torch.py": ""})
        needs = [f"torch=={version}"]
        make_wheel(shop.folder, "torchvision", f"0.{version}", {"tv.py": ""}, needs)
    edit_spec(lab, '"gamma==5.0"', '"torch==2.0", "torchvision==0.2.0"')
    lock_and_build(lab)
    text = "import sys, importlib.metadata as m; sys.exit(m.version('torch') > '1.0')"
    result = bisect(lab, "--package", "torch", *program(text))
    assert result["good"] == "1.0"
    assert result["bad"] == "2.0"
    assert result["remedy"] == [
        '[pip] requirements: "torch==1.0"',
        '[pip] requirements: "torchvision==0.1.0"',
    ]


def test_an_own_package_cannot_be_searched(lab: Lab, shop: Shop) -> None:
    plant(shop, 2)
    own = lab.project.root / "own"
    own.mkdir()
    about = '[project]\nname = "mine"\nversion = "1"\ndependencies = ["gamma"]\n'
    (own / "pyproject.toml").write_text(about)
    edit_spec(lab, '["gamma==5.0"]', '[]\nlocal = ["own"]')
    lock(lab)
    lab.home.mkdir(parents=True, exist_ok=True)
    result = bisect(lab, "--package", "mine", *program(PROGRAM), code=Exit.USAGE)
    assert "only packages of the pip layer" in result["error"]["what"]
    assert "own package" in result["error"]["cause"]
