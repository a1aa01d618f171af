"""The nox sessions of a project, one per verb and target; its noxfile calls :func:`add_sessions`.

Python, nox and the standard library are enough to list them, in any environment of nox.
"""

import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import nox

from provision.core.errors import ProvisionError
from provision.spec.extends import resolved, spec_chain

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_CHOOSING = {"-s", "-e", "--session", "--sessions", "-k", "--keywords", "--json"}


def listed(words: Sequence[str]) -> set[str] | None:
    """Return the verbs whose sessions `nox -l` is to list, given its options.

    None where sessions are run, or chosen by other means than tags: nox then needs all of them.
    """
    options = {word.partition("=")[0] for word in words}
    if options.isdisjoint({"-l", "--list", "--list-sessions"}) or options & _CHOOSING:
        return None
    chosen = {word.removeprefix("--tags=") for word in words}
    return chosen & _TABLES["target"].keys() if options & {"-t", "--tags"} else set()


def add_sessions(
    noxfile: str, python: Callable[[], str] = lambda: sys.executable
) -> set[str]:
    """Add the sessions of a noxfile's project, given the noxfile's path; return their names.

    ``python`` returns the Python that has the toolkit.
    """
    root = Path(noxfile).resolve().parent
    nox.needs_version = ">=2025.2.9"
    nox.options.sessions = ["targets"]
    nox.options.default_venv_backend = "none"  # the toolkit makes the environments
    known, verbs = set[str](), listed(sys.argv[1:])

    def add(name: str, doc: str, *words: str, tags: Sequence[str] = ()) -> None:
        def call(session: nox.Session) -> None:
            # Isolated: a PYTHONPATH or a user site of the caller would reach the toolkit itself.
            session.run(
                python(),
                "-I",
                "-m",
                "provision",
                *words,
                *session.posargs,
                external=True,
            )

        call.__doc__ = doc
        nox.session(name=name, tags=tags)(call)
        known.add(name)

    if not verbs:
        for name, (doc, *words) in _TABLES["project"].items():
            add(name, doc, *words)
    if verbs == set():
        add(
            "VERB-TARGET",
            f"VERB is one of {', '.join(_TABLES['target'])}; nox -l -t VERB lists them.",
        )
        return known
    for name, verb, doc, words in _target_sessions(root):
        if verbs is None or verb in verbs:
            add(name, doc, verb, *words, tags=[verb])
    return known


def _target_sessions(root: Path) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield name, verb, description and arguments of each session of a project's targets."""
    for spec in sorted((root / "envs").glob("*.toml")):
        target, said = spec.stem, _said(spec)
        for verb, does in _TABLES["target"].items():
            if verb == "docker" and "docker" not in said:
                continue
            doc = f"{does} {target}: {said.get('summary', '')}"
            yield (
                f"{verb}-{target}",
                verb,
                doc,
                [
                    *_TABLES["before"].get(verb, ()),
                    target,
                    *_TABLES["words"].get(verb, ()),
                ],
            )


def _said(spec: Path) -> dict[str, Any]:
    try:
        return resolved(spec_chain(spec))
    except ProvisionError as error:
        return {"summary": f"its spec is broken: {error.what}"}
