"""The public matrix takes what fits target, lock and suite, and refuses each forgery in a sentence."""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import markdown
import pytest
import yaml

from provision.catalog.devices import read_devices
from provision.commands import committed, submissions
from provision.commands.matrix import Cell, matrix
from provision.commands.submissions import check_folder, read_matrix, submit
from provision.core.errors import SpecError, ToolError, UsageError
from provision.core.project import Project
from provision.host.model import NOT_KNOWN
from provision.lockfile.pip import read_lock
from provision.report.evidence import Predicate, Statement, statement
from provision.report.history import suite_digest
from provision.report.submission import families_of
from provision.report.suite_checks import SuiteCheck, read_suite
from provision.spec.reader import load_target
from tests.checkout import commit_all, copy_files, git
from tests.report.test_evidence import forged, make_key, report
from tests.test_docs import ROOT, script

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.machine  # git
TARGETS = ("cpu-linux", "arc-linux", "max-linux")
ABSENT = "only for targets with a GPU"
ARC = {
    "name": "Intel(R) Arc(TM) A770 Graphics",
    "driver": "1.6.33578+15",
    "count": 1,
    "memory": 2**30,
}
CPU = {"name": "AMD EPYC 7R13 w/ Radeon", "count": 1, "threads": 2}
Content = dict[str, Any]


@functools.cache
def suite_checks() -> tuple[SuiteCheck, ...]:
    return read_suite(ROOT / "smoke").checks


def signed_content(project: Project, target: str, device: Content) -> Content:
    """Return the statement of a run in which every check of the suite passed."""
    template = report().checks[0]
    numbers = {
        "count": {"value": 1, "unit": "count"},
        "memory": {"value": device.get("memory", 0) / 2**30, "unit": "GiB"},
    }
    ready = template.model_validate(template.model_dump() | {"numbers": numbers})
    checks = []
    for check in suite_checks():
        passed = ready if check.id == "device.ready" else template
        checks.append(passed.model_copy(update={"id": check.id}))
    lock = read_lock(project.lock(target))
    made = report(
        target=target,
        lock=lock.digest,
        files=suite_digest(project),
        torch=lock.versions["torch"],
        device=device,
        stack={"platform": "linux-64", "kernel": "6.1.0-13-generic"},
        not_run=[],
    ).model_copy(update={"checks": tuple(checks)})
    return json.loads(statement(made).model_dump_json(by_alias=True))  # type: ignore[no-any-return]


class Repository:
    """A project in git, a key, and what a signer writes there."""

    def __init__(self, root: Path) -> None:
        self.project = Project(root / "project")
        self.key = make_key(root, "signer")
        self.path = root / "run.json"
        self.commit = ""

    def content(self, target: str = "cpu-linux", device: Content = CPU) -> Content:
        return signed_content(self.project, target, device)

    def write(self, content: Content) -> Path:
        self.path.write_text(forged(content, self.key))
        return self.path

    def place(self, content: Content) -> Path:
        """Put a file where its content says, past all checks, as a pull request can."""
        place = submit(self.project, self.write(self.content())).file
        target = place.parent.with_name(content["subject"][0]["name"])
        target.mkdir(exist_ok=True)
        moved = target / place.name
        place.rename(moved)
        self.write(content).replace(moved)
        return moved

    def reasons(self, since: str = "HEAD") -> list[str]:
        return [each.reason for each in check_folder(self.project, since)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repository, str]:
    folder = tmp_path_factory.mktemp("matrix")
    root = folder / "project"
    for name in ("envs", "smoke", *(f"lockfiles/{name}" for name in TARGETS)):
        shutil.copytree(
            ROOT / name, root / name, ignore=shutil.ignore_patterns("*.pyc")
        )
    (root / "docs" / "evidence" / "keys").mkdir(parents=True)
    (root / "docs" / "evidence" / "keys" / ".gitkeep").touch()
    made = Repository(folder)
    made.commit = commit_all(root)
    return made, made.commit


@pytest.fixture
def repository(made: tuple[Repository, str]) -> Repository:
    """A repository as it was made, with a new key."""
    shared, commit = made
    git(shared.project.root, "reset", "--quiet", "--hard", commit)
    git(shared.project.root, "clean", "--quiet", "-fd")
    shared.key = make_key(shared.key.parent, "signer")
    return shared


def refusal(repository: Repository, content: Content) -> str:
    with pytest.raises(UsageError, match="cannot be submitted") as failed:
        submit(repository.project, repository.write(content))
    assert not list(repository.project.evidence.rglob("*.json"))
    return failed.value.evidence


