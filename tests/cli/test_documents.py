"""The documents of `--json`: real runs of every verb against the schema that is published."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from provision.cli import main
from provision.cli.main import verb_names
from provision.commands import bundle as bundling
from provision.core.process import Completed
from provision.core.project import Project
from provision.image import context as images
from provision.ui.documents import RESULTS
from tests.attacks.scene import SOLO, VERBS, Ended, Scene, change, open_scene
from tests.image.python_archive import bytes_archive
from tests.published import faults, validator
from tests.report.test_evidence import make_key
from tests.small import FAILING_SUITE, SUITE, TARGET, make_wheel
from tests.test_docs import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.machine


def check(ended: Ended, verb: str | None, words: Sequence[str]) -> dict[str, Any]:
    """Return the document of a command, which has to be one document of its verb."""
    document: dict[str, Any] = json.loads(ended.out)
    found = faults(verb or "usage", document)
    assert not found, f"{words}\n{found}\n{ended.out[:2000]}"
    assert document["verb"] == verb, words
    assert document["ok"] == (ended.code == 0), (words, ended.code)
    return document


class Played:
    """Commands that are run in one scene, in an order that gives each something to do."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.lab = scene.lab
        self.project = scene.lab.project
        self.codes: dict[str, set[int]] = {}
        self.good: dict[str, dict[str, Any]] = {}  # the last good document of each verb

    def __call__(self, line: str, *more: str | Path, code: int = 0) -> Any:  # noqa: ANN401 - any result
        """Run a command line, followed by words that may hold spaces."""
        verb, *words = line.split()
        words += map(str, more)
        ended = self.scene.call(verb, "--json", *words)
        assert ended.code == code, f"{verb} {words}\n{ended.said}"
        self.codes.setdefault(verb, set()).add(code)
        document = check(ended, verb, words)
        if document["ok"]:
            self.good[verb] = document
        return document["result"]


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    # A contract handles signals, which is not for the process of the tests.
    interrupt = signal.getsignal(signal.SIGINT)
    terminate = signal.getsignal(signal.SIGTERM)
    with open_scene(tmp_path_factory.mktemp("documents")) as made:
        yield Played(made)
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, terminate)


