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

    from provision.commands.submissions import Submission

    Change = Callable[[dict[str, Any]], None]
    ChangeOfText = Callable[[str], str]

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
    memory = device.get("memory", 0) / 2**30
    fields = template.model_dump()
    fields["numbers"] = {
        "count": {"value": 1, "unit": "count"},
        "memory": {"value": memory, "unit": "GiB"},
    }
    ready = template.model_validate(fields)
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
    )
    whole = made.model_copy(update={"checks": tuple(checks)})
    text = statement(whole).model_dump_json(by_alias=True)
    return json.loads(text)  # type: ignore[no-any-return]


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

    def submit(self, content: Content | None = None) -> Submission:
        """Sign a content, else one that is right, and submit it."""
        file = self.write(content or self.content())
        return submit(self.project, file)

    def place(self, content: Content) -> Path:
        """Put a file where its content says, past all checks, as a pull request can."""
        place = self.submit().file
        (subject,) = content["subject"]
        target = place.parent.with_name(subject["name"])
        target.mkdir(exist_ok=True)
        moved = target / place.name
        place.rename(moved)
        self.write(content).replace(moved)
        return moved

    def reasons(self, since: str = "HEAD") -> list[str]:
        found = check_folder(self.project, since)
        return [each.reason for each in found]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repository, str]:
    folder = tmp_path_factory.mktemp("matrix")
    root = folder / "project"
    no_caches = shutil.ignore_patterns("*.pyc")
    locks = [f"lockfiles/{name}" for name in TARGETS]
    for name in ("envs", "smoke", *locks):
        shutil.copytree(ROOT / name, root / name, ignore=no_caches)
    make_keys(root)
    made = Repository(folder)
    made.commit = commit_all(root)
    return made, made.commit


def make_keys(root: Path) -> None:
    """Make the folder of the keys that a project names, without any."""
    keys = root / "docs" / "evidence" / "keys"
    keys.mkdir(parents=True)
    (keys / ".gitkeep").touch()


@pytest.fixture
def repository(made: tuple[Repository, str]) -> Repository:
    """A repository as it was made, with a new key."""
    shared, commit = made
    root = shared.project.root
    git(root, "reset", "--quiet", "--hard", commit)
    git(root, "clean", "--quiet", "-fd")
    shared.key = make_key(shared.key.parent, "signer")
    return shared


def refusal(repository: Repository, content: Content) -> str:
    with pytest.raises(UsageError, match="cannot be submitted") as failed:
        repository.submit(content)
    placed = repository.project.evidence.rglob("*.json")
    assert list(placed) == []
    return failed.value.evidence


def test_a_file_is_put_where_its_content_says_and_can_be_submitted_again(
    repository: Repository,
) -> None:
    content = repository.content("arc-linux", ARC)
    file = repository.write(content)
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
    signer = repository.key.parent / "keys" / "signer.pub"
    shutil.copy(signer, keys)
    commit_all(repository.project.root)
    (found,) = check_folder(repository.project, "")
    assert found.key == "signer"


def test_a_clone_on_windows_has_the_same_suite_and_evidence(
    repository: Repository,
) -> None:
    """Where git writes other line ends."""
    root = repository.project.root
    attributes = ROOT / "docs" / ".gitattributes"
    shutil.copy(attributes, root / "docs")
    place = repository.submit().file
    commit_all(root)
    clone = repository.path.with_name("clone")
    git(root, "clone", "--quiet", "--config", "core.autocrlf=true", root, clone)
    suite = clone / "smoke" / "run.py"
    assert b"\r\n" in suite.read_bytes()
    theirs = Project(clone)
    assert suite_digest(theirs) == suite_digest(repository.project)
    (found,) = check_folder(theirs, "")
    assert found.state == "valid"
    assert found.reason == ""
    assert found.file.name == place.name


def edit(*path: str | int, value: object) -> Change:
    """Return what changes one place of a statement."""
    *parents, last = path

    def change(content: Content) -> None:
        part: Any = content
        for key in parents:
            part = part[key]
        part[last] = value

    return change


def target(name: str) -> Change:
    """Return what changes the target that a statement is about."""
    return edit("subject", 0, "name", value=name)


def torch(version: str | None) -> Change:
    return edit("predicate", "torch", value=version)


