"""The links, files, functions, sessions, verbs and options that the documents name exist."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.catalog.known_wrong import read_known_wrong
from provision.cli.main import main, verb_names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

ROOT = Path(__file__).parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
}
README = PAGES["README.md"]
# A part in backticks that names a file of this repository, and perhaps something in it.
NAMED = re.compile(
    r"`([\w./-]+\.(?:py|toml|md|sh|txt)|[\w./-]*Dockerfile)(?::(\w+(?:\.\w+)*))?`"
)
# Files that a command makes, that are in an environment, or that are examples.
NOT_OURS = {
    "conda-lock.yml",
    "envs/base/project.toml",
    "requirements.txt",
    "train.py",
    "version.py",
    "torch/version.py",
    "left-out.txt",
    "setvars.sh",
    "pylock.toml",
    "pixi.toml",
    "llms.txt",
    "envs/TARGET.toml",
}
HOSTS = {
    "github.com",
    "developer.nvidia.com",
    "docs.nvidia.com",
    "download.pytorch.org",
    "peps.python.org",
}
# Places of any Linux system; no other absolute path belongs in a document.
SYSTEM = (
    "/opt/provision",
    "/opt/intel",
    "/etc/systemd",
    "/dev/dxg",
    "/dev/full",
    "/dev/zero",
    "/dev/dri",
    "/dev/kfd",
    "/proc/driver/nvidia",
    "/dev/shm",  # noqa: S108
    "/usr/lib/wsl/lib",
    "/etc/default/provision",
)
# Words of a page -> the test that fails when they are not so, by its file and a part of its name.
PROMISES = {
    "compares every file with its hash": (
        "commands/test_attack_chain.py",
        "cache_with_file_and_record_edited",
    ),
    'A second run reports "up to date"': ("commands/test_build.py", "second_build"),
    "recorded and shown as `unproven`": ("commands/test_build.py", "is_unproven"),
    "exits with 1 if anything got worse": (
        "commands/test_smoke.py",
        "broke_is_a_regression",
    ),
    "`uv` resolves for any platform": ("commands/test_lock.py", "windows_is_locked"),
    "A package comes only from the index": (
        "commands/test_lock.py",
        "hashed_wheel_of_the_platform",
    ),
    "A pip lock names no host": ("lockfile/test_committed.py", "names_no_host"),
    "takes no setting from its caller": (
        "commands/test_isolation.py",
        "pollutants_of_each_kind",
    ),
    "cannot change what is installed": (
        "commands/test_build.py",
        "another_hash_is_refused",
    ),
    "only if it equals its lock and its checks pass": (
        "commands/test_build.py",
        "failed_checks",
    ),
    "If a build is killed": ("test_faults.py", "killed_while_building_the_real_thing"),
    "never skips a required check silently": (
        "smoke/test_dead_workers.py",
        "ends_early",
    ),
    "on any platform for any target": ("commands/test_bundle.py", "by_platform"),
    "All errors of a file are reported at once": (
        "spec/test_model.py",
        "at_once",
    ),
    "a change cannot have touched": (
        "commands/test_reuse.py",
        "small_change_reuses_the_device_s_results",
    ),
    "names the package that did it": (
        "environment/test_verify.py",
        "install_that_replaced",
    ),
}


def code(page: str) -> Iterator[str]:
    """Yield the lines of code blocks and the parts in backticks of a page."""
    parts = re.split(r"^```.*$", page, flags=re.MULTILINE)
    for block in parts[1::2]:
        yield from block.splitlines()
    for text in parts[::2]:
        yield from re.findall(r"`([^`]+)`", text)


def found(name: str) -> Path | None:
    """Return the file that a document means: below the repository or below ``provision/``."""
    return next(
        (p for p in (ROOT / name, ROOT / "provision" / name) if p.is_file()), None
    )


def defined(path: Path, name: str) -> bool:
    """Whether a module defines a function, class or method, or assigns a name."""
    last = name.rpartition(".")[2]
    pattern = rf"^ *(?:(?:async )?def|class) {last}\b|^{last}\b.*="
    return (
        re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE) is not None
    )


@cache
def help_of(verb: str) -> str | None:
    """Return the help text of a verb; None if there is no such verb."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            if main([verb, "--help"] if verb else ["--help"]):
                return None
        except SystemExit as end:
            return None if end.code else out.getvalue()
    raise AssertionError("--help did not end the program")