def test_a_file_is_put_where_its_content_says_and_can_be_submitted_again(
    repository: Repository,
) -> None:
    file = repository.write(repository.content("arc-linux", ARC))
    first = submit(repository.project, file)
    digest = "b" * 16
    name = f"arc-linux/torch-2.12.1+xpu_dg2_1.6.33578+15_{digest}.json"
    assert first.file == repository.project.evidence / name
    assert first.file.read_bytes() == file.read_bytes()
    assert f"git add docs/evidence/{name}" in first.commands
    assert submit(repository.project, file) == first
    (found,) = check_folder(repository.project, "HEAD")
    assert found.state == "valid"
    assert found.reason == ""
    assert re.fullmatch(r"SHA256:[\w+/]{43}", found.key)


def test_a_key_that_the_project_named_is_shown_by_its_name(
    repository: Repository,
) -> None:
    repository.place(repository.content())
    keys = repository.project.evidence / "keys"
    shutil.copy(repository.key.parent / "keys" / "signer.pub", keys)
    commit_all(repository.project.root)
    (found,) = check_folder(repository.project, "")
    assert found.key == "signer"


def test_a_clone_on_windows_has_the_same_suite_and_evidence(
    repository: Repository,
) -> None:
    """Where git writes other line ends."""
    shutil.copy(ROOT / "docs" / ".gitattributes", repository.project.root / "docs")
    place = submit(repository.project, repository.write(repository.content())).file
    root = repository.project.root
    commit_all(root)
    clone = repository.path.with_name("clone")
    git(root, "clone", "--quiet", "--config", "core.autocrlf=true", root, clone)
    assert b"\r\n" in (clone / "smoke" / "run.py").read_bytes()
    theirs = Project(clone)
    assert suite_digest(theirs) == suite_digest(repository.project)
    (found,) = check_folder(theirs, "")
    assert found.state == "valid"
    assert found.reason == ""
    assert found.file.name == place.name


def edit(*path: str | int, value: object) -> Callable[[Content], None]:
    """Return what changes one place of a statement."""

    def change(content: Content) -> None:
        part: Any = content
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = value

    return change


def device(**changes: object) -> Callable[[Content], None]:
    """Return what changes the device, in both places."""

    def change(content: Content) -> None:
        shown = content["predicate"]["device"] | changes
        content["predicate"]["device"] = shown
        content["predicate"]["devices"] = (
            [shown] if content["predicate"]["devices"] else []
        )

    return change


def hidden_driver(content: Content) -> None:
    device(driver=None)(content)
    content["predicate"]["stack"]["compute-runtime"] = NOT_KNOWN


def left_out(check: str, reason: str | None) -> Callable[[Content], None]:
    """Return what removes a check, and says that it was not run."""

    def change(content: Content) -> None:
        seen = content["predicate"]
        seen["checks"] = [each for each in seen["checks"] if each["id"] != check]
        if reason is not None:
            seen["not_run"].append({"id": check, "reason": reason})

    return change


def checked(check: str, **changes: object) -> Callable[[Content], None]:
    """Return what changes the result of a check."""

    def change(content: Content) -> None:
        for each in content["predicate"]["checks"]:
            if each["id"] == check:
                each.update(changes)

    return change


def added(part: str, entry: Content) -> Callable[[Content], None]:
    """Return what adds an entry to a list of the predicate."""
    return lambda content: content["predicate"][part].append(entry)


def second_device(content: Content) -> None:
    """Add a device that no check was run on."""
    seen = content["predicate"]
    seen["devices"] = [seen["device"], {"name": "Toaster"}]


