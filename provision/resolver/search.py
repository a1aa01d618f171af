"""The search for what cannot be installed together: one minimal set of requirements after another."""

import re
from collections.abc import Sequence

from packaging.utils import canonicalize_name

from provision.core.process import Completed
from provision.resolver.derivation import NO_SOLUTION, Fact, source_only, stated_facts
from provision.resolver.uv import UvResolver
from provision.resolver.ways_out import Fault
from provision.spec.model import Target, requirement_name
from provision.spec.own import OwnPackage, own_packages
from provision.spec.places import Line, Places


class Search:
    """Finds the errors of a target, one after another."""

    def __init__(self, target: Target, engine: UvResolver, places: Places) -> None:
        self._engine = engine
        self._places = places
        self._target = target  # without what would be built
        self._remaining = [*target.pip.requirements, *target.pip.local]
        # The resolver gets the folders of own packages as URLs.
        local = [line for line in places.lines if line.key == "local"]
        self._written = dict(zip(target.pip.local, local, strict=False))
        self._own: dict[str, OwnPackage] = {}
        for package in own_packages(target.pip.local, places.root):
            self._own[package.text] = package
        self.faults: list[Fault] = []  # that no build ends
        self.unbuilt: list[Fault] = []  # that one does

    @property
    def rest(self) -> tuple[Target, tuple[str, ...]]:
        """What is no part of an error, and fits together: a target without builds, requirements."""
        return self._target, tuple(self._remaining)

    def go_on(self, failed: Completed) -> Completed | None:
        """Find the error of a failed run; return the failed run on the rest, None where it fits."""
        texts, alone = self._smallest(failed)
        fault = self._fault(texts, alone.stderr)
        names = self._only_unbuilt(texts, alone)
        if names:
            build = tuple(sorted(names))
            self.unbuilt.append(fault._replace(build=build))
            self._target = _without(self._target, names)
        else:
            self.faults.append(fault)
            self._remaining = [text for text in self._remaining if text not in texts]
        return self._run(self._target, self._remaining)

    def _run(self, target: Target, texts: Sequence[str]) -> Completed | None:
        """Return the failed run on some of the requirements, None on success."""
        if not texts:
            return None
        done = self._engine.pins_of(target, texts)
        return done if isinstance(done, Completed) else None

    def _smallest(self, failed: Completed) -> tuple[list[str], Completed]:
        """Return a minimal set of requirements that conflict, and the failed run on them alone.

        Only those that uv names can have a part in it: each is left out in turn. A run that fails
        for another reason, such as the network, proves nothing and the requirement stays.
        """
        said = failed.stderr.partition("hint:")[0]
        words = re.findall(r"\w[\w.-]*", said)
        named = {*map(canonicalize_name, words), ""}
        remaining = [text for text in self._remaining if self._name(text) in named]
        if not remaining:  # an override, for instance, is in none of them
            remaining = list(self._remaining)
        for requirement in list(remaining):
            others = [text for text in remaining if text != requirement]
            run = self._run(self._target, others)
            if run and NO_SOLUTION in run.stderr:
                remaining = others
                failed = run
        return remaining, failed

    def _name(self, text: str) -> str:
        """Return the distribution of a requirement, "" of a folder that does not tell it."""
        if text in self._own:
            return self._own[text].name
        return requirement_name(text)

    def _only_unbuilt(self, texts: Sequence[str], alone: Completed) -> set[str]:
        """Return what has to be built for one requirement to be met; nothing if that is not all."""
        names = set[str]()
        if len(texts) > 1:
            return names
        run: Completed | None = alone
        while run:
            more = source_only(stated_facts(run.stderr))
            if more <= names:
                return set()
            names |= more
            run = self._run(_without(self._target, names), texts)
        return names

    def _fault(self, texts: Sequence[str], said: str) -> Fault:
        own = {f"there is only {package.name}" for package in self._own.values()}
        facts = []
        for fact in stated_facts(said):
            if fact.words.partition("==")[0] not in own:
                facts.append(fact)
        roots = tuple(map(self._name, texts))
        lines = []
        for text in texts:
            lines += self._lines(text, facts)
        met = {*roots, *(fact.needs for fact in facts)}
        for line in self._places.lines:  # which limit what others require
            if line.key in {"constraints", "overrides"} and line.name in met:
                lines.append(line)
        distinct = tuple(dict.fromkeys(lines))
        return Fault(tuple(texts), roots, distinct, tuple(facts), said)

    def _lines(self, text: str, facts: Sequence[Fact]) -> list[Line]:
        lines = []
        if own := self._own.get(text):
            for fact in facts:
                if fact.about != own.name or not fact.needs:
                    continue
                if line := own.line(fact.needs):
                    lines.append(line)
        return lines or [self._written.get(text) or self._places.line(text)]


def _without(target: Target, names: set[str]) -> Target:
    exclude = sorted({*target.pip.exclude, *names})
    return target.with_pip(exclude=tuple(exclude))