def test_every_relative_link_leads_somewhere() -> None:
    for page, text in PAGES.items():
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            there = (ROOT / page).parent / link
            assert "://" in link or there.exists(), f"{page}: {link}"


def test_every_named_file_and_function_exists() -> None:
    for page, text in PAGES.items():
        for name, inside in NAMED.findall(text):
            path = found(name)
            is_there = path is not None and (not inside or defined(path, inside))
            assert is_there or name in NOT_OURS, f"{page}: {name}:{inside}"


@pytest.mark.machine
def test_every_named_session_exists() -> None:
    named: set[str] = set()
    for page in PAGES.values():
        text = "\n".join(code(page))
        named.update(re.findall(r"nox(?:file\.py)? -s\s+([\w-]+)", text))
    assert len(named) > 5
    command = [sys.executable, "-m", "nox", "-f", ROOT / "noxfile.py", "--list", "-s"]
    done = subprocess.run(
        [*command, *named], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def unknown(line: str) -> list[str]:
    """Return the verbs and options of the commands in a line that do not exist."""
    wrong = []
    for verb, rest in re.findall(r"(?:^|[ /])provision ([a-z]+)\b([^|]*)", line):
        text = help_of(verb)
        if text is None:
            wrong.append(verb)
            continue
        options = re.findall(r"(?<!\S)--[a-z][\w-]*", rest.partition(" -- ")[0])
        known = set(re.findall(r"--[a-z][\w-]*", text))
        wrong += [f"{verb} {option}" for option in options if option not in known]
    return wrong


def test_every_named_verb_and_option_exists() -> None:
    for page, text in PAGES.items():
        for line in code(text):
            assert unknown(line) == [], f"{page}: {line}"


def test_a_verb_and_an_option_that_are_gone_are_noticed() -> None:
    assert unknown("provision verify T --deep # and --repair") == []
    assert unknown("provision verify T --deepest") == ["verify --deepest"]
    assert unknown(".tools/bin/provision bake T --deep") == ["bake"]
    assert unknown("provision run T -- python --version") == []


def test_readme_lists_every_target() -> None:
    rows = re.findall(
        r"^\| (`.+?) \| .+ \| (?:supported|legacy|unproven|unlocked) \|$",
        README,
        re.MULTILINE,
    )
    listed = {name for cell in rows for name in re.findall(r"`([\w-]+)`", cell)}
    assert listed == {path.stem for path in (ROOT / "envs").glob("*.toml")}


def test_every_promise_has_a_test() -> None:
    whole = " ".join("\n".join(PAGES.values()).split())
    for words, (file, part) in PROMISES.items():
        assert words in whole
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"^def test_\w*{part}", text, re.MULTILINE), (file, part)


def test_architecture_has_a_line_for_every_package() -> None:
    rows = re.findall(
        r"^\| `([a-z]+)/` \|", PAGES["docs/explanation/architecture.md"], re.MULTILINE
    )
    packages = {path.parent.name for path in (ROOT / "provision").glob("*/__init__.py")}
    assert packages <= set(rows)
    for row in rows:
        assert (ROOT / row).is_dir() or row in packages