PASSED = {"outcome": "passed", "numbers": {"n": {"value": 1, "unit": "count"}}}
STARTED = ("predicate", "started")
STACK = ("predicate", "stack")
# What a signer writes, with a key of their own -> a part of the sentence that refuses it.
CLAIMS: dict[str, tuple[Callable[[Content], None], str]] = {
    "another target": (
        edit("subject", 0, "name", value="max-linux"),
        "no device that max-linux",
    ),
    "no target": (
        edit("subject", 0, "name", value="rocm-linux"),
        "no target of this project",
    ),
    "a path as target": (edit("subject", 0, "name", value="../../x"), "has to match"),
    "another device": (
        device(name="NVIDIA H100 PCIe"),
        "NVIDIA H100 PCIe is no device that",
    ),
    "no device": (
        edit("predicate", "device", value={}),
        "its device is no device that",
    ),
    "another system": (edit(*STACK, "platform", value="win-64"), "made on win-64"),
    "another torch": (
        edit("predicate", "torch", value="2.13.0+xpu"),
        "its lock has 2.12.1",
    ),
    "a failed check": (
        edit("predicate", "checks", 0, "outcome", value="failed"),
        "'passed'",
    ),
    "a missing check": (left_out("device.matmul", None), "device.matmul is missing"),
    "a check not run": (left_out("device.matmul", "died"), "every target requires it"),
    "a false reason": (left_out("device.family", ABSENT), "is not so of arc-linux"),
    "a reason of another check": (
        left_out("memory.large", "only in a group of processes"),
        "is not so of arc-linux",
    ),
    "a reason of nobody": (left_out("collective.sum", "lazy"), "'lazy' is not so of"),
    "another accelerator's reason": (
        left_out(
            "collective.sum",
            "this torch is built without a collective back end for mps",
        ),
        "is not so of arc-linux",
    ),
    "a check of nobody": (
        added("checks", {"id": "made.up", **PASSED}),
        "no check made.up",
    ),
    "a reason for a check of nobody": (
        added("not_run", {"id": "made.up", "reason": "only in a group of processes"}),
        "no check made.up",
    ),
    "a check twice": (
        added("checks", {"id": "device.matmul", **PASSED}),
        "device.matmul is there 2 times",
    ),
    "a check run and not run": (
        added(
            "not_run",
            {"id": "group.exchange", "reason": "only in a group of processes"},
        ),
        "group.exchange is there 2 times",
    ),
    "a check without numbers": (
        checked("device.matmul", numbers={}),
        "device.matmul has no numbers",
    ),
    "a warning of what fails": (
        checked("device.matmul", outcome="warned"),
        "device.matmul warned",
    ),
    "a field of a reason": (
        added("not_run", {"id": "group.exchange", "reason": "", "started": "<img>"}),
        "unknown key",
    ),
    "a layer started": (edit(*STACK, "started", value="<script>"), "stack.started has"),
    "a layer of a name": (
        edit(*STACK, "GPU kernel-started", value="x"),
        "'GPU kernel-started' is no layer",
    ),
    "a further device without checks": (second_device, "has no device.ready@1"),
    "an old driver": (
        device(driver="1.3.27191+1"),
        "driver 1.3.27191+1 is not >=25.18.33578",
    ),
    "an old runtime": (
        edit(*STACK, "compute-runtime", value="24.39.31294"),
        "driver 24.39.31294 is not",
    ),
    "no driver": (device(driver=None), "it has driver none"),
    "a driver that is hidden": (hidden_driver, "it has driver none"),
    "a driver of no format": (device(driver="0.0.1+0"), "it has driver 0.0.1+0, and"),
    "a build for another device": (
        edit("predicate", "torch", value="2.12.1+cu130"),
        "torch 2.12.1+cu130, and its lock has 2.12.1+xpu",
    ),
    "no torch": (edit("predicate", "torch", value=None), "made with torch none"),
    "a day as a cell": (edit(*STARTED, value="2026W011|10:00:00+00:00"), "started"),
    "a day as markup": (edit(*STARTED, value="2026-01-01<10:00:00+00:00"), "started"),
    "a time without zone": (edit(*STARTED, value="2026-11-01T10:00:00"), "started"),
    "a huge count": (device(count=10**400), "count"),
    "a package not locked": (
        left_out("offload.cpu", "needs accelerate, which is not locked"),
        "is not so of arc-linux",
    ),
    "a future day": (edit(*STARTED, value="2099-01-01T00:00:00Z"), "in the future"),
    "a script": (device(name=f"{ARC['name']} (<script>alert())"), "predicate.device"),
    "a link": (device(driver="[1.6](javascript://x)"), "device.driver has markup"),
    "a home": (edit(*STACK, "kernel", value="6.1 /home/jane/linux"), "has a path"),
    "a token": (edit(*STACK, "kernel", value="hf_" + "aB1" * 10), "or a token"),
    "a serial": (
        edit(*STACK, "firmware", value="SN 4f2a90d17c3b55e8"),
        "a serial number",
    ),
    "a uuid": (
        edit(*STACK, "GPU 0", value="GPU-1b2c3d4e-0000-1111-2222-333344445555"),
        "a token",
    ),
    "the host": (edit(*STACK, "kernel", value="6.1-build7qx"), "name of this machine"),
    "a serial of the device": (device(serial="A1B2"), "has no 'serial' of a device"),
    "a layer more": (edit(*STACK, "host", value="box"), "'host' is no layer"),
    "a long text": (edit(*STACK, "kernel", value="6" * 301), "is too long"),
    "a version of more": (
        edit("predicate", "torch", value="2.12.1+xpu (free)"),
        "torch 2.12.1+xpu (",
    ),
    "a field more": (edit("predicate", "host", value="box"), "unknown key"),
    "another suite": (
        edit("predicate", "checks_digest", value="2" * 64),
        "it is stale",
    ),
    "another lock": (
        edit("subject", 0, "digest", "sha256", value="1" * 64),
        "it is stale",
    ),
}


