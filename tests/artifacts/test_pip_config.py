from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from provision.artifacts import pip_config
from provision.artifacts.pip_config import PipConfig, config_files, read_pip_config
from provision.core.errors import UsageError

linux = pytest.mark.skipif(
    sys.platform == "win32", reason="pip.conf lies elsewhere on Windows"
)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    empty = str(tmp_path / "none")
    return {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": empty, "XDG_CONFIG_HOME": empty}


def configure(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's own /etc/pip.conf must not decide a test."""
    real = config_files
    monkeypatch.setattr(
        pip_config,
        "config_files",
        lambda env: [path for path in real(env) if path != Path("/etc/pip.conf")],
    )


@linux
@pytest.mark.usefixtures("only")
def test_variables_win_over_files_and_later_files_over_earlier(
    tmp_path: Path, env: dict[str, str]
) -> None:
    house, own = tmp_path / "house", tmp_path / "own"
    house.mkdir()
    own.mkdir()
    configure(
        tmp_path / ".pip" / "pip.conf",
        f"[global]\nindex-url = https://old.example/simple\nfind-links = {house}\n",
    )
    configure(
        tmp_path / "x.conf", "[install]\nindex-url = https://mirror.example/simple\n"
    )
    env["PIP_CONFIG_FILE"] = str(tmp_path / "x.conf")
    assert read_pip_config(env) == PipConfig("https://mirror.example/simple", (house,))
    env["PIP_FIND_LINKS"] = (
        f"https://example.org/wheels {own.as_uri()} {tmp_path / 'gone'}"
    )
    assert read_pip_config(env).wheelhouses == (own,)


@linux
@pytest.mark.usefixtures("only")
def test_files_are_read_in_the_order_of_pip(
    tmp_path: Path, env: dict[str, str]
) -> None:
    env["XDG_CONFIG_DIRS"] = f":{tmp_path / 'etc'}"
    env["XDG_CONFIG_HOME"] = ""
    (tmp_path / "a house").mkdir()
    links = f"find_links = {(tmp_path / 'a house').as_uri()}"
    configure(
        tmp_path / "etc/pip/pip.conf", f"[global]\nindex-url = https://1\n{links}\n"
    )
    houses = (tmp_path / "a house",)
    assert read_pip_config(env) == PipConfig("https://1", houses)
    configure(tmp_path / ".pip/pip.conf", "[download]\nindex-url = https://2\n")
    assert read_pip_config(env) == PipConfig("https://2", houses)
    own = "[install]\nindex-url = https://me:%40@3\n[global]\nindex-url = https://4\n"
    configure(tmp_path / ".config/pip/pip.conf", own)
    env["PIP_INDEX_URL"] = ""
    assert read_pip_config(env) == PipConfig("https://me:%40@3", houses)
    configure(tmp_path / "xdg/pip/pip.conf", "[global]\nindex-url = https://5\n")
    env["XDG_CONFIG_HOME"] = str(tmp_path / "xdg")
    assert read_pip_config(env) == PipConfig("https://5", houses)
    env["PIP_CONFIG_FILE"] = os.devnull
    assert read_pip_config(env) == PipConfig()


@linux
@pytest.mark.usefixtures("only")
def test_an_extra_index_is_not_a_source(tmp_path: Path, env: dict[str, str]) -> None:
    configure(
        tmp_path / ".pip" / "pip.conf",
        "[global]\nextra-index-url = https://evil.example/simple\n",
    )
    env["PIP_EXTRA_INDEX_URL"] = "https://evil.example/simple"
    env["XXX_INDEX_URL"] = "https://evil.example/simple"
    assert read_pip_config(env) == PipConfig()


@linux
@pytest.mark.usefixtures("only")
@pytest.mark.parametrize("text", ["index-url = https://x\n", "[global]\nx = ü\n"])
def test_a_broken_configuration_is_named(
    tmp_path: Path, env: dict[str, str], text: str
) -> None:
    path = configure(tmp_path / ".pip" / "pip.conf", "")
    path.write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=str(path)):
        read_pip_config(env)
