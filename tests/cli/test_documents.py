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
from tests.attacks.scene import SOLO, VERBS, Ended, Scene, open_scene
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
        self.scene, self.lab, self.codes = scene, scene.lab, dict[str, set[int]]()
        self.good: dict[str, dict[str, Any]] = {}  # the last good document of each verb

    def __call__(self, *words: str, code: int = 0) -> Any:  # noqa: ANN401 - any result
        ended = self.scene.call(words[0], "--json", *words[1:])
        assert ended.code == code, f"{words}\n{ended.said}"
        self.codes.setdefault(words[0], set()).add(code)
        document = check(ended, words[0], words)
        if document["ok"]:
            self.good[words[0]] = document
        return document["result"]


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    # A contract handles signals, which is not for the process of the tests.
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    with open_scene(tmp_path_factory.mktemp("documents")) as made:
        yield Played(made)
    for name, handler in before.items():
        signal.signal(name, handler)


@pytest.fixture(scope="module")
def played(play: Played, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All verbs: with success, findings, refusals and errors, as far as each can have them."""
    folder = tmp_path_factory.mktemp("made")
    catalog = play.lab.project.catalog / "vendor.json"
    before = catalog.read_text(encoding="utf-8")
    for ready in VERBS:
        words, code = play.scene.words(ready), VERBS[ready][1]
        play(*words, code=code)
    catalog.write_text(
        before, encoding="utf-8"
    )  # the lab's index has no metadata of its wheels
    _evidence(play, folder)
    _checks(play, folder)
    _machine(play, folder)
    _locks(play)
    _catalogs(play)
    _newer(play)
    _images(play, folder)
    _environments(play, folder)
    for verb in set(verb_names()) - {
        "detect",
        "schema",
        "doctor",
        "init",
        "targets",
        "update",
        "lock",
        "clean",
        "fleet",
        "evidence",
    }:
        more = {
            "add": ["x"],
            "remove": ["x"],
            "run": ["x"],
            "bundle": ["-o", "x"],
            "export": ["--format", "requirements"],
        }
        play(verb, "no-such-target", *more.get(verb, []), code=2)
    return play


def _evidence(play: Played, folder: Path) -> None:
    play("smoke", TARGET, "--full")
    key = make_key(folder, "owner")
    file = folder / "made.json"
    play("evidence", "emit", TARGET, "--key", str(key), "-o", str(file))
    play("evidence", "verify", str(file), "--keys", str(folder / "keys"))
    play("evidence", "verify", str(file), "--keys", str(folder), code=1)
    play("evidence", "emit", TARGET, "--key", str(folder / "none"), code=2)
    play("evidence", "submit", str(file))
    play("evidence", "submit", str(key), code=2)
    play("evidence", "submit", TARGET, "--key", str(key))
    (stray := play.lab.project.evidence / "stray.json").touch()
    play("evidence", "check", code=1)
    stray.unlink()
    play("evidence", "check")


def _checks(play: Played, folder: Path) -> None:
    suite = play.lab.project.smoke / "run.py"
    for verb in ("smoke", "verify"):
        assert (
            play(verb, TARGET, "--contract", "slurm", "--node", "n1")["verdict"]
            == "keep"
        )
    assert play("gate", TARGET, "--node", "n1")["verdict"] == "keep"
    verdicts = str(play.scene.root / ".envs" / "verdicts")
    play("fleet", "report", verdicts)
    suite.write_text(
        FAILING_SUITE.replace('"value": 1e-7', '"value": float("nan")'),
        encoding="utf-8",
    )
    report = play("smoke", TARGET, code=1)["report"]
    assert report["checks"][0]["numbers"]["error"]["value"] == "NaN"
    assert play("smoke", TARGET, "--contract", "slurm", "--node", "n2", code=1)[
        "failed"
    ]
    assert play("gate", TARGET, "--node", "n2", code=1)["failed"]
    # What failed is no longer proven, so that a build has something to do.
    play("build", TARGET, "--wheelhouse", str(folder), code=1)
    suite.write_text("raise SystemExit(3)", encoding="utf-8")
    play("smoke", TARGET, code=3)
    play("smoke", TARGET, "--contract", "slurm", "--node", "n3", code=2)
    play("gate", TARGET, "--node", "n3", code=2)
    hosts = folder / "hosts.txt"
    hosts.write_text("n1\nn9\n", encoding="utf-8")
    found = play("fleet", "report", verdicts, "--hosts", str(hosts), code=1)
    assert {node["state"] for node in found["nodes"]} == {
        "keep",
        "remove",
        "none",
        "silent",
    }
    play("fleet", "report", verdicts, "--hosts", str(folder / "none"), code=2)
    play("fleet", "report", str(folder / "none"), code=2)
    suite.write_text(SUITE, encoding="utf-8")


def _machine(play: Played, folder: Path) -> None:
    log = folder / "log.txt"
    for text, code in (
        ("loss 0.3\n", 0),
        ('  File "/w/a.py", line 3, in f\nKeyError: 1\n', 4),
    ):
        log.write_text(text, encoding="utf-8")
        play("doctor", "--log", str(log), code=code)
        play("doctor", "--log", str(log), "--report", code=code)
    play("doctor", "--report", code=play.scene.call("doctor").code)
    play("run", TARGET, "--env", code=2)
    assert play("schema", "build")["title"] == "provision build --json"
    play("schema", "usage")
    play("schema", "verdict")
    statement = Draft202012Validator(play("schema", "statement"))
    file = next(Project(ROOT).evidence.rglob("cpu-linux/*.json"))
    content = json.loads(base64.b64decode(json.loads(file.read_text())["payload"]))
    statement.validate(content)
    assert not statement.is_valid(content | {"host": "box"})
    play("completion", "bash")


def _locks(play: Played) -> None:
    project, spec = play.lab.project, play.lab.project.specs / "broken.toml"
    spec.write_text('acelerator = "cpu"\n', encoding="utf-8")
    play("targets", code=2)
    assert play("lock", "--check", code=2)[-1]["error"]
    play("lock", "broken", code=2)
    play("build", "broken", code=2)
    spec.unlink()
    wished = project.specs / f"{SOLO}.toml"
    text = wished.read_text(encoding="utf-8")
    wished.write_text(text.replace('= ["beta"]', '= ["beta>=1"]', 1), encoding="utf-8")
    assert play("lock", "--check", SOLO, code=1)[0]["stale"]
    assert play("lock", "--check", "--resolve", SOLO, code=1)[0]["differs"]
    wished.write_text(text, encoding="utf-8")
    play("lock", SOLO)


def _catalogs(play: Played) -> None:
    catalog = play.lab.project.catalog / "vendor.json"
    wished = play.lab.project.specs / f"{SOLO}.toml"
    text = wished.read_text(encoding="utf-8")
    before = json.loads(catalog.read_text(encoding="utf-8"))
    (known,), gamma = before["files"], play.lab.wheel("gamma", index="vendor")
    digest = hashlib.sha256(gamma.read_bytes()).hexdigest()
    more = {
        "filename": gamma.name,
        "url": known["url"].replace("beta", "gamma"),
        "sha256": digest,
        "size": gamma.stat().st_size,
    }
    both = before | {"files": [known, known | more]}
    catalog.write_text(json.dumps(both), encoding="utf-8")
    assert play("add", SOLO, "gamma", "--index", "vendor")[0]["build"]["report"]
    assert play("remove", SOLO, "gamma", "--no-build")[0]["lock"]["changes"]
    play("remove", SOLO, "nothing", code=2)
    play("update", "vendor", "--url", "https://example.org", code=2)
    changed = before | {
        "files": [file | {"sha256": "0" * 64} for file in before["files"]]
    }
    catalog.write_text(json.dumps(changed), encoding="utf-8")
    assert play("update", "vendor", code=1)[0]["reuploads"]
    catalog.write_text(json.dumps(before), encoding="utf-8")
    wished.write_text(text, encoding="utf-8")
    play("lock", SOLO)


def _newer(play: Played) -> None:
    """What a newer release in a catalog lets the verbs print."""
    catalog = play.lab.project.catalog / "vendor.json"
    before = json.loads(catalog.read_text(encoding="utf-8"))
    (known,) = before["files"]
    newer = {
        key: text.replace("-1.0-", "-2.0-")
        for key, text in known.items()
        if key in {"filename", "url"}
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pip_audit", None)  # it is not installed
        assert play("outdated", SOLO)[0]["not_looked_up"]
        assert play("outdated", SOLO, "--audit", code=3)[0]["newer"] is None
        files = [known, known | newer | {"sha256": "1" * 64}]
        catalog.write_text(json.dumps(before | {"files": files}), encoding="utf-8")
        assert play("outdated", SOLO)[0]["newer"][0]["newest"] == "2.0"
    play("lock", SOLO)
    search = ["bisect", SOLO, "--package", "beta", "--check", "tiny.check"]
    assert len(play(*search, "--plan")["releases"]) == 2
    catalog.write_text(json.dumps(before), encoding="utf-8")
    play("lock", SOLO)
    play(*search, code=2)  # there is no older release any more


def _images(play: Played, folder: Path) -> None:
    play("docker", TARGET, "--print", code=2)  # no table [docker]
    play("export", TARGET, "--format", "requirements")
    play("export", TARGET, "--format", "environment", "-o", str(folder / "e.yml"))
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # a toolkit whose one tool the index has
        patch.setattr(bundling, "shipped", lambda: play.lab.project)
        patch.setattr(bundling, "PACKAGE", play.scene.root / "provision")
        play("bundle", TARGET, "-o", str(folder / "bundle"))
    play("init", "-C", str(folder / "new"), "--target", "cpu-linux")
    play("init", "-C", str(folder / "new"), "--target", "no-such-target", code=2)


def _environments(play: Played, folder: Path) -> None:
    alpha = next((play.lab.home / "current").resolve().rglob("alpha.py"))
    alpha.write_text("changed", encoding="utf-8")
    assert play("verify", TARGET, code=1)["drifted"] == ["alpha"]
    assert play("verify", TARGET, "--repair")["generation"]
    files = {"gamma.py": ""}
    gamma = make_wheel(play.lab.index.root / "default", "gamma", "1.0", files)
    play.lab.relock(*play.lab.wheels, gamma)
    assert play("build", TARGET)["plan"]
    play("rollback", TARGET)
    play.lab.relock(*play.lab.wheels, play.lab.wheel("broken"))
    assert play("build", TARGET, code=1)["generation"] is None
    shutil.move(play.lab.project.specs / f"{SOLO}.toml", folder)
    found = {each["target"]: each for each in play("clean")}
    assert found[SOLO]["abandoned"] is True
    assert found[TARGET]["abandoned"] is False
    record = next(play.lab.project.environments(SOLO).glob("*/provision.json"))
    record.write_text("{", encoding="utf-8")  # as one of another version might be
    assert SOLO not in {each["target"] for each in play("clean")}
    play("clean", SOLO, code=2)
    play("clean", "--keep", "-1", code=2)


def test_every_verb_was_seen_to_end_well_and_badly(played: Played) -> None:
    # `run` prints a document only where it starts nothing; an engine is not on every machine;
    # nothing can be wrong with `detect`.
    limited = {"run": {2}, "docker": {2}, "detect": {0}}
    for verb in verb_names():
        codes = played.codes[verb]
        assert limited.get(verb, {0}) <= codes, verb
        assert verb in {"detect", "schema"} or codes - {0}, verb


def test_a_wrong_command_line_is_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[tuple[list[str], str | None]] = [
        ([], None),
        (["no-such-verb"], None),
        (["--project"], None),
        (["--nope", "build", "x"], "build"),
        (["build"], "build"),
        (["build", "a", "--nope"], "build"),
        (["clean", "--keep", "x"], "clean"),
        (["run", TARGET], "run"),
        (["schema", "nothing"], "schema"),
        (["smoke", TARGET, "--contract", "slurm", "--nope"], "smoke"),
    ]
    for words, verb in lines:
        for line in (["--json", *words], [*words, "--json"]):
            code = main.main(line)
            out, err = capsys.readouterr()
            assert code == 2
            document = check(Ended(code, out, err), verb, line)
            assert document["result"]["error"]["what"] in err
            assert "usage: provision" in document["result"]["error"]["evidence"]


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
    assert found == [found[0]] * len(found)
    # the later one counts
    assert main.main(["-C", root, "targets", "-C", other]) == 2
    assert "no project in" in capsys.readouterr().err


def test_the_options_of_a_program_are_its_own(
    play: Played, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where a command line is wrong before them."""
    root, echo = (
        str(play.scene.root),
        ["sh", "-c", 'echo "$@"', "x", "--json", "--", "-C", "--"],
    )
    for line in (
        ["run", "--nope", TARGET, *echo],
        ["-C", root, "run", "none", "--", *echo],
    ):
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
    assert (
        "interrupted; no file"
        in check(Ended(code, out, err), "targets", line)["result"]["error"]["what"]
    )


def test_an_image_s_command_needs_no_engine(
    play: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the processes only uv is replaced, which would fetch the toolkit's own packages."""
    catalog = play.lab.project.catalog
    python = bytes_archive(tmp_path / "pythons", catalog).parent
    spec = play.lab.project.specs / "image.toml"
    text = (play.lab.project.specs / f"{TARGET}.toml").read_text(encoding="utf-8")
    spec.write_text(f"{text}\n[docker]\n", encoding="utf-8")
    shutil.copytree(play.lab.project.lock(TARGET), play.lab.project.lock("image"))

    def run(argv: Sequence[str | Path], **_: object) -> Completed:
        assert "--target" in argv, f"started {argv}"
        home = Path(argv[[*argv].index("--target") + 1])
        (home / "pytest").mkdir(parents=True)
        return Completed(tuple(map(str, argv)), 0, "", "", 0.0)

    monkeypatch.setattr("provision.cli.verbs.docker.run", run)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(images, "copy_runner", lambda *_: None)
    try:
        play("lock", "--check")
        words = ("docker", "image", "--print", "--wheelhouse", str(python))
        result = play(*words)
        ended = play.scene.call(*words)
    finally:
        (catalog / "python-standalone.json").unlink()
        spec.unlink()
        shutil.rmtree(play.lab.project.lock("image"))
    setting, program, *words = shlex.split(result["text"])
    assert setting == "DOCKER_BUILDKIT=1"
    assert program == "docker"
    assert Path(words[-1], "Dockerfile").is_file()
    assert ended.out == result["text"]


def test_every_verb_has_a_schema_and_every_field_a_description() -> None:
    assert sorted(RESULTS) == sorted([*verb_names(), "usage"])
    for verb in RESULTS:
        validator(verb).check_schema(validator(verb).schema)
        for name, kind in validator(verb).schema["$defs"].items():
            assert kind["description"], name
            for field, value in kind.get("properties", {}).items():
                assert value.get("description"), f"{name}.{field}"


def test_a_schema_refuses_what_no_verb_prints(played: Played) -> None:
    good = played.good["rollback"]
    result = good["result"]
    assert faults("rollback", good) == []
    wrong: list[dict[str, Any]] = [
        {"schema": 1},
        {"schema": None},
        {"verb": "roll-back"},
        {"verb": None},
        {"ok": "yes"},
        {"result": {key: result[key] for key in ("target", "now")}},
        {"result": result | {"more": 1}},
        {"result": result | {"now": None}},
    ]
    for change in wrong:
        assert faults("rollback", good | change), change
    for key in good:
        assert faults("rollback", {k: good[k] for k in good if k != key}), key