@pytest.mark.parametrize(("claim", "said"), CLAIMS.values(), ids=CLAIMS)
def test_attack_a_signed_claim_that_is_not_so(
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    claim: Callable[[Content], None],
    said: str,
) -> None:
    monkeypatch.setattr(submissions.platform, "node", lambda: "build7qx.example.org")
    content = repository.content("arc-linux", ARC)
    claim(content)
    assert said in refusal(repository, content)


def _resealed(change: Callable[[Content], None]) -> Callable[[str], str]:
    """Return what changes the content of a file under the signature that it has."""

    def changed(text: str) -> str:
        document = json.loads(text)
        content = json.loads(base64.b64decode(document["payload"]))
        change(content)
        payload = json.dumps(content, separators=(",", ":")).encode()
        document["payload"] = base64.b64encode(payload).decode()
        return json.dumps(document, indent=1) + "\n"

    return changed


def _unsigned(text: str) -> str:
    return json.dumps(json.loads(text) | {"signatures": []}, indent=1) + "\n"


NUMBER = ("predicate", "checks", 0, "numbers", "float32", "value")
BYTES: dict[str, tuple[Callable[[str], str], str]] = {
    "a changed report": (_resealed(edit(*NUMBER, value=2e-7)), "after it was signed"),
    "a changed statement": (
        _resealed(edit(*STACK, "kernel", value="6.2")),
        "after it was signed",
    ),
    "no signature": (_unsigned, "not one signed"),
    "another form": (lambda text: text + " ", "not those that"),
    "too large": (lambda text: text + " " * 1_000_000, "larger than evidence"),
    "too deep": (lambda _: "[" * 100_000, "too deeply"),
    "no JSON": (lambda _: "<html>", ""),
}


@pytest.mark.parametrize(("change", "said"), BYTES.values(), ids=BYTES)
def test_attack_a_file_that_was_changed(
    repository: Repository, change: Callable[[str], str], said: str
) -> None:
    place = submit(repository.project, repository.write(repository.content())).file
    place.write_text(change(place.read_text()))
    (reason,) = repository.reasons()
    assert reason
    assert said in reason


def test_attack_another_key_than_the_one_that_signed(repository: Repository) -> None:
    place = submit(repository.project, repository.write(repository.content())).file
    other = make_key(repository.key.parent, "other").with_name("keys") / "other.pub"
    line = " ".join(other.read_text().split()[:2])
    document = json.loads(place.read_text()) | {"publicKey": line}
    place.write_text(json.dumps(document, indent=1) + "\n")
    assert repository.reasons() == [
        "it was signed with another key than the one that it names"
    ]


def test_attack_a_lock_and_a_suite_that_never_were(repository: Repository) -> None:
    """In files that were added some time ago: only the git history tells them from stale ones."""
    for path, value, said in (
        (
            ("subject", 0, "digest", "sha256"),
            "1" * 64,
            "its lock was never one of cpu-linux",
        ),
        (
            ("predicate", "checks_digest"),
            "2" * 64,
            "its suite of checks was never one of",
        ),
    ):
        content = repository.content()
        edit(*path, value=value)(content)
        place = repository.place(content)
        (reason,) = repository.reasons("")
        assert said in reason
        (reason,) = repository.reasons()
        assert "it is stale" in reason
        place.unlink()


def test_what_was_proven_with_an_earlier_lock_and_suite_is_stale_and_stays(
    repository: Repository,
) -> None:
    stale_file(repository)
    (found,) = check_folder(repository.project, "HEAD")
    assert found.state == "stale"
    assert "another lock" in found.reason


def test_a_higher_minimum_driver_refuses_no_evidence_of_before(
    repository: Repository,
) -> None:
    root = repository.project.root
    submit(repository.project, repository.write(repository.content("arc-linux", ARC)))
    commit_all(root)
    spec, lock = root / "envs/arc-linux.toml", root / "lockfiles/arc-linux"
    spec.write_text(spec.read_text().replace(">=25.18.33578", ">=26.18.38308"))
    (reason,) = repository.reasons("")
    assert "driver 1.6.33578+15 is not >=26.18.38308" in reason
    shutil.copy(root / "lockfiles/cpu-linux/requirements.txt", lock)  # as locked anew
    (reason,) = repository.reasons("")
    assert reason == "arc-linux has another lock now"


