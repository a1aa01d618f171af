from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from provision.catalog.snapshot import Channel
from provision.core.errors import SpecError, ToolError
from provision.core.process import run
from provision.resolver import conda_lock, conda_shim
from provision.spec.model import Conda, Target
from tests.small import target_of

if TYPE_CHECKING:
    from pathlib import Path

FORGE = "https://forge.example/forge/"


def package(
    name: str, version: str, subdir: str, *depends: str, **more: object
) -> dict[str, object]:
    return {
        "name": name,
        "version": version,
        "build": "h0_0",
        "build_number": 0,
        "subdir": subdir,
        "url": f"{FORGE}{subdir}/{name}-{version}-h0_0.conda",
        "sha256": (name[0].encode().hex() * 32)[:64],
        "md5": "0" * 32,
        "size": 1,
        "depends": depends,
        "timestamp": 0,
    } | more


PACKAGES = (
    package("python", "3.11.9", "linux-64", "zlib >=1.2", "tzdata", "__glibc >=2.17"),
    package("python", "3.11.9", "win-64", "zlib >=1.2", "tzdata", "ucrt"),
    package("zlib", "1.2.13", "linux-64"),
    package("zlib", "1.3.1", "linux-64"),
    package("zlib", "1.3.1", "win-64", url=f"{FORGE}win-64/zlib-1.3.1-h0_0.tar.bz2"),
    package("ucrt", "10.0", "win-64"),
    package("tzdata", "2024a", "noarch", noarch="generic"),
    package("cudatool", "12.0", "linux-64", "__cuda"),
)
CHANNEL = Channel.model_validate_json(
    json.dumps({"$schema": "channel.schema.json", "url": FORGE, "packages": PACKAGES})
)


def target(platform: str, *dependencies: str) -> Target:
    # The spec's Python is in the layer unless a dependency names another.
    conda = Conda(channels=("forge",), dependencies=dependencies)
    return target_of(platform, conda)


@pytest.fixture
def tools() -> None:
    pytest.importorskip("conda_lock", reason="the group conda is not installed")


def lock(spec: Target) -> str:
    return conda_lock.resolve(spec, {"forge": CHANNEL}, run)


def urls(text: str) -> list[str]:
    return [
        line.split("url: ")[1] for line in text.splitlines() if f"url: {FORGE}" in line
    ]


def test_the_shim_answers_like_conda_and_fails_like_conda() -> None:
    assert conda_shim.emulate_conda(["--version"]) == (0, "conda 25.0.0")
    code, text = conda_shim.emulate_conda(["install", "x"])
    assert (code, json.loads(text)["message"]) == (2, "unknown command install x")
    code, text = conda_shim.emulate_conda(["create", "--solver", "classic"])
    assert (code, json.loads(text)["error"]) == (1, "GetoptError")


def test_the_virtual_packages_are_those_of_the_platform_not_of_this_machine() -> None:
    pytest.importorskip("rattler", reason="py-rattler is not installed")
    found = {p.name.normalized: p for p in conda_shim.virtual_packages("linux-64")}
    assert {"__unix", "__linux", "__glibc", "__archspec"} == set(found), "and no __cuda"
    assert str(found["__glibc"].version) == "2.28"
    assert str(found["__archspec"].build_string) == "x86_64"


def test_without_its_tools_it_says_so_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(conda_lock.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ToolError, match="conda layer") as caught:
        conda_lock.find_shim(target("linux-64"))
    assert "of thing" in caught.value.what
    assert "provision-torch[conda]" in caught.value.remedy


@pytest.mark.machine
@pytest.mark.usefixtures("tools")
def test_another_platform_is_locked_from_here_with_real_addresses() -> None:
    names = ["python", "tzdata", "ucrt", "zlib"]
    text = lock(target("win-64"))
    assert [url.rpartition("/")[2].partition("-")[0] for url in urls(text)] == names
    assert "zlib-1.2" not in text
    assert "file://" not in text
    assert text.count("  # size: 1\n") == len(names)
    assert text.startswith(
        "# engine: conda-lock 4.0.3, py-rattler 0.28.0\n# command: provision"
    )


@pytest.mark.machine
@pytest.mark.usefixtures("tools")
def test_what_the_catalog_cannot_give_is_reported_in_the_words_of_the_solver() -> None:
    with pytest.raises(SpecError, match="conda layer of thing") as caught:
        lock(target("linux-64", "cudatool"))
    assert "cudatool" in caught.value.evidence
    assert "Traceback" not in caught.value.evidence
