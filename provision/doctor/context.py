"""What the environment rules get, a context, and what they give: cases of ``cases.toml``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from provision.catalog.devices import Devices
from provision.core.findings import Finding, Level, described
from provision.core.platforms import ACCELERATORS, Accelerator
from provision.doctor.environment import STACK, Environment
from provision.doctor.installation import Faults
from provision.doctor.libraries import MissingLibrary
from provision.environment.installed import InstalledDistribution
from provision.host.model import Gpu, Host, host_layers

if TYPE_CHECKING:
    from provision.spec.model import Target


@dataclass(frozen=True, slots=True)
class DoctorContext:
    """The environment, the machine and the target, before any rule is applied."""

    env: Environment
    host: Host
    devices: Devices
    target: Target | None = (
        None  # that it was built for; None for a foreign environment
    )
    assumed: str | None = (
        None  # accelerator to judge the machine for, not the environment's own
    )
    missing: tuple[
        MissingLibrary, ...
    ] = ()  # native libraries that are imported and not found
    # Packages with a library that needs what this torch lacks: the library, a symbol.
    foreign: Mapping[InstalledDistribution, tuple[str, str]] = field(
        default_factory=dict
    )
    files: Faults = field(default_factory=dict)  # what is not as it was installed
    elsewhere: Mapping[str, list[str]] = field(
        default_factory=dict
    )  # by who names the folders
    repair: str = ""  # the command that mends it, if it was built from a lock

    @property
    def accelerator(self) -> str:
        """The accelerator of the target, or else of the installed torch."""
        of_target = self.target.accelerator if self.target else None
        return self.assumed or of_target or self.env.accelerator

    def gpus(self, vendor: str) -> list[Gpu]:
        """Return the GPUs of a vendor."""
        return [gpu for gpu in self.host.gpus if gpu.vendor == vendor]

    @property
    def own_gpus(self) -> list[Gpu]:
        """The GPUs that the environment's accelerator is for."""
        return self.gpus(ACCELERATORS.get(self.accelerator, Accelerator()).vendor)

    def summary(self) -> dict[str, str]:
        """Return the versions of the environment and the layers of the machine, for display."""
        env = self.env
        shown = [dist for name in STACK[1:] if (dist := env.get(name))]
        built = f"{env.torch.version}, built for {env.accelerator}" if env.torch else ""
        return {
            "Python": env.python or "of unknown version",
            "torch": built or "not installed",
            **{dist.name: dist.version for dist in shown},
            "distributions": str(len(env.distributions)),
            **host_layers(self.host),
        }


Findings = Iterator[Finding]
Rule = Callable[[DoctorContext], Findings]


def unless(*codes: str) -> Callable[[Rule], Rule]:
    """Mark a rule: it is not applied after an error or a warning of codes that explain it."""

    def mark(rule: Rule) -> Rule:
        rule.unless = codes  # type: ignore[attr-defined]
        return rule

    return mark


def case(
    name: str,
    evidence: Iterable[str],
    /,
    *,
    code: str | None = None,
    level: Level | None = None,
    **facts: object,
) -> Finding:
    """Return the finding of a case, with the facts that its texts name, and this code and level."""
    found = described(Path(__file__).with_name("cases.toml"), name, *evidence, **facts)
    return replace(found, code=code or found.code, level=level or found.level)