@pytest.mark.parametrize(
    "name", ["torch-9_cpu_no-driver.json", "../max-linux/x.json", "../x.json"]
)
def test_attack_a_name_that_claims_another_device_or_target(
    repository: Repository, name: str
) -> None:
    place = submit(repository.project, repository.write(repository.content())).file
    moved = (place.parent / name).resolve()
    moved.parent.mkdir(exist_ok=True)
    place.rename(moved)
    (reason,) = repository.reasons()
    assert f"its content belongs into cpu-linux/{place.name}" in reason


def test_attack_one_run_in_two_files(repository: Repository) -> None:
    """Under a second name, and signed again with a second key for another driver."""
    content = repository.content("arc-linux", ARC)
    first = submit(repository.project, repository.write(content)).file
    device(driver="1.6.99999")(content)
    repository.key = make_key(repository.key.parent, "thief")
    with pytest.raises(UsageError) as failed:
        submit(repository.project, repository.write(content))
    assert first.name in failed.value.evidence
    second = first.with_name(first.name.replace("33578+15", "99999"))
    repository.path.replace(second)
    same = f"of the same run as {first.name}"
    of_first, of_second = repository.reasons()
    assert same not in of_first
    assert same in of_second


def test_attack_another_signer_in_a_place_that_is_taken(repository: Repository) -> None:
    content = repository.content()
    place = submit(repository.project, repository.write(content)).file
    before = place.read_bytes()
    repository.key = make_key(repository.key.parent, "thief")
    with pytest.raises(UsageError) as failed:
        submit(repository.project, repository.write(content))
    assert "is there already" in failed.value.evidence
    assert place.read_bytes() == before
    commit_all(repository.project.root)
    repository.path.replace(place)
    assert repository.reasons() == ["it belongs to others: evidence is only added"]
    place.unlink()
    assert repository.reasons() == ["it belongs to others: evidence is only added"]


def test_attack_a_link_to_evidence_outside(repository: Repository) -> None:
    """Which could change after it was checked."""
    place = submit(repository.project, repository.write(repository.content())).file
    place.replace(repository.path)
    place.symlink_to(repository.path)
    (reason,) = repository.reasons()
    assert reason.startswith("it is a link")


def test_attack_what_is_no_evidence_in_the_folder(repository: Repository) -> None:
    """A link to a file outside, a page, and a name for one's own key."""
    folder = repository.project.evidence
    place = submit(repository.project, repository.write(repository.content())).file
    (folder / "page.html").write_text("<script>")
    (folder / "link.json").symlink_to("/etc/passwd")
    (folder / "folder").symlink_to("/etc")
    key = repository.key.parent / "keys" / "signer.pub"
    shutil.copy(key, folder / "keys" / "torvalds.pub")
    found = check_folder(repository.project, "HEAD")
    states = {each.file.relative_to(folder).as_posix(): each.state for each in found}
    assert states.pop(place.relative_to(folder).as_posix()) == "valid"
    strays = ("page.html", "link.json", "folder", "keys/torvalds.pub")
    assert states == dict.fromkeys(strays, "refused")


PRO = {"GPU 0": "Intel Arc Pro A40/A50"}
FAMILIES: list[tuple[str, Content, Content, str]] = [
    ("arc-linux", {"name": "Intel(R) Arc(TM) B580 Graphics"}, {}, "bmg"),
    ("arc-linux", {"name": "Intel(R) Arc(TM) 140V GPU (16GB)"}, {}, "lnl"),
    ("arc-linux", {"name": "Intel(R) Graphics [0x7d55]"}, {}, "mtl"),
    ("arc-linux", {"name": "Intel(R) Graphics"}, PRO, "dg2"),
    ("arc-linux", {"name": "Intel(R) Arc(TM) Graphics"}, {}, "arl lnl mtl"),
    ("arc-linux", {"name": "Intel(R) Data Center GPU Max 1550"}, {}, ""),
    ("max-linux", {"name": "Intel(R) Data Center GPU Max 1550"}, {}, "pvc"),
    ("cuda-linux", {"name": "NVIDIA L4", "capability": "sm_89"}, {}, "sm_89"),
    ("cuda-linux", {"name": "NVIDIA B200", "capability": "sm_100"}, {}, "sm_100"),
    ("cuda-linux", {"name": "Tesla P100", "capability": "sm_60"}, {}, ""),
    ("cuda-linux", {"name": "AMD EPYC"}, {}, ""),
    ("cpu-linux", {"name": "NVIDIA L4", "capability": "sm_89"}, {}, ""),
    ("mps-macos", {"name": "Apple M4 Max"}, {}, "apple"),
]


@pytest.mark.parametrize(("target", "shown", "stack", "families"), FAMILIES)
def test_a_device_has_the_families_that_its_target_is_for(
    target: str, shown: Content, stack: Content, families: str
) -> None:
    seen = Predicate.model_construct(device=shown, stack=stack)
    content = Statement.model_construct(predicate=seen)
    project = Project(ROOT)
    devices = read_devices(project.catalog)
    found = families_of(content, load_target(project.specs, target), devices)
    assert " ".join(found) == families