def script(name: str) -> ModuleType:
    """Return a program of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made  # where NamedTuple looks up its annotations
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize(
    ("name", "product"),
    [
        ("draw_checks", "reference/checks.md"),
        ("draw_machines", "reference/machines.md"),
        ("draw_findings", "reference/findings.md"),
        ("draw_errors", "errors/pasted.md"),
        ("draw_modules", "explanation/modules.md"),
    ],
)
def test_what_is_made_from_the_code_is_current(name: str, product: str) -> None:
    text = (ROOT / "docs" / product).read_text(encoding="utf-8")
    assert text == script(name).draw(), "`nox -s docs` makes it again"


def test_the_doctor_knows_every_error_text_of_the_page() -> None:
    made = script("draw_errors")
    unknown = [t for t in made.texts() if made.said(t).code == "not-recognised"]
    assert unknown == []
    assert len(set(made.texts())) == len(made.texts()) > 40


def test_the_glossary_has_twelve_words() -> None:
    glossary = PAGES["docs/reference/glossary.md"]
    words = re.findall(r"^\| ([a-z]+) \| [A-Z`]", glossary, re.MULTILINE)
    assert len(set(words)) == 12
    assert "docs/reference/glossary.md" in README


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_the_first_commands_of_the_readme_build_and_test(page: str) -> None:
    first = PAGES[page].split("```")[1]
    typed = [line.partition("#")[0].rstrip() for line in first.splitlines()[1:]]
    sessions = ("build-auto", "tests")
    assert typed == [f"python3 noxfile.py -s {name}" for name in sessions]


def test_each_column_of_a_table_has_a_header() -> None:
    """Screen readers name it; `nox -s browser` judges the pages whole."""
    header = re.compile(r"^\|(.*)\|\n\|[ :|-]+\|$", re.MULTILINE)
    for page, text in PAGES.items():
        for row in header.findall(text):
            for cell in re.split(r"(?<!\\)\|", row):
                assert cell.strip(), f"{page}: |{row}|"


# Made from the code or its tests, or by `nox -s bench`.
MADE = re.compile("Made (?:from the code )?by|Generated by `nox")


def test_what_is_written_by_hand_stays_short() -> None:
    """Without pages of errors, made ones and Chinese, which are read one at a time."""
    mine = [
        text
        for page, text in PAGES.items()
        if page != "CHANGELOG.md"
        and not page.startswith("docs/errors/")
        and not MADE.search(text)
        and not re.search("[\u4e00-\u9fff]{9}", text)
    ]
    assert 30 < len(mine) < 60
    assert sum(len(text.split()) for text in mine) <= 30_000


def test_each_row_of_wrong_numbers_has_a_page_under_what_people_paste() -> None:
    made = script("draw_known_wrong").pages()
    for path, text in made.items():
        assert PAGES.get(f"docs/{path}") == text, "`nox -s docs` makes it again"
    written = {f"errors/{path.name}" for path in (ROOT / "docs/errors").glob("wrong-*")}
    assert written == made.keys() - {"reference/known-wrong.md"}
    for name, row in read_known_wrong(ROOT / "envs" / "catalog").items():
        assert bool(row.measured) != (
            "measured none of it" in made[f"errors/wrong-{name}.md"]
        )
        for path in (f"errors/wrong-{name}.md", "reference/known-wrong.md"):
            assert row.measured in made[path]
    titles = {text.partition("\n")[0] for text in made.values()}
    assert len(titles) == len(made)
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in made:
        assert f"- {path}\n" in nav


def test_the_reference_is_current_and_nothing_in_it_lacks_a_description() -> None:
    made = script("draw_reference")
    for name, text in made.pages().items():
        assert PAGES[f"docs/reference/{name}"] == text, "`nox -s docs` makes it again"
    assert made.undocumented() == []


def test_every_verb_option_finding_and_check_is_documented() -> None:
    from smoke.engine.check_files import check_files, declared
    from tests.smoke.faults import FAULTS

    sections = dict(
        re.findall(
            r"^## (\w+)\n(.*?)(?=^## |\Z)",
            PAGES["docs/reference/verbs.md"],
            re.MULTILINE | re.DOTALL,
        )
    )
    head = PAGES["docs/reference/verbs.md"].partition("\n## ")[0]
    assert sorted(sections) == verb_names()
    for verb, text in sections.items():
        described = set(re.findall(r"--?[a-z][\w-]*(?=[` ,])", head + text))
        options = set(re.findall(r"(?<!\S)--?[a-z][\w-]*", help_of(verb) or ""))
        assert options - described == set(), verb
    findings = PAGES["docs/reference/findings.md"]
    codes = {fault.code for fault in FAULTS if fault.code}
    tables = (
        "doctor/findings.toml",
        "doctor/cases.toml",
        "environment/findings.toml",
        "report/findings.toml",
    )
    for table in tables:
        texts = tomllib.loads((ROOT / "provision" / table).read_text(encoding="utf-8"))
        codes |= {text.get("code", name) for name, text in texts.items()}
    assert codes - set(re.findall(r"\| `([\w-]+)` \|", findings)) == set()
    rows = re.findall(r"\| `([\w.-]+)` \|", PAGES["docs/reference/checks.md"])
    assert {check.id for check in declared(check_files())} - set(rows) == set()


TRANSLATIONS = [page for page in PAGES if page.endswith(".zh.md")]
BLOCKS = re.compile(r"(?:^<!--[^>]*-->\n)?^```.*?^```$", re.MULTILINE | re.DOTALL)


def levelled(page: str) -> dict[str, object]:
    """Return what a translation shares with its page: commands, headings, tables and links.

    A row of a table has its parts in backticks (targets, findings), a link its place in Chinese.
    """
    text = BLOCKS.sub("", PAGES[page])
    there = (ROOT / page).parent
    links = set()
    for link in re.findall(r"\]\(([^)\s]+)", text):
        translated = re.sub(r"(\.zh)?\.md", ".zh.md", link)
        links.add(translated if (there / translated).is_file() else link)
    rows = re.findall(r"^\|.*$", text, re.MULTILINE)
    return {
        "blocks": BLOCKS.findall(PAGES[page]),
        "headings": re.findall(r"^#+ ", text, re.MULTILINE),
        "rows": [re.findall(r"`[^`]+`", row) for row in rows],
        "links": links - {"README.md", "README.zh.md"},
    }


@pytest.mark.parametrize("page", TRANSLATIONS)
def test_a_translation_is_level_with_its_page(page: str) -> None:
    english = levelled(page.replace(".zh.md", ".md"))
    chinese = levelled(page)
    for part, found in english.items():
        assert chinese[part] == found, part
    assert english["blocks"]
    assert re.search("[\u4e00-\u9fff]", PAGES[page])


def test_the_page_in_chinese_lists_every_translation() -> None:
    listed = re.findall(r"\]\(../(\S+\.zh\.md)\)", PAGES["docs/zh/index.md"])
    found = [(ROOT / "docs" / page).resolve() for page in listed]
    assert sorted(found) == sorted(ROOT / page for page in TRANSLATIONS)


def test_a_change_of_the_page_alone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    page = "docs/how-to/arc-windows.md"
    before = levelled(page)
    for part, old, new in (
        ("blocks", "provision detect\n", "provision targets\n"),
        ("blocks", "<!-- ends with 0 or 1", "<!-- ends with 1"),
        ("headings", "\n## Before", "\n### Before"),
        ("rows", "| `alloc-limit-4gb`", "| `device-lost`"),
        ("links", "(prove.md)", "(running.md)"),
    ):
        assert old in PAGES[page]
        with monkeypatch.context() as patch:
            patch.setitem(PAGES, page, PAGES[page].replace(old, new))
            after = levelled(page)
        assert [name for name in before if after[name] != before[name]] == [part]


def test_only_known_hosts_are_named() -> None:
    for page, text in PAGES.items():
        hosts = set(re.findall(r"https?://([\w.-]+)", text))
        assert hosts - HOSTS == set(), page


def test_no_path_of_a_machine_is_named() -> None:
    for page, text in PAGES.items():
        if page != "docs/how-to/docker.md":  # which names an image's
            paths = re.findall(r"(?<![\w.>~\]}/:*)-])(/[a-z]\w+(?:/[\w.-]*)*)", text)
            foreign = [path for path in paths if not path.startswith(SYSTEM)]
            assert foreign == [], page