@pytest.fixture(scope="module")
def played(play: Played, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All verbs: with success, findings, refusals and errors, as far as each can have them."""
    folder = tmp_path_factory.mktemp("made")
    catalog = play.project.catalog / "vendor.json"
    before = catalog.read_text(encoding="utf-8")
    for ready, (_, code) in VERBS.items():
        words = play.scene.words(ready)
        play(*words, code=code)
    # The lab's index has no metadata of its wheels.
    catalog.write_text(before, encoding="utf-8")
    _evidence(play, folder)
    _checks(play, folder)
    _machine(play, folder)
    _locks(play)
    _catalogs(play)
    _newer(play)
    _images(play, folder)
    _environments(play, folder)
    _no_such_target(play)
    return play


def _no_such_target(play: Played) -> None:
    """Each verb of one target is asked for one that is not there."""
    of_no_target = {"detect", "schema", "doctor", "init"}
    of_any_target = {"targets", "update", "lock", "clean", "fleet", "evidence"}
    more = {
        "add": "x",
        "remove": "x",
        "run": "x",
        "bundle": "-o x",
        "export": "--format requirements",
    }
    for verb in set(verb_names()) - of_no_target - of_any_target:
        options = more.get(verb, "")
        play(f"{verb} no-such-target {options}", code=2)


def _evidence(play: Played, folder: Path) -> None:
    play(f"smoke {TARGET} --full")
    key = make_key(folder, "owner")
    file = folder / "made.json"
    play(f"evidence emit {TARGET} --key", key, "-o", file)
    play("evidence verify", file, "--keys", folder / "keys")
    play("evidence verify", file, "--keys", folder, code=1)
    play(f"evidence emit {TARGET} --key", folder / "none", code=2)
    play("evidence submit", file)
    play("evidence submit", key, code=2)
    play(f"evidence submit {TARGET} --key", key)
    stray = play.project.evidence / "stray.json"
    stray.touch()
    play("evidence check", code=1)
    stray.unlink()
    play("evidence check")


def _checks(play: Played, folder: Path) -> None:
    suite = play.project.smoke / "run.py"
    for command in ("smoke --contract slurm", "verify --contract slurm", "gate"):
        verb, *options = command.split()
        kept = play(verb, TARGET, *options, "--node", "n1")
        assert kept["verdict"] == "keep"
    verdicts = play.scene.root / ".envs" / "verdicts"
    play("fleet report", verdicts)
    failing = FAILING_SUITE.replace('"value": 1e-7', '"value": float("nan")')
    suite.write_text(failing, encoding="utf-8")
    report = play(f"smoke {TARGET}", code=1)["report"]
    (failed,) = report["checks"]
    assert failed["numbers"]["error"]["value"] == "NaN"
    for command in (
        f"smoke {TARGET} --contract slurm --node n2",
        f"gate {TARGET} --node n2",
    ):
        verdict = play(command, code=1)
        assert verdict["failed"]
    # What failed is no longer proven, so that a build has something to do.
    play(f"build {TARGET} --wheelhouse", folder, code=1)
    suite.write_text("raise SystemExit(3)", encoding="utf-8")
    play(f"smoke {TARGET}", code=3)
    play(f"smoke {TARGET} --contract slurm --node n3", code=2)
    play(f"gate {TARGET} --node n3", code=2)
    hosts = folder / "hosts.txt"
    hosts.write_text("n1\nn9\n", encoding="utf-8")
    found = play("fleet report", verdicts, "--hosts", hosts, code=1)
    states = {node["state"] for node in found["nodes"]}
    assert states == {"keep", "remove", "none", "silent"}
    play("fleet report", verdicts, "--hosts", folder / "none", code=2)
    play("fleet report", folder / "none", code=2)
    suite.write_text(SUITE, encoding="utf-8")


def _machine(play: Played, folder: Path) -> None:
    log = folder / "log.txt"
    good = "loss 0.3\n"
    unknown = '  File "/w/a.py", line 3, in f\nKeyError: 1\n'
    for text, code in ((good, 0), (unknown, 4)):
        log.write_text(text, encoding="utf-8")
        play("doctor --log", log, code=code)
        play("doctor --log", log, "--report", code=code)
    healthy = play.scene.call("doctor")
    play("doctor --report", code=healthy.code)
    play(f"run {TARGET} --env", code=2)
    schema = play("schema build")
    assert schema["title"] == "provision build --json"
    play("schema usage")
    play("schema verdict")
    statement = Draft202012Validator(play("schema statement"))
    file = next(Project(ROOT).evidence.rglob("cpu-linux/*.json"))
    envelope = json.loads(file.read_text())
    payload = base64.b64decode(envelope["payload"])
    content = json.loads(payload)
    statement.validate(content)
    assert not statement.is_valid(content | {"host": "box"})
    play("completion bash")


def _locks(play: Played) -> None:
    broken = play.project.specs / "broken.toml"
    broken.write_text('acelerator = "cpu"\n', encoding="utf-8")
    play("targets", code=2)
    *_, last = play("lock --check", code=2)
    assert last["error"]
    play("lock broken", code=2)
    play("build broken", code=2)
    broken.unlink()
    spec = play.project.specs / f"{SOLO}.toml"
    before = spec.read_text(encoding="utf-8")
    edited = before.replace('= ["beta"]', '= ["beta>=1"]', 1)
    spec.write_text(edited, encoding="utf-8")
    (state,) = play(f"lock --check {SOLO}", code=1)
    assert state["stale"]
    (state,) = play(f"lock --check --resolve {SOLO}", code=1)
    assert state["differs"]
    spec.write_text(before, encoding="utf-8")
    play(f"lock {SOLO}")


def _catalogs(play: Played) -> None:
    catalog = play.project.catalog / "vendor.json"
    spec = play.project.specs / f"{SOLO}.toml"
    spec_before = spec.read_text(encoding="utf-8")
    before = catalog.read_text(encoding="utf-8")
    (known,) = json.loads(before)["files"]
    gamma = play.lab.wheel("gamma", index="vendor")
    digest = hashlib.sha256(gamma.read_bytes()).hexdigest()
    added = known | {
        "filename": gamma.name,
        "url": known["url"].replace("beta", "gamma"),
        "sha256": digest,
        "size": gamma.stat().st_size,
    }
    change(catalog, files=[known, added])
    (edit,) = play(f"add {SOLO} gamma --index vendor")
    assert edit["build"]["report"]
    (edit,) = play(f"remove {SOLO} gamma --no-build")
    assert edit["lock"]["changes"]
    play(f"remove {SOLO} nothing", code=2)
    play("update vendor --url https://example.org", code=2)
    other_bytes = known | {"sha256": "0" * 64}
    change(catalog, files=[other_bytes])
    (update,) = play("update vendor", code=1)
    assert update["reuploads"]
    catalog.write_text(before, encoding="utf-8")
    spec.write_text(spec_before, encoding="utf-8")
    play(f"lock {SOLO}")


def _newer(play: Played) -> None:
    """What a newer release in a catalog lets the verbs print."""
    catalog = play.project.catalog / "vendor.json"
    before = catalog.read_text(encoding="utf-8")
    (known,) = json.loads(before)["files"]
    newer = known | {"sha256": "1" * 64}
    for field in ("filename", "url"):
        newer[field] = known[field].replace("-1.0-", "-2.0-")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pip_audit", None)  # it is not installed
        (found,) = play(f"outdated {SOLO}")
        assert found["not_looked_up"]
        (found,) = play(f"outdated {SOLO} --audit", code=3)
        assert found["newer"] is None
        change(catalog, files=[known, newer])
        (found,) = play(f"outdated {SOLO}")
        assert found["newer"][0]["newest"] == "2.0"
    play(f"lock {SOLO}")
    search = f"bisect {SOLO} --package beta --check tiny.check"
    plan = play(f"{search} --plan")
    assert len(plan["releases"]) == 2
    catalog.write_text(before, encoding="utf-8")
    play(f"lock {SOLO}")
    play(search, code=2)  # there is no older release any more


def _images(play: Played, folder: Path) -> None:
    play(f"docker {TARGET} --print", code=2)  # no table [docker]
    play(f"export {TARGET} --format requirements")
    play(f"export {TARGET} --format environment -o", folder / "e.yml")
    with pytest.MonkeyPatch.context() as patch:
        # A toolkit whose one tool the index has.
        patch.setattr(bundling, "shipped", lambda: play.project)
        patch.setattr(bundling, "PACKAGE", play.scene.root / "provision")
        pythons = bytes_archive(folder / "pythons", play.project.catalog).parent
        play(f"bundle {TARGET} --wheelhouse", pythons, "-o", folder / "bundle")
    new = folder / "new"
    play("init -C", new, "--target", "cpu-linux")
    play("init -C", new, "--target", "no-such-target", code=2)


def _environments(play: Played, folder: Path) -> None:
    environment = (play.lab.home / "current").resolve()
    alpha = next(environment.rglob("alpha.py"))
    alpha.write_text("changed", encoding="utf-8")
    assert play(f"verify {TARGET}", code=1)["drifted"] == ["alpha"]
    assert play(f"verify {TARGET} --repair")["generation"]
    files = {"gamma.py": ""}
    gamma = make_wheel(play.lab.index.root / "default", "gamma", "1.0", files)
    play.lab.relock(*play.lab.wheels, gamma)
    assert play(f"build {TARGET}")["plan"]
    play(f"rollback {TARGET}")
    broken = play.lab.wheel("broken")
    play.lab.relock(*play.lab.wheels, broken)
    failed = play(f"build {TARGET}", code=1)
    assert failed["generation"] is None
    shutil.move(play.project.specs / f"{SOLO}.toml", folder)
    found = {each["target"]: each for each in play("clean")}
    assert found[SOLO]["abandoned"] is True
    assert found[TARGET]["abandoned"] is False
    generations = play.project.environments(SOLO)
    record = next(generations.glob("*/provision.json"))
    record.write_text("{", encoding="utf-8")  # as one of another version might be
    targets = {each["target"] for each in play("clean")}
    assert SOLO not in targets
    play(f"clean {SOLO}", code=2)
    play("clean --keep -1", code=2)


def test_every_verb_was_seen_to_end_well_and_badly(played: Played) -> None:
    # `run` prints a document only where it starts nothing; an engine is not on every machine;
    # nothing can be wrong with `detect`.
    limited = {"run": {2}, "docker": {2}, "detect": {0}}
    for verb in verb_names():
        codes = played.codes[verb]
        assert codes >= limited.get(verb, {0}), verb
        if verb not in {"detect", "schema"}:
            assert codes - {0}, verb


def test_a_wrong_command_line_is_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    lines = {
        "": None,
        "no-such-verb": None,
        "--project": None,
        "--nope build x": "build",
        "build": "build",
        "build a --nope": "build",
        "clean --keep x": "clean",
        f"run {TARGET}": "run",
        "schema nothing": "schema",
        f"smoke {TARGET} --contract slurm --nope": "smoke",
    }
    for line, verb in lines.items():
        for typed in (f"--json {line}", f"{line} --json"):
            words = typed.split()
            code = main.main(words)
            out, err = capsys.readouterr()
            assert code == 2
            document = check(Ended(code, out, err), verb, words)
            error = document["result"]["error"]
            assert error["what"] in err
            assert "usage: provision" in error["evidence"]


def test_common_options_stand_before_the_verb_as_well(
    play: Played, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root, other = str(play.scene.root), str(tmp_path)
    found = []
    for line in (
        ["clean", "--keep", "9", "--json", "--project", root],
        ["--json", "--project", root, "clean", "--keep", "9"],
        ["-C", root, "-q", "clean", "--keep", "9", "--json"],
        ["-C", other, "--json", "clean", f"--project={root}", "--keep", "9", "-qv"],
        ["-C", other, "-C", root, "clean", "--keep", "9", "--json", "--json"],
    ):
        assert main.main(line) == 0
        found.append(json.loads(capsys.readouterr().out))
    for document in found:
        assert document == found[0]
    # the later one counts
    code = main.main(["-C", root, "targets", "-C", other])
    assert code == 2
    assert "no project in" in capsys.readouterr().err


def test_the_options_of_a_program_are_its_own(
    play: Played, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where a command line is wrong before them."""
    root = str(play.scene.root)
    echo = ["sh", "-c", 'echo "$@"', "x", "--json", "--", "-C", "--"]
    unknown_option = ["run", "--nope", TARGET, *echo]
    unknown_target = ["-C", root, "run", "none", "--", *echo]
    for line in (unknown_option, unknown_target):
        assert main.main(line) == 2
        assert capfd.readouterr().out == ""


def test_ctrl_c_is_a_document(
    play: Played, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("provision.cli.verbs.targets.target_statuses", interrupted)
    line = ["targets", "--json", "--project", str(play.scene.root)]
    code = main.main(line)
    out, err = capsys.readouterr()
    assert code == 130
    document = check(Ended(code, out, err), "targets", line)
    assert "interrupted; no file" in document["result"]["error"]["what"]


def test_an_image_s_command_needs_no_engine(
    play: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the processes only uv is replaced, which would fetch the toolkit's own packages."""
    project = play.project
    archive = bytes_archive(tmp_path / "pythons", project.catalog)
    specs = project.specs
    text = (specs / f"{TARGET}.toml").read_text(encoding="utf-8")
    spec = specs / "image.toml"
    spec.write_text(f"{text}\n[docker]\n", encoding="utf-8")
    lock = project.lock("image")
    shutil.copytree(project.lock(TARGET), lock)

    def run(argv: Sequence[str | Path], **_: object) -> Completed:
        words = [str(word) for word in argv]
        assert "--target" in words, f"started {words}"
        home = Path(words[words.index("--target") + 1])
        (home / "pytest").mkdir(parents=True)
        return Completed(tuple(words), 0, "", "", 0.0)

    monkeypatch.setattr("provision.cli.verbs.docker.run", run)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(images, "copy_runner", lambda *_: None)
    try:
        play("lock", "--check")
        command = ["docker", "image", "--print"]
        command += ["--wheelhouse", str(archive.parent)]
        result = play(*command)
        ended = play.scene.call(*command)
    finally:
        (project.catalog / "python-standalone.json").unlink()
        spec.unlink()
        shutil.rmtree(lock)
    setting, program, *words = shlex.split(result["text"])
    assert setting == "DOCKER_BUILDKIT=1"
    assert program == "docker"
    assert Path(words[-1], "Dockerfile").is_file()
    assert ended.out == result["text"]


def test_every_verb_has_a_schema_and_every_field_a_description() -> None:
    assert sorted(RESULTS) == sorted([*verb_names(), "usage"])
    for verb in RESULTS:
        made = validator(verb)
        made.check_schema(made.schema)
        for name, kind in made.schema["$defs"].items():
            assert kind["description"], name
            properties = kind.get("properties", {})
            for field, value in properties.items():
                assert value.get("description"), f"{name}.{field}"


def test_a_schema_refuses_what_no_verb_prints(played: Played) -> None:
    good = played.good["rollback"]
    result = good["result"]
    assert faults("rollback", good) == []
    incomplete = {"target": result["target"], "now": result["now"]}
    wrong: list[dict[str, Any]] = [
        {"schema": 1},
        {"schema": None},
        {"verb": "roll-back"},
        {"verb": None},
        {"ok": "yes"},
        {"result": incomplete},
        {"result": result | {"more": 1}},
        {"result": result | {"now": None}},
    ]
    for parts in wrong:
        assert faults("rollback", good | parts), parts
    for key in good:
        without = dict(good)
        del without[key]
        assert faults("rollback", without), key