def test_attack_what_is_no_key_beside_the_keys(repository: Repository) -> None:
    keys = repository.project.evidence / "keys"
    names = ["README", ".htaccess", "evil.html.", ".gitkeep"]
    for name in names:
        (keys / name).write_text("<script>")
    found = check_folder(repository.project, "")
    assert sorted(each.file.name for each in found) == sorted(names)
    for each in found:
        assert each.reason == "only public keys, *.pub, belong into this folder"


def test_attack_a_program_and_a_module_of_git_as_evidence(
    repository: Repository,
) -> None:
    place = submit(repository.project, repository.write(repository.content())).file
    root = repository.project.root
    place.chmod(0o755)
    git(root, "add", "--all")
    module = f"160000,{repository.commit},docs/evidence/cpu-linux/module"
    git(root, "update-index", "--add", "--cacheinfo", module)
    (root / "docs/evidence/cpu-linux/module").mkdir()
    said = " and no plain file"
    modes = [reason.removesuffix(said)[-8:] for reason in repository.reasons()]
    assert sorted(modes) == ["100755),", "160000),"]


def stale_file(repository: Repository) -> None:
    """Commit evidence, and then another lock and another suite."""
    repository.place(repository.content())
    commit_all(repository.project.root)
    root = repository.project.root
    shutil.copy(
        root / "lockfiles" / "arc-linux" / "requirements.txt",
        root / "lockfiles" / "cpu-linux",
    )
    (root / "smoke" / "run.py").write_text("# another\n")
    commit_all(root)


def test_a_shallow_clone_is_said_to_be_one_instead_of_a_forgery(
    repository: Repository, tmp_path: Path
) -> None:
    stale_file(repository)
    git(
        tmp_path,
        "clone",
        "--quiet",
        "--depth=1",
        repository.project.root.as_uri(),
        "cut",
    )
    with pytest.raises(ToolError, match="is cut off") as failed:
        check_folder(Project(tmp_path / "cut"), "")
    assert "git fetch --unshallow" in failed.value.remedy


def test_the_suite_of_a_project_without_one_is_not_compared(
    repository: Repository,
) -> None:
    """It is that of the toolkit, whose history is elsewhere."""
    content = repository.content()
    edit("predicate", "checks_digest", value="7" * 64)(content)
    repository.place(content)
    shutil.rmtree(repository.project.root / "smoke")
    commit_all(repository.project.root)
    (found,) = check_folder(Project(repository.project.root), "")
    assert found.state == "stale"
    assert found.reason.endswith("one of Provision's is not compared")


