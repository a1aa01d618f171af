"""Rules on transformers, and on the ipex-llm and torch that it is used with."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from provision.core.findings import Finding, Level
from provision.doctor.rules.requirements import meets, pinned, requirements
from provision.environment.installed import parse_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.doctor.context import DoctorContext


class TransformersForIpexLlm:
    """transformers is newer than the versions whose model code ipex-llm patches."""

    code: ClassVar[str] = "transformers-version-too-new-for-ipex-llm"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        llm, transformers = context.env.get("ipex-llm"), context.env.get("transformers")
        if llm is None or transformers is None or transformers.parsed is None:
            return
        pins = [v for pin in pinned(llm, "transformers") if (v := parse_version(pin))]
        if pins and transformers.parsed > max(pins):
            yield Finding(
                self.code,
                Level.ERROR,
                "transformers is newer than the versions that ipex-llm patches",
                f"ipex-llm {llm.version} patches transformers up to {max(pins)}",
                f"uv pip install 'transformers=={min(pins)}'",
                (f"transformers {transformers.version} is installed",
                 f"ipex-llm {llm.version} pins {', '.join(sorted(map(str, pins)))}"),
            )  # fmt: skip


class TooOldForTransformers:
    """torch is older than transformers requires: it then fails, or disables PyTorch."""

    code: ClassVar[str] = "torch-too-old-for-transformers"
    unless: ClassVar[tuple[str, ...]] = ("transformers-version-too-new-for-ipex-llm",)

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - a log needs it not

        torch, transformers = context.env.get("torch"), context.env.get("transformers")
        if torch is None or transformers is None or not torch.parsed:
            return
        for wanted in requirements(transformers, context.env, extra="torch"):
            # Lower bounds only: an upper bound states the newest torch at the time of the release.
            floors = [floor for floor in wanted.specifier if floor.operator.startswith(">")]
            wanted.specifier = SpecifierSet(",".join(map(str, floors)))
            if wanted.name == "torch" and not meets(torch, wanted):
                yield Finding(
                    self.code,
                    Level.ERROR,
                    f"transformers {transformers.version} does not support torch {torch.version}",
                    f"It requires torch{wanted.specifier}, in an extra that is not a default",
                    f"Install torch{wanted.specifier} from the index of this build, or an older "
                    "transformers; or lock and build the target",
                    (
                        f"torch {torch.version} is installed",
                        f"transformers {transformers.version} requires torch{wanted.specifier}",
                    ),
                )
                return


RULES = (
    TransformersForIpexLlm(),
    TooOldForTransformers(),
)
