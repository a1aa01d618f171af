"""The nox sessions of a project, one per verb and target; its noxfile calls :func:`add_sessions`.

Python, nox and the standard library are enough to list them, in whichever environment nox lies.
"""

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import nox

from provision.core.errors import ProvisionError
from provision.spec.extends import resolved, spec_chain

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _this_python(_: str) -> str:
    return sys.executable


def add_sessions(noxfile: str, python: Callable[[str], str] = _this_python) -> None:
    """Add the sessions of the project in which a noxfile, given by its ``__file__``, lies.

    ``python`` returns the Python that has the toolkit and what a verb needs.
    """
    root = Path(noxfile).resolve().parent
    nox.needs_version = ">=2025.2.9"
    nox.options.sessions = ["targets"]
    nox.options.default_venv_backend = "none"  # the toolkit makes the environments

    def add(name: str, doc: str, *words: str) -> None:
        def call(session: nox.Session) -> None:
            # Isolated: a PYTHONPATH or a user site of the caller would reach the toolkit itself.
            session.run(python(words[0]), "-I", "-m", "provision", *words, *session.posargs,
                        external=True)  # fmt: skip

        call.__doc__ = doc
        nox.session(name=name)(call)

    for spec in sorted((root / "envs").glob("*.toml")):
        target, summary = spec.stem, ""
        try:
            said = resolved(spec_chain(spec))
        except ProvisionError as error:
            said, summary = {}, f"its spec is broken: {error.what}"
        summary = summary or said.get("summary", "")
        if "docker" in said:
            add(f"docker-{target}", f"Build the image of {target}: {summary}", "docker", target)
        for verb, does in _TABLES["target"].items():
            add(f"{verb}-{target}", f"{does} {target}: {summary}", verb, target,
                *(["--"] if verb == "run" else []))  # fmt: skip
    for name, (doc, *words) in _TABLES["project"].items():
        add(name, doc, *words)