@pytest.mark.slow
def test_the_history_is_read_once_for_all_files(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    real = committed.git

    def counted(project: Project, *words: str, stdin: str | None = None) -> str:
        asked.append(words)
        return real(project, *words, stdin=stdin)

    stale_file(repository)
    history = committed.History(repository.project)
    monkeypatch.setattr(committed, "git", counted)
    digest = repository.content()["predicate"]["checks_digest"]
    assert history.had_suite(suite_digest(repository.project))
    first = len(asked)
    assert [each[0] for each in asked].count("cat-file") == 1
    assert not history.had_suite("7" * 64)
    assert history.had_suite(digest)
    assert len(asked) == first + 1  # whether the clone is shallow


def test_a_user_called_as_a_device_or_a_field_can_submit(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("Graphics", "matmul"):
        monkeypatch.setattr(submissions.platform, "node", lambda name=name: name)
        submit(
            repository.project, repository.write(repository.content("arc-linux", ARC))
        )


def test_the_commands_are_those_of_every_shell(repository: Repository) -> None:
    """Of cmd.exe, too, which does not know single quotes; and nothing else is committed."""
    name = 'Xeon "$(x)" `y` %PATH% 100!'
    content = repository.content(device={"name": name.replace("`y` ", ""), "count": 1})
    made = submit(repository.project, repository.write(content))
    path = made.file.relative_to(repository.project.root).as_posix()
    title = "Evidence of cpu-linux on Xeon (x) PATH 100"
    assert f'git commit --message "{title}" -- {path}' in made.commands
    assert "'" not in "".join(made.commands)


def unknown_families(project: Project, target: str) -> list[str]:
    """Return the families on which nobody has proven a target."""
    families: list[str] = []
    for cell in cells(project):
        if cell.target == target and cell.state == "unknown":
            families += cell.families
    return families


@pytest.mark.slow
def test_a_name_of_several_families_proves_none_of_them(repository: Repository) -> None:
    before = unknown_families(repository.project, "arc-linux")
    named = ARC | {"name": "Intel(R) Arc(TM) Graphics"}
    submit(repository.project, repository.write(repository.content("arc-linux", named)))
    assert unknown_families(repository.project, "arc-linux") == before
    (cell,) = [cell for cell in cells(repository.project) if cell.entry]
    assert len(cell.families) > 1


@pytest.mark.slow
def test_a_further_device_that_is_slow_makes_the_cell_slow(
    repository: Repository,
) -> None:
    content = repository.content("arc-linux", ARC)
    seen = content["predicate"]
    seen["devices"] = [seen["device"], seen["device"]]
    for check in list(seen["checks"]):
        if check["id"] in ("device.ready", "throughput.training"):
            seen["checks"].append(check | {"id": f"{check['id']}@1"})
    submit(repository.project, repository.write(content))
    (before,) = [cell for cell in cells(repository.project) if cell.entry]
    seen["checks"][-1]["outcome"] = "warned"
    seen["report"] = "d" * 64
    submit(repository.project, repository.write(content))
    states = [cell.state for cell in cells(repository.project) if cell.entry]
    assert before.state == "green"
    assert sorted(states) == ["green", "slow"]


INDEX = "reference/known-wrong.md"


def cells(project: Project) -> list[Cell]:
    return matrix(project, read_matrix(project))


def rows(project: Project) -> list[str]:
    """Return the rows of the page that are about signed reports."""
    page = script("draw_known_wrong").index(project, with_reports=True)
    return [line for line in page.splitlines() if "[signed report" in line]


def test_the_page_has_what_was_proven_and_marks_what_is_slow_or_stale(
    repository: Repository,
) -> None:
    project = repository.project
    page = committed_page = script("draw_known_wrong").pages(project)[INDEX]
    assert "| `dg2`, `bmg`, `mtl`" in page
    assert "-s evidence-cpu-linux`" in page
    submit(project, repository.write(repository.content()))
    content = repository.content("arc-linux", ARC)
    content["predicate"]["report"] = "c" * 64
    for check in content["predicate"]["checks"]:
        if check["id"] == "throughput.training":
            check["outcome"] = "warned"
    submit(project, repository.write(content))
    slow, green = rows(project)
    assert "Arc&#40;" not in slow
    assert (
        "| Intel(R) Arc(TM) A770 Graphics (dg2) | Linux | 2.12.1+xpu | 1.6.33578+15 |"
        in slow
    )
    assert "| **slow** |" in slow
    assert "| **green** |" in green
    assert "](../evidence/cpu-linux/torch-2.13.0+cpu_cpu_no-driver_" in green
    assert "key `SHA256:" in green
    page = script("draw_known_wrong").index(project, with_reports=True)
    assert "-s evidence-cpu-linux`" not in page
    arc = load_target(project.specs, "arc-linux").hardware.families
    families = ", ".join(f"`{family}`" for family in arc if family != "dg2")
    assert f"| {families} | Linux | `2.12.1+xpu`" in page
    # The page in the repository stays as it is: a merged report leaves its branch green.
    assert script("draw_known_wrong").pages(project)[INDEX] == committed_page
    (project.root / "smoke" / "run.py").write_text("# another\n")
    slow, green = rows(project)
    assert "| **slow**, stale: it was made with another suite of checks" in slow
    assert "| **green**, stale: " in green


def test_attack_markup_that_a_signer_wrote_is_text_on_the_page() -> None:
    hostile = "<img src=x onerror=alert(1)> **A** [x](http://e.org) `c` _d_ | # &lt; \\"
    cell = script("draw_known_wrong").escaped(hostile)
    assert not re.search(r"[<>\[\]`*_|\\]", cell)
    assert html.unescape(cell) == hostile
    page = markdown.markdown(f"| a |\n|---|\n| {cell} |\n", extensions=["tables"])
    assert re.findall(r"<(?!/?(?:table|thead|tbody|tr|th|td)>)", page) == []


def test_attack_a_refused_file_stops_the_page(repository: Repository) -> None:
    place = submit(repository.project, repository.write(repository.content())).file
    place.rename(place.with_name("x.json"))
    with pytest.raises(SpecError, match=r"x\.json is no evidence") as failed:
        rows(repository.project)
    assert "provision evidence check" in failed.value.remedy


def workflow_steps() -> list[str]:
    """Return the scripts of the workflow."""
    text = (ROOT / ".github" / "workflows" / "evidence.yml").read_text(encoding="utf-8")
    (job,) = yaml.safe_load(text)["jobs"].values()
    return [step["run"] for step in job["steps"] if "run" in step]


class Forge:
    """Runs the workflow's own scripts, in the clone that its checkout makes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "project"
        copy_files(
            self.root,
            without=("tests/", "docs/how-to", "docs/pictures", "docs/evidence/"),
        )
        (self.root / "docs" / "evidence" / "keys").mkdir(parents=True)
        (self.root / "docs" / "evidence" / "keys" / ".gitkeep").touch()
        self.base = commit_all(self.root)

    def check(self, *steps: str) -> subprocess.CompletedProcess[str]:
        """Propose what the project has now, run steps, and take it back."""
        head = commit_all(self.root)
        git(self.root, "update-ref", "refs/pull/1/head", head)
        git(self.root, "config", "uploadpack.allowAnySHA1InWant", "true")
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        git(self.folder, "clone", "--quiet", "--no-checkout", self.root.as_uri(), work)
        git(work, "checkout", "--quiet", self.base)
        link_tools(work)
        script = "\n".join(["set -e", *steps])
        argv = ["bash", "-c", script.replace("python3 ", f"{sys.executable} ")]
        done = subprocess.run(
            argv,
            cwd=work,
            env=os.environ | {"HEAD_SHA": head, "RUNNER_TEMP": str(self.folder)},
            check=False,
            capture_output=True,
            text=True,
        )
        git(self.root, "reset", "--quiet", "--hard", self.base)
        return done


@pytest.mark.slow
def test_the_workflow_accepts_evidence_and_refuses_a_forgery(tmp_path: Path) -> None:
    """The tools are there already."""
    forge = Forge(tmp_path)
    pull = Repository(tmp_path)
    place = submit(pull.project, pull.write(pull.content())).file
    good = forge.check(*workflow_steps())
    assert good.returncode == 0, good.stdout + good.stderr
    assert f"valid: {place.relative_to(forge.root)}" in re.sub(
        r"\S+/work/", "", good.stdout
    )
    content = pull.content()
    content["predicate"]["torch"] = "2.99.0"
    place.parent.mkdir(exist_ok=True)
    pull.write(content).replace(place)
    bad = forge.check(*workflow_steps())
    assert bad.returncode == 1, bad.stdout + bad.stderr
    assert "torch 2.99.0" in bad.stdout


def test_attack_the_workflow_takes_nothing_but_plain_files_of_evidence(
    tmp_path: Path,
) -> None:
    """Evidence with code beside it, and in its folder a program, a link or a module of git."""
    forge = Forge(tmp_path)
    pull = Repository(tmp_path)
    take, _ = workflow_steps()
    content = pull.content()
    folder = forge.root / "docs" / "evidence" / "cpu-linux"

    def nothing(_: Path) -> None:
        pass

    def code(_: Path) -> None:
        (forge.root / "provision" / "__init__.py").write_text("raise SystemExit(0)\n")
        (forge.root / ".github" / "x.yml").write_text("on: push\n")

    def module(_: Path) -> None:
        named = f"160000,{forge.base},docs/evidence/cpu-linux/module"
        (folder / "module").mkdir()
        git(forge.root, "update-index", "--add", "--cacheinfo", named)

    def link(place: Path) -> None:
        place.with_name("x.json").symlink_to(place.name)

    for changed, said in (
        (nothing, "A  docs/evidence/cpu-linux/torch-"),
        (code, "provision/__init__.py"),
        (module, "160000"),
        (link, "120000"),
        (lambda place: place.chmod(0o755), "100755"),
    ):
        changed(submit(pull.project, pull.write(content)).file)
        done = forge.check(take, "git status --porcelain")
        assert (done.returncode == 0) == (changed is nothing), done.stderr
        assert said in done.stdout


def test_the_workflow_runs_no_file_of_a_pull_request() -> None:
    """Nor has it a right or a secret that one could use."""
    text = (ROOT / ".github" / "workflows" / "evidence.yml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    (job,) = workflow["jobs"].values()
    assert list(workflow["on"]) == ["pull_request_target"]
    assert workflow["permissions"] == {}
    assert job["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    checkout = next(s["with"] for s in job["steps"] if "checkout" in s.get("uses", ""))
    assert checkout == {"fetch-depth": 0, "persist-credentials": False}


def link_tools(work: Path) -> None:
    """Give a clone the tools that run this test, as if its lock had installed them."""
    tools = work / ".tools"
    tools.mkdir()
    for part in Path(sys.prefix).iterdir():
        if part.suffix != ".stamp":
            (tools / part.name).symlink_to(part)
    lock = (work / "lockfiles" / "tools" / "dev.txt").read_bytes()
    (tools / "complete.stamp").write_text(hashlib.sha256(lock).hexdigest())
