"""What to build, what came of it, and whether there is anything to do."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from provision.core.project import Project
from provision.environment.manifest import Generation, Proof, current_generation
from provision.environment.verification import Verification
from provision.installer.plan import ArtifactSources, InstallPlan
from provision.lockfile.pip import Lock
from provision.report.model import Report
from provision.spec.model import Target


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What to build; :func:`build` hands each step the parts that it takes."""

    project: Project
    target: Target
    lock: Lock
    supply: ArtifactSources
    smoke: bool  # run the quick checks
    absent: str  # why the target's device is not on this machine; empty if it is
    stack: Callable[[], dict[str, str]]  # reads the layers of this host
    fresh: bool = False  # build even if a generation of this lock exists

    @property
    def home(self) -> Path:
        """The folder of the target's environments."""
        return self.project.environments(self.target.name)

    @property
    def proof(self) -> Proof:
        """What a build that succeeds may say of itself."""
        if self.absent:
            return "unproven"
        return "proven" if self.smoke else "skipped"


@dataclass(frozen=True, slots=True)
class BuildResult:
    """How a build ended."""

    target: str
    """Name of the target."""
    generation: Generation | None
    """The environment in use; null if the checks failed, and nothing was changed."""
    plan: InstallPlan | None = None
    """What was installed; null if an existing generation was used."""
    verification: Verification | None = None
    """The comparison with the lock; null if an existing generation was used."""
    report: Report | None = None
    """The report of the quick checks; null if they did not run."""


def ready_generation(request: BuildRequest) -> Generation | None:
    """Return the generation in use if it is what is to be built, so that there is nothing to do."""
    current = current_generation(request.home)
    if current is None or request.fresh or current.record.lock != request.lock.digest:
        return None
    if request.proof == "proven" and current.record.proof != "proven":
        return None
    return None if current.drifted() else current
