"""Text of a spec in the formats of other installers, read again by the parsers of these."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from packaging.pylock import Pylock
from pip._internal.index.collector import LinkCollector
from pip._internal.index.package_finder import PackageFinder
from pip._internal.models.search_scope import SearchScope
from pip._internal.models.selection_prefs import SelectionPreferences
from pip._internal.network.session import PipSession
from pip._internal.req.req_file import parse_requirements

from provision.core.project import Project
from provision.lockfile import formats
from provision.lockfile.pip import Lock, read_lock
from provision.spec.reader import load_target

if TYPE_CHECKING:
    from provision.spec.model import Target

PROJECT = Project(Path(__file__).parents[2])
# What YAML 1.1 or 1.2 takes for something else than a text, or what ends one.
TEXTS = [
    *(
        "on",
        "off",
        "yes",
        "No",
        "y",
        "n",
        "true",
        "FALSE",
        "null",
        "~",
        "",
        "123",
        "0x1f",
    ),
    *(
        "1e3",
        "0o17",
        "017",
        "1_000",
        "12:30",
        "1.5",
        ".inf",
        ".nan",
        "2026-11-01",
        "<<",
        "=",
    ),
    *(
        "}",
        "{a: b}",
        "[a]",
        "- a",
        "a: b",
        "a #b",
        "#a",
        "&a",
        "*a",
        "!a",
        "!!float 1",
        "%a",
    ),
    *(
        "@a",
        "`a`",
        "'a'",
        '"a"',
        "\\",
        "\\n",
        "a\nb",
        "a\r\nb",
        "a\tb",
        " a ",
        "? a",
        "|",
        ">",
    ),
    *(
        "---",
        "...",
        "$HOME",
        "${HOME}",
        "$(id)",
        "ä",
        "密码",
        "\U0001f600",
        "\x7f",
        "\x85",
    ),
    *("\u2028", "\ufeff", "\x1b[0m", "a" * 5000),
]
URLS = {
    "https://one.example/simple/": "https://one.example/simple/",
    "https://me:$PASSWORD@two.example/a b/": "https://me:$PASSWORD@two.example/a%20b/",
    "https://x.example/${HOME}/": "https://x.example/$%7BHOME%7D/",
    "https://x.example/ --pre\n-e .": "https://x.example/%20--pre%0A-e%20.",
    "https://x.example/ #a": "https://x.example/%20#a",
    "https://x.example/%20/?a=1&b=2#c": "https://x.example/%20/?a=1&b=2#c",
}
NAMES = (
    "on",
    "off",
    "yes",
    "no",
    "y",
    "n",
    "true",
    "null",
    "123",
    "1e3",
    "0x1f",
    "017",
    "1-2-3",
)
INDEXES = {str(number): url for number, url in enumerate(URLS)}


@pytest.fixture(scope="module")
def target() -> Target:
    return load_target(PROJECT.specs, "cpu-linux")


@pytest.fixture(scope="module")
def lock() -> Lock:
    return read_lock(PROJECT.lock("cpu-linux"))


def environment(target: Target, lock: Lock, **built: str) -> dict[str, Any]:
    document = yaml.safe_load(formats.environment(target, lock, INDEXES, built))
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("name", NAMES)
def test_attack_the_name_of_a_target_stays_a_text_in_yaml(
    target: Target, lock: Lock, name: str
) -> None:
    """A target is named as a number or a truth value of YAML is: conda reads the name."""
    document = environment(target.model_copy(update={"name": name}), lock)
    assert document["name"] == name


@pytest.mark.parametrize("text", TEXTS)
def test_attack_each_text_stays_what_it_is_in_yaml(
    target: Target, lock: Lock, text: str
) -> None:
    """A spec's texts mean something else in YAML: conda reads the text itself."""
    key = text[:1000]  # which is the most that YAML allows
    odd = target.model_copy(update={"environment": {key: text, "A": text}})
    document = environment(odd, lock)
    assert document["variables"] == {key: text, "A": text}
    assert set(document) == {"name", "channels", "dependencies", "variables"}


def test_the_lines_for_pip_stay_lines_for_pip_in_yaml(
    target: Target, lock: Lock
) -> None:
    first, second, *_ = lock.artifacts
    url = "file:///a%20b/x-1.0-py3-none-any.whl"
    document = environment(target, lock, **{first.name: url, second.name: "./a.whl"})
    lines = document["dependencies"][-1]["pip"]
    assert lines[: len(URLS)] == [f"--extra-index-url {url}" for url in URLS.values()]
    assert lines[len(URLS) : len(URLS) + 2] == [f"{first.name} @ {url}", "./a.whl"]
    rest = lock.artifacts[2:]
    assert lines[len(URLS) + 2 :] == [f"{a.name}=={a.version}" for a in rest]


@pytest.mark.machine  # pip asks the system what it is
def test_attack_no_index_adds_an_option_to_a_requirements_file(
    tmp_path: Path, lock: Lock
) -> None:
    """The address of an index has blanks, lines or variables: pip reads one address."""
    file = tmp_path / "requirements.txt"
    file.write_text(formats.requirements(lock, INDEXES, {}), encoding="utf-8")

    session = PipSession()
    collector = LinkCollector(session, SearchScope([], [], no_index=False))
    finder = PackageFinder.create(collector, SelectionPreferences(allow_yanked=False))
    read = list(parse_requirements(str(file), session, finder))
    pins = [f"{a.name}=={a.version}" for a in lock.artifacts]
    assert [each.requirement.strip() for each in read] == pins
    hashes = [each.options["hashes"]["sha256"] for each in read if each.options]
    assert hashes == [[a.sha256] for a in lock.artifacts]
    assert finder.index_urls == list(URLS.values())


def test_attack_each_text_stays_what_it_is_in_toml(lock: Lock) -> None:
    """The address of a wheel or an index has quotes and lines: each reader gets the address."""
    odd = [
        "https://x.example/'\"\n[[packages]]\nname = 'y'/",
        "https://x.example/\U0001f600\\",
    ]
    artifacts = [
        dataclasses.replace(a, index=str(number))
        for number, a in enumerate(lock.artifacts[:2])
    ]
    indexes = dict(zip("01", odd, strict=True))
    addresses = {a.name: url for a, url in zip(artifacts, odd, strict=True)}
    small = dataclasses.replace(lock, artifacts=tuple(artifacts))
    document = tomllib.loads(formats.pylock(small, indexes, addresses))
    assert [p["index"] for p in document["packages"]] == odd
    assert [p["wheels"][0]["url"] for p in document["packages"]] == odd
    assert len(Pylock.from_dict(document).packages) == 2