def started(time: str) -> Change:
    return edit("predicate", "started", value=time)


def layer(name: str, version: str) -> Change:
    """Return what changes a layer of the stack, or adds it."""
    return edit("predicate", "stack", name, value=version)


def device(**changes: object) -> Change:
    """Return what changes the device, in both places."""

    def change(content: Content) -> None:
        seen = content["predicate"]
        shown = seen["device"] | changes
        seen["device"] = shown
        if seen["devices"]:
            seen["devices"] = [shown]

    return change


def hidden_driver(content: Content) -> None:
    hide = device(driver=None)
    hide(content)
    stack = content["predicate"]["stack"]
    stack["compute-runtime"] = NOT_KNOWN


def left_out(check: str, reason: str | None) -> Change:
    """Return what removes a check, and says that it was not run."""

    def change(content: Content) -> None:
        seen = content["predicate"]
        others = [each for each in seen["checks"] if each["id"] != check]
        seen["checks"] = others
        if reason is not None:
            seen["not_run"].append({"id": check, "reason": reason})

    return change


def checked(check: str, **changes: object) -> Change:
    """Return what changes the result of a check."""

    def change(content: Content) -> None:
        for each in content["predicate"]["checks"]:
            if each["id"] == check:
                each.update(changes)

    return change


def added(part: str, entry: Content) -> Change:
    """Return what adds an entry to a list of the predicate."""

    def change(content: Content) -> None:
        content["predicate"][part].append(entry)

    return change


def passed(check: str) -> Change:
    """Return what adds the result of a check."""
    numbers = {"n": {"value": 1, "unit": "count"}}
    return added("checks", {"id": check, "outcome": "passed", "numbers": numbers})


def not_run(check: str, **fields: str) -> Change:
    """Return what adds a check that was not run, with a reason of the suite."""
    reason = "only in a group of processes"
    return added("not_run", {"id": check, "reason": reason, **fields})


def second_device(content: Content) -> None:
    """Add a device that no check was run on."""
    seen = content["predicate"]
    seen["devices"] = [seen["device"], {"name": "Toaster"}]


