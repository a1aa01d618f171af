"""The nox sessions of a project, one per verb and target; its noxfile calls :func:`add_sessions`.

Python, nox and the standard library are enough to list them, in whichever environment nox lies.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import nox

from provision.core.errors import ProvisionError
from provision.spec.extends import resolved, spec_chain

VERBS = {
    "build": "Build, verify and prove",
    "lock": "Resolve and lock",
    "verify": "Verify",
    "smoke": "Check on the device",
    "rollback": "Go back to the previous generation of",
    "bundle": "Collect (-- -o DIR) all that an offline build takes of",
    "run": "Run a command (after --) in",
}
OTHERS = {
    "targets": ("List every target: lock, environment, last verdict.", "targets"),
    "detect": ("This machine: devices, drivers, and which target fits.", "detect"),
    "build-auto": ("Build the target that fits this machine.", "build", "auto"),
    "lock": ("Lock every target.", "lock"),
    "doctor": ("This machine, or after --: --python PATH, --log FILE, --target T.", "doctor"),
    "update": ("Refresh the catalogs from the network; only this verb changes them.", "update"),
    "clean": ("Remove the generations that are not in use.", "clean"),
}


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
        for verb, does in VERBS.items():
            add(f"{verb}-{target}", f"{does} {target}: {summary}", verb, target,
                *(["--"] if verb == "run" else []))  # fmt: skip
    for name, (doc, *words) in OTHERS.items():
        add(name, doc, *words)
