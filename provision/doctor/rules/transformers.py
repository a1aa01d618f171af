"""Rules on transformers, and on the ipex-llm and torch that it is used with."""

from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.rules.requirements import meets, pinned, requirements
from provision.environment.installed import parse_version


def transformers_for_ipex_llm(context: DoctorContext) -> Findings:
    """Transformers is newer than the versions whose model code ipex-llm patches."""
    llm, transformers = context.env.get("ipex-llm"), context.env.get("transformers")
    if llm is None or transformers is None or transformers.parsed is None:
        return
    pins = [v for pin in pinned(llm, "transformers") if (v := parse_version(pin))]
    if pins and transformers.parsed > max(pins):
        named = ", ".join(sorted(map(str, pins)))
        evidence = (f"{transformers} is installed", f"{llm} pins {named}")
        name, newest, oldest = "transformers-too-new", max(pins), min(pins)
        yield case(name, evidence, version=llm.version, newest=newest, oldest=oldest)


@unless("transformers-version-too-new-for-ipex-llm")
def too_old_for_transformers(context: DoctorContext) -> Findings:
    """Torch is older than transformers requires: it then fails, or disables PyTorch."""
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - a log needs it not

    torch, transformers = context.env.get("torch"), context.env.get("transformers")
    if torch is None or transformers is None or not torch.parsed:
        return
    for wanted in requirements(transformers, context.env, extra="torch"):
        # Lower bounds only: an upper bound states the newest torch at the time of the release.
        floors = [floor for floor in wanted.specifier if floor.operator.startswith(">")]
        wanted.specifier = SpecifierSet(",".join(map(str, floors)))
        if wanted.name == "torch" and not meets(torch, wanted):
            evidence = (
                f"{torch} is installed",
                f"{transformers} requires torch{wanted.specifier}",
            )
            yield case(
                "torch-too-old", evidence, dist=transformers, torch=torch, wanted=wanted
            )
            return