# What a signer writes, with a key of their own -> a part of the sentence that refuses it.
CLAIMS: dict[str, tuple[Change, str]] = {
    "another target": (
        target("max-linux"),
        "no device that max-linux",
    ),
    "no target": (
        target("rocm-linux"),
        "no target of this project",
    ),
    "a path as target": (target("../../x"), "has to match"),
    "another device": (
        device(name="NVIDIA H100 PCIe"),
        "NVIDIA H100 PCIe is no device that",
    ),
    "no device": (
        edit("predicate", "device", value={}),
        "its device is no device that",
    ),
    "another system": (layer("platform", "win-64"), "made on win-64"),
    "another torch": (
        torch("2.13.0+xpu"),
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
        passed("made.up"),
        "no check made.up",
    ),
    "a reason for a check of nobody": (
        not_run("made.up"),
        "no check made.up",
    ),
    "a check twice": (
        passed("device.matmul"),
        "device.matmul is there 2 times",
    ),
    "a check run and not run": (
        not_run("group.exchange"),
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
        not_run("group.exchange", reason="", started="<img>"),
        "unknown key",
    ),
    "a layer started": (layer("started", "<script>"), "stack.started has"),
    "a layer of a name": (
        layer("GPU kernel-started", "x"),
        "'GPU kernel-started' is no layer",
    ),
    "a further device without checks": (second_device, "has no device.ready@1"),
    "an old driver": (
        device(driver="1.3.27191+1"),
        "driver 1.3.27191+1 is not >=25.18.33578",
    ),
    "an old runtime": (
        layer("compute-runtime", "24.39.31294"),
        "driver 24.39.31294 is not",
    ),
    "no driver": (device(driver=None), "it has driver none"),
    "a driver that is hidden": (hidden_driver, "it has driver none"),
    "a driver of no format": (device(driver="0.0.1+0"), "it has driver 0.0.1+0, and"),
    "a build for another device": (
        torch("2.12.1+cu130"),
        "torch 2.12.1+cu130, and its lock has 2.12.1+xpu",
    ),
    "no torch": (torch(None), "made with torch none"),
    "a day as a cell": (started("2026W011|10:00:00+00:00"), "started"),
    "a day as markup": (started("2026-01-01<10:00:00+00:00"), "started"),
    "a time without zone": (started("2026-11-01T10:00:00"), "started"),
    "a huge count": (device(count=10**400), "count"),
    "a package not locked": (
        left_out("offload.cpu", "needs accelerate, which is not locked"),
        "is not so of arc-linux",
    ),
    "a future day": (started("2099-01-01T00:00:00Z"), "in the future"),
    "a script": (device(name=f"{ARC['name']} (<script>alert())"), "predicate.device"),
    "a link": (device(driver="[1.6](javascript://x)"), "device.driver has markup"),
    "a home": (layer("kernel", "6.1 /home/jane/linux"), "has a path"),
    "a token": (layer("kernel", "hf_" + "aB1" * 10), "or a token"),
    "a serial": (
        layer("firmware", "SN 4f2a90d17c3b55e8"),
        "a serial number",
    ),
    "a uuid": (
        layer("GPU 0", "GPU-1b2c3d4e-0000-1111-2222-333344445555"),
        "a token",
    ),
    "the host": (layer("kernel", "6.1-build7qx"), "name of this machine"),
    "a serial of the device": (device(serial="A1B2"), "has no 'serial' of a device"),
    "a layer more": (layer("host", "box"), "'host' is no layer"),
    "a long text": (layer("kernel", "6" * 301), "is too long"),
    "a version of more": (
        torch("2.12.1+xpu (free)"),
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
    claim: Change,
    said: str,
) -> None:
    monkeypatch.setattr(submissions.platform, "node", lambda: "build7qx.example.org")
    content = repository.content("arc-linux", ARC)
    claim(content)
    assert said in refusal(repository, content)


def _written(document: Content) -> str:
    return json.dumps(document, indent=1) + "\n"


def _resealed(change: Change) -> ChangeOfText:
    """Return what changes the content of a file under the signature that it has."""

    def changed(text: str) -> str:
        document = json.loads(text)
        signed = base64.b64decode(document["payload"])
        content = json.loads(signed)
        change(content)
        payload = json.dumps(content, separators=(",", ":")).encode()
        document["payload"] = base64.b64encode(payload).decode()
        return _written(document)

    return changed


def _unsigned(text: str) -> str:
    document = json.loads(text)
    document["signatures"] = []
    return _written(document)


def _one_space_more(text: str) -> str:
    return text + " "


def _a_million_spaces_more(text: str) -> str:
    return text + " " * 1_000_000


def _nested(text: str) -> str:
    return "[" * 100_000


def _page(text: str) -> str:
    return "<html>"


NUMBER = ("predicate", "checks", 0, "numbers", "float32", "value")
CHANGED_NUMBER = edit(*NUMBER, value=2e-7)
BYTES: dict[str, tuple[ChangeOfText, str]] = {
    "a changed report": (_resealed(CHANGED_NUMBER), "after it was signed"),
    "a changed statement": (
        _resealed(layer("kernel", "6.2")),
        "after it was signed",
    ),
    "no signature": (_unsigned, "not one signed"),
    "another form": (_one_space_more, "not those that"),
    "too large": (_a_million_spaces_more, "larger than evidence"),
    "too deep": (_nested, "too deeply"),
    "no JSON": (_page, ""),
}


@pytest.mark.parametrize(("change", "said"), BYTES.values(), ids=BYTES)
def test_attack_a_file_that_was_changed(
    repository: Repository, change: ChangeOfText, said: str
) -> None:
    place = repository.submit().file
    text = place.read_text()
    place.write_text(change(text))
    (reason,) = repository.reasons()
    assert reason
    assert said in reason


def test_attack_another_key_than_the_one_that_signed(repository: Repository) -> None:
    place = repository.submit().file
    folder = repository.key.parent
    make_key(folder, "other")
    other = folder / "keys" / "other.pub"
    kind, key, *_ = other.read_text().split()
    document = json.loads(place.read_text())
    document["publicKey"] = f"{kind} {key}"
    place.write_text(_written(document))
    (reason,) = repository.reasons()
    assert reason == "it was signed with another key than the one that it names"


def test_attack_a_lock_and_a_suite_that_never_were(repository: Repository) -> None:
    """In files that were added some time ago: only the git history tells them from stale ones."""
    lock = edit("subject", 0, "digest", "sha256", value="1" * 64)
    suite = edit("predicate", "checks_digest", value="2" * 64)
    for claim, said in (
        (lock, "its lock was never one of cpu-linux"),
        (suite, "its suite of checks was never one of"),
    ):
        content = repository.content()
        claim(content)
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
    repository.submit(repository.content("arc-linux", ARC))
    commit_all(root)
    spec = root / "envs/arc-linux.toml"
    text = spec.read_text()
    spec.write_text(text.replace(">=25.18.33578", ">=26.18.38308"))
    (reason,) = repository.reasons("")
    assert "driver 1.6.33578+15 is not >=26.18.38308" in reason
    another = root / "lockfiles/cpu-linux/requirements.txt"
    shutil.copy(another, root / "lockfiles/arc-linux")  # as locked anew
    (reason,) = repository.reasons("")
    assert reason == "arc-linux has another lock now"


@pytest.mark.parametrize(
    "name", ["torch-9_cpu_no-driver.json", "../max-linux/x.json", "../x.json"]
)
def test_attack_a_name_that_claims_another_device_or_target(
    repository: Repository, name: str
) -> None:
    place = repository.submit().file
    moved = (place.parent / name).resolve()
    moved.parent.mkdir(exist_ok=True)
    place.rename(moved)
    (reason,) = repository.reasons()
    assert f"its content belongs into cpu-linux/{place.name}" in reason


def test_attack_one_run_in_two_files(repository: Repository) -> None:
    """Under a second name, and signed again with a second key for another driver."""
    content = repository.content("arc-linux", ARC)
    first = repository.submit(content).file
    claim = device(driver="1.6.99999")
    claim(content)
    repository.key = make_key(repository.key.parent, "thief")
    with pytest.raises(UsageError) as failed:
        repository.submit(content)
    assert first.name in failed.value.evidence
    name = first.name.replace("33578+15", "99999")
    second = first.with_name(name)
    repository.path.replace(second)
    same = f"of the same run as {first.name}"
    of_first, of_second = repository.reasons()
    assert same not in of_first
    assert same in of_second


def test_attack_another_signer_in_a_place_that_is_taken(repository: Repository) -> None:
    content = repository.content()
    place = repository.submit(content).file
    before = place.read_bytes()
    repository.key = make_key(repository.key.parent, "thief")
    with pytest.raises(UsageError) as failed:
        repository.submit(content)
    assert "is there already" in failed.value.evidence
    assert place.read_bytes() == before
    commit_all(repository.project.root)
    repository.path.replace(place)
    assert repository.reasons() == ["it belongs to others: evidence is only added"]
    place.unlink()
    assert repository.reasons() == ["it belongs to others: evidence is only added"]


def test_attack_a_link_to_evidence_outside(repository: Repository) -> None:
    """Which could change after it was checked."""
    place = repository.submit().file
    place.replace(repository.path)
    place.symlink_to(repository.path)
    (reason,) = repository.reasons()
    assert reason.startswith("it is a link")


def test_attack_what_is_no_evidence_in_the_folder(repository: Repository) -> None:
    """A link to a file outside, a page, and a name for one's own key."""
    folder = repository.project.evidence
    place = repository.submit().file
    page = folder / "page.html"
    page.write_text("<script>")
    file_link = folder / "link.json"
    file_link.symlink_to("/etc/passwd")
    folder_link = folder / "folder"
    folder_link.symlink_to("/etc")
    key = repository.key.parent / "keys" / "signer.pub"
    own_name = folder / "keys" / "torvalds.pub"
    shutil.copy(key, own_name)
    found = check_folder(repository.project, "HEAD")
    states = {each.file: each.state for each in found}
    assert states.pop(place) == "valid"
    strays = (page, file_link, folder_link, own_name)
    assert states == dict.fromkeys(strays, "refused")


def families(target: str, stack: Content, **device: str) -> str:
    """Return the families that a target's device belongs to, by what a report says of it."""
    seen = Predicate.model_construct(device=device, stack=stack)
    content = Statement.model_construct(predicate=seen)
    project = Project(ROOT)
    devices = read_devices(project.catalog)
    spec = load_target(project.specs, target)
    return " ".join(families_of(content, spec, devices))


@pytest.mark.parametrize(
    ("target", "name", "expected"),
    [
        ("arc-linux", "Intel(R) Arc(TM) B580 Graphics", "bmg"),
        ("arc-linux", "Intel(R) Arc(TM) 140V GPU (16GB)", "lnl"),
        ("arc-linux", "Intel(R) Graphics [0x7d55]", "mtl"),
        ("arc-linux", "Intel(R) Arc(TM) Graphics", "arl lnl mtl"),
        ("arc-linux", "Intel(R) Data Center GPU Max 1550", ""),
        ("max-linux", "Intel(R) Data Center GPU Max 1550", "pvc"),
        ("cuda-linux", "AMD EPYC", ""),
        ("mps-macos", "Apple M4 Max", "apple"),
    ],
)
def test_a_device_has_the_families_that_its_target_is_for(
    target: str, name: str, expected: str
) -> None:
    assert families(target, {}, name=name) == expected


@pytest.mark.parametrize(
    ("target", "name", "capability", "expected"),
    [
        ("cuda-linux", "NVIDIA L4", "sm_89", "sm_89"),
        ("cuda-linux", "NVIDIA B200", "sm_100", "sm_100"),
        ("cuda-linux", "Tesla P100", "sm_60", ""),
        ("cpu-linux", "NVIDIA L4", "sm_89", ""),
    ],
)
def test_a_device_of_nvidia_has_its_capability_as_family(
    target: str, name: str, capability: str, expected: str
) -> None:
    assert families(target, {}, name=name, capability=capability) == expected


def test_a_device_without_a_model_in_its_name_has_the_family_of_its_layer() -> None:
    stack = {"GPU 0": "Intel Arc Pro A40/A50"}
    assert families("arc-linux", stack, name="Intel(R) Graphics") == "dg2"


def test_attack_what_is_no_key_beside_the_keys(repository: Repository) -> None:
    keys = repository.project.evidence / "keys"
    names = ["README", ".htaccess", "evil.html.", ".gitkeep"]
    for name in names:
        (keys / name).write_text("<script>")
    found = check_folder(repository.project, "")
    found_names = []
    for each in found:
        found_names.append(each.file.name)
        assert each.reason == "only public keys, *.pub, belong into this folder"
    assert sorted(found_names) == sorted(names)


def test_attack_a_program_and_a_module_of_git_as_evidence(
    repository: Repository,
) -> None:
    place = repository.submit().file
    root = repository.project.root
    place.chmod(0o755)
    git(root, "add", "--all")
    module = "docs/evidence/cpu-linux/module"
    entry = f"160000,{repository.commit},{module}"
    git(root, "update-index", "--add", "--cacheinfo", entry)
    (root / module).mkdir()
    modes = []
    for reason in repository.reasons():
        before = reason.removesuffix(" and no plain file")
        modes.append(before[-8:])
    assert sorted(modes) == ["100755),", "160000),"]


def stale_file(repository: Repository) -> None:
    """Commit evidence, and then another lock and another suite."""
    repository.place(repository.content())
    commit_all(repository.project.root)
    root = repository.project.root
    locks = root / "lockfiles"
    other = locks / "arc-linux" / "requirements.txt"
    shutil.copy(other, locks / "cpu-linux")
    suite = root / "smoke" / "run.py"
    suite.write_text("# another\n")
    commit_all(root)


def test_a_shallow_clone_is_said_to_be_one_instead_of_a_forgery(
    repository: Repository, tmp_path: Path
) -> None:
    stale_file(repository)
    origin = repository.project.root.as_uri()
    git(tmp_path, "clone", "--quiet", "--depth=1", origin, "cut")
    cut = Project(tmp_path / "cut")
    with pytest.raises(ToolError, match="is cut off") as failed:
        check_folder(cut, "")
    assert "git fetch --unshallow" in failed.value.remedy


def test_the_suite_of_a_project_without_one_is_not_compared(
    repository: Repository,
) -> None:
    """It is that of the toolkit, whose history is elsewhere."""
    content = repository.content()
    content["predicate"]["checks_digest"] = "7" * 64
    repository.place(content)
    root = repository.project.root
    shutil.rmtree(root / "smoke")
    commit_all(root)
    (found,) = check_folder(Project(root), "")
    assert found.state == "stale"
    assert found.reason.endswith("one of Provision's is not compared")


@pytest.mark.slow
def test_the_history_is_read_once_for_all_files(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = committed.git

    def counted(project: Project, verb: str, *words: str, **options: Any) -> str:  # noqa: ANN401
        asked.append(verb)
        return real(project, verb, *words, **options)

    stale_file(repository)
    history = committed.History(repository.project)
    monkeypatch.setattr(committed, "git", counted)
    content = repository.content()
    digest = content["predicate"]["checks_digest"]
    assert history.had_suite(suite_digest(repository.project))
    first = len(asked)
    assert asked.count("cat-file") == 1
    assert not history.had_suite("7" * 64)
    assert history.had_suite(digest)
    assert len(asked) == first + 1  # whether the clone is shallow


def test_a_user_called_as_a_device_or_a_field_can_submit(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = repository.content("arc-linux", ARC)
    for name in ("Graphics", "matmul"):
        monkeypatch.setattr(submissions.platform, "node", lambda name=name: name)
        repository.submit(content)


def test_the_commands_are_those_of_every_shell(repository: Repository) -> None:
    """Of cmd.exe, too, which does not know single quotes; and nothing else is committed."""
    name = 'Xeon "$(x)" `y` %PATH% 100!'
    shown = {"name": name.replace("`y` ", ""), "count": 1}
    content = repository.content(device=shown)
    made = repository.submit(content)
    path = made.file.relative_to(repository.project.root)
    title = "Evidence of cpu-linux on Xeon (x) PATH 100"
    commit = f'git commit --message "{title}" -- {path.as_posix()}'
    assert commit in made.commands
    for command in made.commands:
        assert "'" not in command


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
    repository.submit(repository.content("arc-linux", named))
    assert unknown_families(repository.project, "arc-linux") == before
    (cell,) = proven_cells(repository.project)
    assert len(cell.families) > 1


@pytest.mark.slow
def test_a_further_device_that_is_slow_makes_the_cell_slow(
    repository: Repository,
) -> None:
    content = repository.content("arc-linux", ARC)
    seen = content["predicate"]
    seen["devices"] = [seen["device"], seen["device"]]
    of_second = []
    for check in seen["checks"]:
        if check["id"] in ("device.ready", "throughput.training"):
            of_second.append(check | {"id": f"{check['id']}@1"})
    seen["checks"] += of_second
    repository.submit(content)
    (before,) = proven_cells(repository.project)
    of_second[-1]["outcome"] = "warned"
    seen["report"] = "d" * 64
    repository.submit(content)
    after = proven_cells(repository.project)
    states = [cell.state for cell in after]
    assert before.state == "green"
    assert sorted(states) == ["green", "slow"]


INDEX = "reference/known-wrong.md"


def cells(project: Project) -> list[Cell]:
    return matrix(project, read_matrix(project))


def proven_cells(project: Project) -> list[Cell]:
    return [cell for cell in cells(project) if cell.entry]


def rows(project: Project) -> list[str]:
    """Return the rows of the page that are about signed reports."""
    page = script("draw_known_wrong").index(project, with_reports=True)
    lines = page.splitlines()
    return [line for line in lines if "[signed report" in line]


def test_the_page_has_what_was_proven_and_marks_what_is_slow_or_stale(
    repository: Repository,
) -> None:
    project = repository.project
    drawing = script("draw_known_wrong")
    committed_page = drawing.pages(project)[INDEX]
    assert "| `dg2`, `bmg`, `mtl`" in committed_page
    assert "-s evidence-cpu-linux`" in committed_page
    repository.submit()
    content = repository.content("arc-linux", ARC)
    content["predicate"]["report"] = "c" * 64
    slower = checked("throughput.training", outcome="warned")
    slower(content)
    repository.submit(content)
    slow, green = rows(project)
    assert "Arc&#40;" not in slow
    device = "| Intel(R) Arc(TM) A770 Graphics (dg2) | Linux |"
    assert f"{device} 2.12.1+xpu | 1.6.33578+15 |" in slow
    assert "| **slow** |" in slow
    assert "| **green** |" in green
    assert "](../evidence/cpu-linux/torch-2.13.0+cpu_cpu_no-driver_" in green
    assert "key `SHA256:" in green
    page = drawing.index(project, with_reports=True)
    assert "-s evidence-cpu-linux`" not in page
    arc = load_target(project.specs, "arc-linux").hardware.families
    families = ", ".join(f"`{family}`" for family in arc if family != "dg2")
    assert f"| {families} | Linux | `2.12.1+xpu`" in page
    # The page in the repository stays as it is: a merged report leaves its branch green.
    assert drawing.pages(project)[INDEX] == committed_page
    suite = project.root / "smoke" / "run.py"
    suite.write_text("# another\n")
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
    place = repository.submit().file
    place.rename(place.with_name("x.json"))
    with pytest.raises(SpecError, match=r"x\.json is no evidence") as failed:
        rows(repository.project)
    assert "provision evidence check" in failed.value.remedy


WORKFLOW = ROOT / ".github" / "workflows" / "evidence.yml"


def workflow_steps() -> list[str]:
    """Return the scripts of the workflow."""
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    return [step["run"] for step in job["steps"] if "run" in step]


class Forge:
    """Runs the workflow's own scripts, in the clone that its checkout makes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "project"
        without = ("tests/", "docs/how-to", "docs/pictures", "docs/evidence/")
        copy_files(self.root, without=without)
        make_keys(self.root)
        self.base = commit_all(self.root)

    def check(self, *steps: str) -> subprocess.CompletedProcess[str]:
        """Propose what the project has now, run steps, and take it back."""
        head = commit_all(self.root)
        git(self.root, "update-ref", "refs/pull/1/head", head)
        git(self.root, "config", "uploadpack.allowAnySHA1InWant", "true")
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        origin = self.root.as_uri()
        git(self.folder, "clone", "--quiet", "--no-checkout", origin, work)
        git(work, "checkout", "--quiet", self.base)
        link_tools(work)
        text = "\n".join(["set -e", *steps])
        text = text.replace("python3 ", f"{sys.executable} ")
        argv = ["bash", "-c", text]
        variables = {"HEAD_SHA": head, "RUNNER_TEMP": str(self.folder)}
        done = subprocess.run(
            argv,
            cwd=work,
            env=os.environ | variables,
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
    place = pull.submit().file
    good = forge.check(*workflow_steps())
    assert good.returncode == 0, good.stdout + good.stderr
    out = re.sub(r"\S+/work/", "", good.stdout)
    assert f"valid: {place.relative_to(forge.root)}" in out
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

    def code(_: Path) -> None:
        package = forge.root / "provision" / "__init__.py"
        package.write_text("raise SystemExit(0)\n")
        workflow = forge.root / ".github" / "x.yml"
        workflow.write_text("on: push\n")

    def module(_: Path) -> None:
        named = f"160000,{forge.base},docs/evidence/cpu-linux/module"
        (folder / "module").mkdir()
        git(forge.root, "update-index", "--add", "--cacheinfo", named)

    def link(place: Path) -> None:
        second = place.with_name("x.json")
        second.symlink_to(place.name)

    def executable(place: Path) -> None:
        place.chmod(0o755)

    pull.submit(content)
    done = forge.check(take, "git status --porcelain")
    assert done.returncode == 0, done.stderr
    assert "A  docs/evidence/cpu-linux/torch-" in done.stdout
    for add, said in (
        (code, "provision/__init__.py"),
        (module, "160000"),
        (link, "120000"),
        (executable, "100755"),
    ):
        add(pull.submit(content).file)
        done = forge.check(take, "git status --porcelain")
        assert done.returncode != 0, done.stderr
        assert said in done.stdout


def test_the_workflow_runs_no_file_of_a_pull_request() -> None:
    """Nor has it a right or a secret that one could use."""
    text = WORKFLOW.read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    (job,) = workflow["jobs"].values()
    assert list(workflow["on"]) == ["pull_request_target"]
    assert workflow["permissions"] == {}
    assert job["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    checkouts = [step for step in job["steps"] if "checkout" in step.get("uses", "")]
    options = checkouts[0]["with"]
    assert options == {"fetch-depth": 0, "persist-credentials": False}


def link_tools(work: Path) -> None:
    """Give a clone the tools that run this test, as if its lock had installed them."""
    tools = work / ".tools"
    tools.mkdir()
    for part in Path(sys.prefix).iterdir():
        if part.suffix != ".stamp":
            (tools / part.name).symlink_to(part)
    lock = work / "lockfiles" / "tools" / "dev.txt"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    stamp = tools / "complete.stamp"
    stamp.write_text(digest)
