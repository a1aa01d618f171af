"""What the environment rules get, a context, and what they give: cases of ``cases.toml``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from provision.catalog.devices import Devices
from provision.core.findings import Finding, Level, described, toml_table
from provision.core.platforms import ACCELERATORS, Accelerator
from provision.doctor.environment import STACK, Environment
from provision.environment.installed import InstalledDistribution
from provision.host.model import Gpu, Host, host_layers

if TYPE_CHECKING:
    from provision.spec.model import Target


class MissingLibrary(NamedTuple):
    """A library that is imported and not found, and the file name of one that imports it."""

    name: str
    importer: str


@dataclass(frozen=True, slots=True)
class DoctorContext:
    """The environment, the machine and the target, before any rule is applied."""

    env: Environment
    host: Host
    devices: Devices
    # That it was built for; None for a foreign environment.
    target: Target | None = None
    # The accelerator to check the machine for, not the environment's own.
    assumed: str | None = None
    missing: tuple[MissingLibrary, ...] = ()
    # The files that are not as they were installed, by case and owner.
    files: Mapping[str, Mapping[InstalledDistribution, list[str]]] = field(
        default_factory=dict
    )
    # The foreign copies of packages that PYTHONPATH makes Python import.
    shadows: Sequence[str] = ()

    @property
    def accelerator(self) -> str:
        """The accelerator of the target, or else of the installed torch."""
        of_target = self.target.accelerator if self.target else None
        return self.assumed or of_target or self.env.accelerator

    def gpus(self, vendor: str) -> list[Gpu]:
        """The GPUs of a vendor."""
        return [gpu for gpu in self.host.gpus if gpu.vendor == vendor]

    @property
    def own_gpus(self) -> list[Gpu]:
        """The GPUs that the environment's accelerator is for."""
        return self.gpus(ACCELERATORS.get(self.accelerator, Accelerator()).vendor)

    @property
    def usable_gpus(self) -> list[Gpu]:
        """Of these, the GPUs that torch supports."""
        return [gpu for gpu in self.own_gpus if gpu.supported]

    def summary(self) -> dict[str, str]:
        """The versions of the environment and the layers of the machine, for display."""
        env = self.env
        facts = {"Python": env.python or "of unknown version", "torch": "not installed"}
        if env.torch:
            facts["torch"] = f"{env.torch.version}, built for {env.accelerator}"
        for dist in env.present(STACK[1:]):
            facts[dist.name] = dist.version
        facts["distributions"] = str(len(env.distributions))
        return facts | host_layers(self.host)


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
    env: Environment | None = None,
    **facts: object,
) -> Finding:
    """Return the finding of a case, with the facts that its texts name, and this code and level.

    What Provision built has its own remedy, if the environment is given and the case has one.
    """
    table = Path(__file__).with_name("cases.toml")
    finding = described(table, name, *evidence, env=env, **facts)
    finding = replace(finding, code=code or finding.code, level=level or finding.level)
    built = toml_table(table)[name].get("built")
    if env and env.built_for and built:
        return replace(finding, remedy=built.format(env=env, **facts))
    return finding
