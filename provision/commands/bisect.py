"""The verb ``bisect``: the first bad release of one package, by builds beside the current one."""

import os
from dataclasses import replace

from packaging.version import Version

from provision.commands.bisect_candidates import (
    Candidate,
    CandidateLocks,
    has_release,
    in_one_line,
    releases,
    require_release,
)
from provision.commands.bisect_history import Past, changed_package, is_built
from provision.commands.bisect_judges import (
    Judge,
    Seen,
    by_check,
    by_program,
    require_check,
    require_program,
)
from provision.commands.bisect_plan import plan_of
from provision.commands.bisect_remedy import lines_that_lock
from provision.commands.bisect_result import Bisection, BisectRequest
from provision.commands.bisect_search import (
    Word,
    first_bad,
    last_good,
    search,
    state_of,
)
from provision.commands.build import BESIDE, build_beside
from provision.commands.build_request import BuildRequest
from provision.commands.generations import remove_beside
from provision.commands.lock import diff_artifacts
from provision.commands.suite import SmokeRequest
from provision.core.errors import ProvisionError, UsageError
from provision.core.locking import folder_lock, waiting
from provision.core.process import Run
from provision.core.progress import Progress
from provision.environment.manifest import current_generation
from provision.lockfile.conda import conda_packages
from provision.report.layers import changed_layers
from provision.report.model import Report
from provision.resolver.resolver import Resolver


