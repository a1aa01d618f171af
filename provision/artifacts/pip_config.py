"""The user's package sources: the mirror and the wheelhouses of pip's configuration.

The lock has the hashes. ``extra-index-url`` is ignored, as it allows dependency confusion.
"""

import configparser
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from provision.core.errors import UsageError
from provision.core.home import home_folder, with_home

# Later ones win. pip reads [global] and its command's section; these two commands fetch wheels.
_SECTIONS = ("global", "download", "install")


class PipConfig(NamedTuple):
    """Package sources from pip's configuration."""

    # The mirror of the default index; None for the tool's own default. May hold credentials: never
    # write it into a lock, a record or a log.
    index_url: str | None = None
    wheelhouses: tuple[Path, ...] = ()


def read_pip_config(env: Mapping[str, str] | None = None) -> PipConfig:
    """Read pip's configuration files and variables, as pip 25 orders them: variables win."""
    # Links of ``find-links`` that are no folders of this machine are left out.
    settings = pip_settings(os.environ if env is None else env)
    links = map(_folder, settings.get("find-links", "").split())
    wheelhouses = tuple(filter(Path.is_dir, links))
    return PipConfig(settings.get("index-url") or None, wheelhouses)


def pip_settings(env: Mapping[str, str]) -> dict[str, str]:
    """Return pip's settings for installations by name; UsageError if a file cannot be parsed."""
    settings: dict[str, str] = {}
    for path in config_files(env):
        settings |= _settings(path)
    for name, value in env.items():
        if name.startswith("PIP_") and value:
            settings[name[4:].replace("_", "-").lower()] = value
    return settings


def config_files(env: Mapping[str, str]) -> list[Path]:
    """Return the files that pip reads, later ones winning; they need not exist."""
    # The file inside a virtual environment is left out: the toolkit's own is not its user's. See
    # https://pip.pypa.io/en/stable/topics/configuration/.
    # pip documents this value as the way to load no configuration file at all.
    if env.get("PIP_CONFIG_FILE") == os.devnull:
        return []
    windows = sys.platform == "win32"
    variable = "USERPROFILE" if windows else "HOME"
    # Where there is no home, a path that no file has.
    home = Path(env.get(variable) or home_folder() or os.devnull)
    files = []
    if windows:
        shared = env.get("PROGRAMDATA", r"C:\ProgramData")
        files.append(Path(shared, "pip", "pip.ini"))
        files.append(home / "pip" / "pip.ini")
        roaming = Path(env.get("APPDATA") or home / "AppData" / "Roaming")
        files.append(roaming / "pip" / "pip.ini")
    else:
        for folder in env.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":"):
            if folder:
                files.append(Path(folder, "pip", "pip.conf"))
        files.append(Path("/etc/pip.conf"))
        files.append(home / ".pip" / "pip.conf")
        own = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
        files.append(own / "pip" / "pip.conf")
    if env.get("PIP_CONFIG_FILE"):
        files.append(Path(env["PIP_CONFIG_FILE"]))
    return files


def _settings(path: Path) -> dict[str, str]:
    # Raw, as in pip: a % in a password is not an interpolation.
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")  # nothing where there is no such file
    except (configparser.Error, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read pip's configuration {path}",
            evidence=str(error).splitlines()[0],
            remedy="correct the file; `pip config debug` shows how pip reads it",
        ) from error
    settings = {}
    for section in _SECTIONS:
        if parser.has_section(section):
            for key, value in parser.items(section):
                settings[key.replace("_", "-")] = value
    return settings


def _folder(link: str) -> Path:
    parts = urlsplit(link)
    if parts.scheme == "file":
        path = unquote(parts.path)
        if sys.platform == "win32":  # file:///C:/wheels
            path = re.sub("^/+(?=[A-Za-z]:)", "", path)
        return Path(path)
    return with_home(Path(link))
