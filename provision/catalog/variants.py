"""Properties of wheel variants (PEP 825) that a machine has, in the form of PEP 850's static lists.

A property is ``namespace :: feature :: value``; the values of a feature are in order, the best one
first. The features of ``nvidia`` and ``x86_64`` are those of the providers that uv 0.13.8 contains,
of ``aarch64`` those of provider-variant-aarch64, and of ``intel`` those of
packages/provision-intel-variants.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from provision.core.errors import SpecError
from provision.core.limits import read_bytes
from provision.core.text import plural
from provision.core.wheel_name import LABEL
from provision.spec.tables import Table, faults_of

# Namespace -> feature -> values; the order of namespaces and features counts as well.
Properties = dict[str, dict[str, tuple[str, ...]]]

SCHEMA = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"
# The versions that the provider of NVIDIA lists; a major version alone stands for all of its minors.
_OLDEST_CUDA = 11
_LAST_MINOR = 20
# What every processor of a platform has; a newer one is not known from the platform.
BASELINES: Mapping[str, Properties] = {
    "x86_64": {"x86_64": {"level": ("v1",)}},
    "aarch64": {"aarch64": {"version": ("8a",)}},
}


def nvidia_properties(cuda: str, capability: str | None) -> Properties:
    """Return the properties of a GPU by the CUDA of its driver and its compute capability."""
    features = {"cuda_version_lower_bound": tuple(_cuda_up_to(cuda))}
    if capability:
        features["sm_arch"] = tuple(_architectures(capability))
    return {"nvidia": features}


def _cuda_up_to(cuda: str) -> Iterable[str]:
    newest, minor = map(int, cuda.split("."))
    for major in range(newest, _OLDEST_CUDA - 1, -1):
        last = minor if major == newest else _LAST_MINOR
        for number in range(last, -1, -1):
            yield f"{major}.{number}"
        yield str(major)


def _architectures(capability: str) -> Iterable[str]:
    # Machine code runs on later minors of its major version, PTX of its first one on all of them.
    major, _, minor = capability.partition(".")  # a spec may say 8
    for number in range(int(minor or 0), -1, -1):
        yield f"{major}{number}_real"
    yield f"{major}0_virtual"


def intel_properties(families: Iterable[str], releases: Iterable[str]) -> Properties:
    """Return the properties of GPUs by their families and the releases that the driver reaches."""
    features = {}
    if names := tuple(dict.fromkeys(families)):
        features["family"] = names
    if bounds := tuple(releases):
        features["driver_lower_bound"] = bounds
    return {"intel": features} if features else {}


def x86_64_properties(level: int) -> Properties:
    """Return the properties of a processor by its level of x86-64, from 1 to 4."""
    levels = [f"v{number}" for number in range(level, 0, -1)]
    return {"x86_64": {"level": tuple(levels)}}


_Name = Annotated[str, Field(pattern="^[a-z0-9_]+$")]
_Values = tuple[Annotated[str, Field(pattern="^[a-z0-9_.]+$")], ...]


class Priorities(Table):
    """The order in which a release's properties count."""

    namespace: tuple[_Name, ...] = Field(min_length=1)


class VariantsJson(Table):
    """The ``variants.json`` of a release on an index, which anybody may have written."""

    schema_: Annotated[str, Field(alias="$schema")]
    priorities: Annotated[Priorities, Field(alias="default-priorities")]
    providers: dict[_Name, dict[str, Any]] = Field(default_factory=dict)
    """How each namespace is asked; never followed, as its plugins are programs."""
    variants: dict[
        Annotated[str, Field(pattern=f"^{LABEL}$")], dict[_Name, dict[_Name, _Values]]
    ]


def parse_variants_json(data: bytes) -> VariantsJson:
    """Return the variants of a release, or the one of a wheel; ValidationError if it is not valid."""
    return VariantsJson.model_validate_json(data)


def read_variants_json(path: Path) -> VariantsJson:
    """Read a release's variants; SpecError, with all its errors, if the file is not valid."""
    try:
        return parse_variants_json(read_bytes(path))
    except (OSError, ValidationError) as error:
        faults = faults_of(error, VariantsJson)
        raise SpecError(
            f"{path} has {plural(len(faults), 'error')}",
            evidence="\n".join(faults),
            cause="it is not the variants.json of a release (PEP 825)",
            remedy="name the file NAME-VERSION-variants.json of an index",
        ) from error


def unmet(
    needed: Mapping[str, Mapping[str, Iterable[str]]], properties: Properties
) -> list[str]:
    """Return the features of which a machine has none of the values that a variant names."""
    features = []
    for namespace, needs in needed.items():
        for feature, values in needs.items():
            known = properties.get(namespace, {}).get(feature, ())
            if set(values).isdisjoint(known):
                features.append(f"{namespace} :: {feature} :: {', '.join(values)}")
    return features


def static_list(properties: Properties) -> dict[str, object]:
    """Return properties as the parts of a ``variants.json`` that say what a machine has."""
    providers = {name: _provider(features) for name, features in properties.items()}
    return {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": list(properties)},
        "providers": providers,
    }


def with_static_list(
    release: VariantsJson, properties: Properties
) -> dict[str, object]:
    """Return a release's ``variants.json`` for machines with these properties.

    What needs another namespace is left out: it would be asked for on the machine that resolves.
    """
    names = [name for name in release.priorities.namespace if name in properties]
    released = release.variants.items()
    variants = {label: needs for label, needs in released if needs.keys() <= {*names}}
    # The format requires one namespace, even where no variant needs any.
    names = names or list(properties)[:1]
    kept = {name: properties[name] for name in names}
    return {**static_list(kept), "variants": variants}


def _provider(features: Mapping[str, tuple[str, ...]]) -> dict[str, object]:
    listed = {name: list(values) for name, values in features.items()}
    provider: dict[str, object] = {"static-properties": listed}
    if len(features) > 1:
        provider["feature-order"] = list(features)
    return provider