class Bisector:
    """One search: its plan first, which downloads nothing that is installed, then its run."""

    def __init__(
        self, request: BisectRequest, resolver: Resolver, run: Run, progress: Progress
    ) -> None:
        self._request = request
        self._run = run
        self._progress = progress
        self._past = Past(request, progress.note)
        self._seen: dict[int, Seen] = {}
        self._end: Seen | None = None  # what was seen of the bad end
        self._error: ProvisionError | None = None  # of the last build that failed
        self._unstable = ""  # the release that two runs disagree on
        if request.check:
            require_check(request.project.smoke, request.check)
        self._package = request.package or self._changed_package()
        if self._package not in request.lock.versions:
            raise _not_locked(request, self._package)
        self._candidates = self._locked(resolver)

    def _changed_package(self) -> str:
        request = self._request
        good = self._past.last_good()
        if good and good.lock == request.lock.digest and not request.good:
            raise _not_of_a_release(request, good)
        versions = self._past.good_versions()
        return changed_package(request.target, versions, request.lock)

    def _locked(self, resolver: Resolver) -> list[Candidate]:
        """Return the candidates, the good end first."""
        request, package = self._request, self._package
        versions = self._versions(resolver)
        if len(versions) < 2:
            raise UsageError(
                f"{request.target.name}: there is no older release of {package} than {versions[-1]}",
                cause="the spec, its cut-off and its indexes have no other one that fits",
                remedy="name another package with --package, or an older release with --good",
            )
        locks = CandidateLocks(request.target, package, request.lock, resolver)
        candidates = locks.of(versions)
        # An end that has no lock is no end.
        while not request.good and len(candidates) > 1 and candidates[0].error:
            end = candidates.pop(0)
            self._progress.note(f"{package} {end.version} is left out: {end.why}")
        if len(candidates) < 2:
            raise UsageError(
                f"{request.target.name}: no older release of {package} than "
                f"{candidates[0].version} can be locked",
                remedy="name another package with --package, or a newer release with --bad",
            )
        return candidates

    def _versions(self, resolver: Resolver) -> list[str]:
        """Return the releases between the ends, and these; UsageError if one that was typed is none."""
        request, package = self._request, self._package
        present = request.lock.versions[package]
        bad = request.bad or present
        good = request.good or self._good_of_history(bad)
        if good and Version(good) >= Version(bad):
            raise UsageError(
                f"--good {good} is not older than the bad end, {bad}",
                remedy="name an older release; or a newer one with --bad",
            )
        offered = releases(request.target, package, (good, bad), resolver)
        if request.bad:
            require_release("--bad", request.bad, offered)
        if request.good:
            require_release("--good", request.good, offered)
        # It is built here, or locked, also where an index has it no more.
        if not request.bad and not has_release(present, offered):
            offered.append(present)
        return offered

    def _good_of_history(self, bad: str) -> str:
        """Return the release that was installed when it was last good; "" if that is not known."""
        version = self._past.good_versions().get(self._package, "")
        if not version or Version(version) < Version(bad):
            return version
        self._progress.note(
            f"the last good report has {self._package} {version}, which is not older than {bad}: the "
            "search begins at the oldest release"
        )
        return ""

    def plan(self) -> Bisection:
        """Return what would be built."""
        return plan_of(self._request, self._package, self._candidates)

    def search(self) -> Bisection:
        """Build, try and compare; what was built goes again, unless it is to be kept.

        ToolError: the bad end cannot be built, or a program ended without a verdict.
        """
        request = self._request
        self._require_program()
        plan = self.plan()
        judge = self._judge()
        cache = request.project.root / ".cache"
        name = request.target.name
        waits = waiting(f"a search in {name}", self._progress)
        with folder_lock(cache, waits, name=f"bisect-{name}.lock"):
            try:
                words = search(
                    lambda place: self._word(place, judge), len(plan.releases)
                )
                self._confirm(words, judge)
            except UsageError:
                self._remove()
                raise
            except (ProvisionError, KeyboardInterrupt):
                self._progress.note(
                    f"the next search uses what was built; `provision clean {name}` removes it"
                )
                raise
            self._remove()
        self._progress.step("")
        return self._result(plan, words)

    def _remove(self) -> None:
        """Remove what was built, unless it is to be kept."""
        if not self._request.keep and self._request.home.is_dir():
            remove_beside(self._request.home, BESIDE, self._progress)

    def _require_program(self) -> None:
        """Raise UsageError if the present environment is built and lacks the program."""
        request = self._request
        current = current_generation(self._request.home)
        if request.command and current and current.record.lock == request.lock.digest:
            require_program(request.command[0], request.target, current.folder)

    def _judge(self) -> Judge:
        request = self._request
        if request.command:
            return by_program(request.command, self._run)
        _, _, device = request.check.partition("@")
        suite = self._past.suite()
        smoke = SmokeRequest(
            request.project, request.target, request.layers, suite, device=device or "0"
        )
        return by_check(smoke, request.check, self._run, self._progress)

    def _word(self, place: int, judge: Judge) -> Word:
        """Try one candidate: by the history where that is enough, else in its environment."""
        candidate = self._candidates[place]
        end = self._end
        is_end = place == len(self._candidates) - 1
        # What is built is run: a report may be of a failure that comes and goes.
        seen = None
        if candidate.lock and not is_built(self._request.home, candidate.lock):
            # Of a check that is worse than usual, no report tells it.
            symptom = end.code if end and not end.compared else ""
            seen = self._past.seen(candidate.lock, symptom)
        if seen is None:
            seen = self._try(candidate, judge, is_end=is_end)
        word = seen.word(end)
        if is_end:
            self._end = seen
        self._seen[place] = seen
        self._progress.note(f"{self._package} {candidate.version}: {word}: {seen.why}")
        return word

    def _confirm(self, words: dict[int, Word], judge: Judge) -> None:
        """Run the last good and the first bad release once more; note which one disagrees."""
        low, high = last_good(words), first_bad(words)
        if low is None or high is None:
            return
        for place in (high, low):
            candidate = self._candidates[place]
            first = self._seen[place]
            seen = self._try(candidate, judge, is_end=False)
            word = seen.word(self._end)
            if word != words[place]:
                why = f"{words[place]}: {first.why}; run again, {word}: {seen.why}"
                self._seen[place] = replace(first, why=why)
                words[place] = "skipped"
                self._unstable = candidate.version
                self._progress.note(f"{self._package} {candidate.version}: {why}")
                return

    def _try(self, candidate: Candidate, judge: Judge, *, is_end: bool) -> Seen:
        """Build a candidate and try it; one that cannot be built says nothing."""
        if candidate.lock is None:
            return Seen("none", candidate.why)
        request = BuildRequest(
            self._request.project,
            candidate.target,
            candidate.lock,
            self._request.supply,
            smoke=False,
            absent="",
            stack=dict,
        )
        try:
            generation, held = build_beside(request, self._run, self._progress)
        except ProvisionError as error:
            if is_end:
                raise
            self._error = error
            return Seen("none", in_one_line(error))
        try:
            return judge(candidate, generation.folder)
        finally:
            if held is not None:
                os.close(held)

    def _result(self, plan: Bisection, words: dict[int, Word]) -> Bisection:
        rows = list(plan.releases)
        for place, word in words.items():
            why = self._seen[place].why
            rows[place] = replace(rows[place], outcome=word, why=why)
        result = replace(plan, releases=tuple(rows), state=state_of(words, len(rows)))
        if self._unstable:
            return replace(result, state="unstable")
        no_good = "good" not in words.values()
        if result.state == "unknown" and self._error and no_good:
            raise self._error
        low, high = last_good(words), first_bad(words)
        if low is not None:
            result = replace(result, good=rows[low].version)
        if high is not None:
            result = replace(result, bad=rows[high].version)
        if low is None or high is None:
            return result
        suspects = [row.version for row in rows[low + 1 : high + 1]]
        good, bad = self._candidates[low], self._candidates[high]
        assert good.lock and bad.lock  # noqa: S101, PT018 - they were tried
        return replace(
            result,
            suspects=tuple(suspects),
            changes=tuple(diff_artifacts(good.lock.artifacts, bad.lock.artifacts)),
            remedy=lines_that_lock(good, self._request.target, self._package),
        )


def _not_locked(request: BisectRequest, package: str) -> UsageError:
    """Return the error of a package that has no releases to compare."""
    lock = request.lock
    if package in lock.local:
        cause = "it is an own package, which has one release"
    elif package in [conda.name for conda in conda_packages(lock)]:
        cause = "it is a package of the conda layer"
    else:
        return UsageError(
            f"--package {package}: it is not in the lock of {request.target.name}",
            remedy="name one that is, or lock again",
        )
    return UsageError(
        f"--package {package}: only packages of the pip layer can be searched",
        cause=cause,
        remedy="name a package of the pip layer",
    )


def _not_of_a_release(request: BisectRequest, good: Report) -> UsageError:
    """Return the error where it was good with the present lock: no release is the cause."""
    changes = changed_layers(good, request.layers, request.lock.digest)
    cause = "nothing that is recorded changed since then: look at load, heat and power"
    if changes:
        cause = "a layer of this host changed since then"
    return UsageError(
        f"{request.target.name} passed {request.check} with this very lock on {good.started}",
        evidence="\n".join(map(str, changes)),
        cause=cause,
        remedy="go back to that layer; name a package with --package to search its releases all "
        "the same",
    )
