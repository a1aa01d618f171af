"""The rule on the transformers that ipex-llm is used with."""

from provision.doctor.context import DoctorContext, Findings, case
from provision.doctor.rules.requirements import pinned
from provision.environment.installed import parse_version


def transformers_for_ipex_llm(context: DoctorContext) -> Findings:
    """Transformers is newer than the versions whose model code ipex-llm patches."""
    llm, transformers = context.env.get("ipex-llm"), context.env.get("transformers")
    if llm is None or transformers is None or transformers.parsed is None:
        return
    pins = [parse_version(pin) for pin in pinned(llm, "transformers")]
    versions = sorted(version for version in pins if version)
    if versions and transformers.parsed > versions[-1]:
        names = ", ".join(map(str, versions))
        pin = f"transformers=={versions[0]}"
        # With what it requires, such as its tokenizers; torch is not among it.
        install = f"uv pip install {context.env.option} {pin}"
        yield case(
            "transformers-too-new",
            (f"{transformers} is installed", f"{llm} pins {names}"),
            version=llm.version,
            newest=versions[-1],
            remedy=context.env.require(pin) or install,
        )
