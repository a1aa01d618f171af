"""The software bill of materials of a target: CycloneDX, made from its lock."""

import datetime as dt
import uuid

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from provision.lockfile.conda import CondaPackage, conda_packages
from provision.lockfile.pip import Artifact, Lock
from provision.spec.model import Target

VERSION = "1.6"  # of CycloneDX
# Constant, so that the same lock gives the same serial number.
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_OID, "provision.sbom")


def sbom(target: Target, lock: Lock) -> str:
    """Return the components of a target as CycloneDX JSON, the same bytes for the same lock."""
    # Its time is the cut-off of the lock, because the time of the call would change the bytes.
    root = Component(
        name=target.name,
        type=ComponentType.PLATFORM,
        version=lock.digest[:12],
        description=target.summary,
        bom_ref=target.name,
        properties=[Property(name="provision:lock", value=lock.digest)],
    )
    components = {artifact.name: _wheel(artifact) for artifact in lock.artifacts}
    native = [_native(package) for package in conda_packages(lock)]
    cutoff = dt.datetime.combine(target.pip.cutoff, dt.time(), dt.UTC)
    bom = Bom(
        components=[*components.values(), *native],
        serial_number=uuid.uuid5(_NAMESPACE, f"{target.name} {lock.digest}"),
        metadata=BomMetaData(component=root, timestamp=cutoff),
    )
    for artifact in lock.artifacts:
        component = components[artifact.name]
        for name in artifact.via:
            # `the spec` is not a component: the target itself depends on what it requires.
            bom.register_dependency(components.get(name, root), [component])
    bom.register_dependency(root, native)
    # Indented, so that a diff shows which component changed.
    version = SchemaVersion.from_version(VERSION)
    return (
        make_outputter(bom, OutputFormat.JSON, version).output_as_string(indent=2)
        + "\n"
    )


def _wheel(artifact: Artifact) -> Component:
    notes = [Property(name="provision:index", value=artifact.index)]
    if artifact.source:
        notes.append(Property(name="provision:source", value=artifact.source))
    where = {"file_name": artifact.filename}
    return _component(artifact, "pypi", artifact.name, where, notes)


def _native(package: CondaPackage) -> Component:
    where = {
        "build": package.build,
        "channel": package.url.split("/")[-3],
        "subdir": package.subdir,
        "type": "conda" if package.filename.endswith(".conda") else "tar.bz2",
    }
    return _component(package, "conda", f"conda:{package.name}", where, [])


def _component(
    item: Artifact | CondaPackage,
    kind: str,
    ref: str,
    where: dict[str, str],
    notes: list[Property],
) -> Component:
    """Return a package; its package URL: https://github.com/package-url/purl-spec."""
    return Component(
        name=item.name,
        version=item.version,
        bom_ref=ref,
        properties=notes,
        purl=PackageURL(kind, name=item.name, version=item.version, qualifiers=where),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=item.sha256)],
    )
