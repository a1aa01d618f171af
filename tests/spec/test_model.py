"""Specs: every fault at once, with its place; nothing unknown passes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest
from pydantic.plugin import _loader

from provision.core.errors import Exit, SpecError
from provision.spec.model import Target
from provision.spec.reader import load_spec
from provision.spec.schema import spec_schema

GOOD = """
summary = "A target"
accelerator = "cpu"
platform = "linux-64"
python = "3.11"
[pip]
cutoff = 2026-11-01
requirements = ["torch==2.13.0+cpu"]
[pip.index]
pytorch-cpu = ["torch"]
"""


def write(folder: Path, text: str, name: str = "a-target") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_spec_becomes_a_frozen_target(tmp_path: Path) -> None:
    target = load_spec(write(tmp_path, GOOD))
    assert (
        target.name,
        target.pip.index_of("torch"),
        target.pip.index_of("numpy"),
    ) == (
        "a-target",
        "pytorch-cpu",
        "default",
    )


def test_five_faults_are_reported_at_once(tmp_path: Path) -> None:
    bad = """
summary = "A target"
accelarator = "cpu"
accelerator = "tpu"
platform = "linux-64"
python = "3"
[pip]
cutoff = 2026-11-01
requirements = ["torch=="]
[hardware]
driver = "newest"
"""
    with pytest.raises(SpecError, match="has 5 errors") as caught:
        load_spec(write(tmp_path, bad))
    faults = [line.split(":") for line in caught.value.evidence.splitlines()]
    places = {
        "accelerator": "line 4, column 1",
        "python": "line 6, column 1",
        "hardware.driver": "line 11, column 1",
        "pip.requirements[0]": "line 9, column 1",
        "accelarator": "line 3, column 1",
    }
    keys, lines = faults[::2], faults[1::2]
    assert {
        k[0]: line[0].strip() for k, line in zip(keys, lines, strict=True)
    } == places
    assert lines[0][1] == ' accelerator = "tpu"'
    assert "did you mean `accelerator`?" in caught.value.evidence
    assert "'cuda', 'xpu', 'mps' or 'cpu'" in caught.value.evidence
    assert caught.value.exit_code == Exit.USAGE


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (("[pip.index]", "[pip.index]\nother = ['Torch']"), "assigned to both"),
        (("platform =", "status = 'legacy'\nplatform ="), "`reason` goes with"),
        (("platform =", "status = 'unlocked'\nplatform ="), "`reason` goes with"),
        (("platform =", "glibc = '2.34'\nplatform ="), ""),
        (("platform =", "glibc = '2.12'\nplatform ="), "glibc"),
        (('"linux-64"', '"win-64"\nglibc = "2.34"'), "has no glibc"),
        (("linux-64", "win-64"), ""),
        (("[pip]", "[hardware]\ndriver='<=580.65'\n[pip]"), ""),
        (("[pip]", "[hardware]\ndriver='>580,<600'\n[pip]"), ""),
        (("[pip]", "[hardware]\ndriver='==580.65'\n[pip]"), "<= and < can be compared"),
        (("[pip]", "[hardware]\ncompute_capability='>=8,==8.*'\n[pip]"), ""),
        (
            ("[pip]", "[hardware]\ncompute_capability='==9.0a0'\n[pip]"),
            "hardware.compute_capability: '==9.0a0' has 9.0a0",
        ),
        (('"torch==2.13.0+cpu"', '"torch @ ftp://x/torch.whl"'), "has to begin with"),
        (('"torch==2.13.0+cpu"', '"torch @ https://u:p@x/torch.whl"'), "has a login"),
        (('"torch==2.13.0+cpu"', '"torch @ https://:p@x/torch.whl"'), "has a login"),
        (('"torch==2.13.0+cpu"', '"torch @ https://x/torch.whl"'), ""),
        (('"torch==2.13.0+cpu"', '"torch @ git+ssh://git@x/torch"'), ""),
        (('"torch==2.13.0+cpu"', f'"torch=={"1" * 5_000}"'), "it is too long"),
        (('"torch==2.13.0+cpu"', '"torch @ file:"'), "not in the project's folder"),
        (('"torch==2.13.0+cpu"', '"torch @ file:c:/t.whl"'), "not in the project's"),
        (('"torch==2.13.0+cpu"', "'torch @ file:a\\t.whl'"), "not in the project's"),
        (('requirements = ["torch==2.13.0+cpu"]', ""), "has neither requirements"),
        (("[pip]", "[pip]\nconstraints = ['a @ https://x/a.whl']"), "names a URL"),
        (("[pip]", "[pip]\nlocal = ['-e ']"), "neither a folder nor"),
        (("[pip]", "[pip]\nlocal = ['git+https://x/a']"), "neither a folder nor"),
        (("[pip.index]", "[pip.variants]\ntorch = 'x'\n[pip.index]"), ""),
        (
            ("[pip.index]", "[pip.variants]\nnumpy = 'x'\n[pip.index]"),
            "takes a variant of numpy",
        ),
        (
            (
                "[pip]",
                "[conda]\nchannels=['https://u:secret@x']\ndependencies=['a']\n[pip]",
            ),
            "is not the name of a channel's catalog",
        ),
    ],
)
def test_parts_that_contradict(
    tmp_path: Path, change: tuple[str, str], reported: str
) -> None:
    path = write(tmp_path, GOOD.replace(*change))
    if not reported:
        load_spec(path)
        return
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert reported in caught.value.evidence
    assert "secret" not in caught.value.evidence


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"3.11"', "3.11", 'python: has to be text: write "3.11"'),
        ('"3.11"', "3.10", "python: has to be text: put it in quotes"),
        ('"3.11"', '"3"', r"python: has to match ^3\.\d+(\.\d+)?$ (is '3')"),
        ('"A target"', "[]", "summary: has to be text (is [])"),
        (
            '["torch==2.13.0+cpu"]',
            '"a"',
            'pip.requirements: has to be a list: write ["a"]',
        ),
        (
            '["torch==2.13.0+cpu"]',
            "[8]",
            'pip.requirements[0]: has to be text: write "8"',
        ),
        ("2026-11-01", '"soon"', "pip.cutoff: has to be a date, such as 2026-11-01"),
        (
            '[pip.index]\npytorch-cpu = ["torch"]',
            "index = 1",
            "pip.index: has to be a table (is 1)",
        ),
        (
            "[pip]",
            "[smoke]\nspeedup_over_cpu = '2'\n[pip]",
            "has to be a number (is '2')",
        ),
        (
            "[pip]",
            "[smoke]\nspeedup_over_cpu = 0\n[pip]",
            "has to be greater than 0 (is 0)",
        ),
        ('"A target"', '""', "summary: is empty"),
        ("[pip]", "[conda]\nchannels = []\n[pip]", "conda.channels: is empty"),
        (
            "[pip]",
            "[conda]\nchannels = [3]\n[pip]",
            "conda.channels[0]: has to be text",
        ),
    ],
)
def test_a_fault_is_in_the_words_of_the_file(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path, GOOD.replace(old, new)))
    assert said in caught.value.evidence
    assert caught.value.what.endswith("has 1 error")
    assert "nput" not in caught.value.evidence  # as in those of pydantic


@pytest.mark.parametrize("text", ["summary = ", "\x00", "caf\udce9"])
def test_what_is_no_toml_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SpecError, match=r"x\.toml"):
        load_spec(path)


def test_the_name_of_a_file_can_be_a_target_s(tmp_path: Path) -> None:
    for name in ("A_Target", "-a", "a target"):
        with pytest.raises(SpecError, match="the file's name becomes the target's"):
            load_spec(write(tmp_path, GOOD, name))


def test_the_digest_follows_what_decides_the_lock(tmp_path: Path) -> None:
    first = load_spec(write(tmp_path, GOOD)).digest()
    assert (
        load_spec(write(tmp_path, GOOD.replace("A target", "Else"))).digest() == first
    )
    for text in (
        "[hardware]\nfamilies = ['arc']\n[pip]",
        "[run]\nkeep = ['HOME']\n[pip]",
        "[pip]\nforbid = [{ name = 'a', reason = 'b' }]",
        "[pip]\naccepted = [{ id = 'a', reason = 'b', until = 2026-11-01 }]",
    ):
        path = write(tmp_path, GOOD.replace("[pip]", text))
        assert load_spec(path).digest() == first, text
    digests = {first}
    for old, new in (
        ("linux-64", "linux-aarch64"),
        ("3.11", "3.11.9"),
        ("python", "glibc = '2.34'\npython"),
        ("[pip]", "[conda]\nchannels = ['conda-forge']\n[pip]"),
        ("2026-11-01", "2026-11-02"),
        ("[pip]", "[pip]\ncutoffs = { a = 2026-11-02 }"),
        ("[pip]", "[pip]\nexclude = ['a']"),
        ("[pip]", "[pip]\nconstraints = ['a']"),
        ("[pip]", "[pip]\nlocal = ['a']"),
        ("[pip]", "[pip]\nbuild = ['a']"),
        ("[pip]", "[pip]\noverrides = [{ requirement = 'a', reason = 'b' }]"),
        ("[pip.index]", "[pip.index]\nother = ['a']"),
        ("[pip.index]", "[pip.variants]\ntorch = 'a'\n[pip.index]"),
    ):
        target = load_spec(write(tmp_path, GOOD.replace(old, new)))
        assert target.digest() not in digests, new
        assert target.python == "3.11"
        digests.add(target.digest())


def test_the_schema_accepts_what_the_model_accepts() -> None:
    document = spec_schema()
    jsonschema.Draft202012Validator.check_schema(document)
    validator = jsonschema.Draft202012Validator(document)
    for path in sorted(Path(__file__).parents[2].glob("envs/*.toml")):
        data = json.loads(
            json.dumps(tomllib.loads(path.read_text(encoding="utf-8")), default=str)
        )
        validator.validate(data)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({"summary": "x", "unknown": 1})


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ('environment = { "A\\nRUN touch /evil #" = "1" }', "environment.A"),
        ('environment = { "A=B" = "1" }', "environment.A=B"),
        ('environment = { "A\\u0000" = "1" }', "environment.A"),
        ('environment = { "" = "1" }', "environment."),
        ('environment = { A = "x\\nRUN touch /evil" }', "environment.A"),
        ('environment = { A = "x\\u0000" }', "environment.A"),
        ('docker.apt = ["-oAPT::Update::Pre-Invoke::=sh"]', "docker.apt[0]"),
        ('docker.apt = ["libze1\\nevil"]', "docker.apt[0]"),
        ('docker.apt = ["coreutils-"]', "docker.apt[0]"),
        ('docker.apt = ["./evil.deb"]', "docker.apt[0]"),
        ('docker.drivers = "../../evil"', "docker.drivers"),
        ("", "pip.index.../evil"),
    ],
)
def test_attack_no_key_or_name_leaves_its_line_or_folder(
    tmp_path: Path, table: str, place: str
) -> None:
    good = GOOD if table else GOOD.replace("pytorch-cpu =", '"../evil" =')
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path, f"{table}\n{good}"))
    assert caught.value.evidence.startswith(place)


def test_no_plugin_of_pydantic_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(**_options: str) -> None:
        raise AssertionError("a plugin could change how a spec is read")

    monkeypatch.setattr(_loader, "entry_points", look)
    Target.model_rebuild(force=True)
    assert load_spec(write(tmp_path, GOOD)).python == "3.11"
