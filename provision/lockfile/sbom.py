"""The software bill of materials of a target: CycloneDX, made from its lock."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from typing import TYPE_CHECKING, Any

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from provision.core.text import json_text
from provision.lockfile.conda import conda_packages

if TYPE_CHECKING:
    from provision.lockfile.conda import CondaPackage
    from provision.lockfile.pip import Artifact, Lock
    from provision.spec.model import Target

# Constant, so that the same lock gives the same serial number.
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_OID, "provision.sbom")


def sbom(target: Target, lock: Lock) -> str:
    """Return the components of a target as CycloneDX 1.6 JSON, the same bytes for the same lock.

    Its time is the cut-off of the lock, because the time of the call would change the bytes.
    """
    root = Component(
        name=target.name,
        type=ComponentType.PLATFORM,
        version=lock.digest[:12],
        description=target.summary,
        bom_ref=target.name,
        properties=[Property(name="provision:lock", value=lock.digest)],
    )
    components = {artifact.name: _component(artifact) for artifact in lock.artifacts}
    native = [_native(package) for package in conda_packages(lock)]
    cutoff = dt.datetime.combine(target.pip.cutoff, dt.time(), dt.UTC)
    bom = Bom(
        components=[*components.values(), *native],
        serial_number=uuid.uuid5(_NAMESPACE, f"{target.name} {lock.digest}"),
        metadata=BomMetaData(component=root, timestamp=cutoff),
    )
    for artifact in lock.artifacts:
        for name in artifact.via:
            # `the spec` is not a component: the target itself depends on what it requires.
            bom.register_dependency(components.get(name, root), [components[artifact.name]])
    bom.register_dependency(root, native)
    # Written by cyclonedx as one line; indented, a diff shows which component changed.
    document: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    return json_text(document, indent=2)


def _component(artifact: Artifact) -> Component:
    """Return one wheel; its package URL: https://github.com/package-url/purl-spec."""
    purl = PackageURL(
        "pypi", name=artifact.name, version=artifact.version,
        qualifiers={"file_name": artifact.filename},
    )  # fmt: skip
    return Component(
        name=artifact.name,
        version=artifact.version,
        bom_ref=artifact.name,
        purl=purl,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=artifact.sha256)],
        properties=[
            Property(name="provision:index", value=artifact.index),
            *([Property(name="provision:source", value=artifact.source)] * bool(artifact.source)),
        ],
    )


def _native(package: CondaPackage) -> Component:
    """Return one package of the conda layer."""
    where = {
        "build": package.build,
        "channel": package.url.split("/")[-3],
        "subdir": package.subdir,
        "type": "conda" if package.filename.endswith(".conda") else "tar.bz2",
    }
    purl = PackageURL("conda", name=package.name, version=package.version, qualifiers=where)
    return Component(
        name=package.name,
        version=package.version,
        bom_ref=f"conda:{package.name}",
        purl=purl,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=package.sha256)],
    )
