"""A target in the formats of other installers: pylock.toml (PEP 751), requirements, conda."""

import re
from collections.abc import Mapping
from urllib.parse import quote

import tomlkit
from packaging.markers import Marker
from packaging.pylock import Package, PackageWheel, Pylock
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from provision.core.platforms import PLATFORMS
from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import Artifact, Lock
from provision.spec.model import Target

_PLAIN = re.compile(r"[A-Za-z][\w.-]*=={0,1}[\w.+!=]+", re.ASCII)  # a pin
# pip asks every index for every package, and retries each question five times.
SLOW_INDEX = (
    "pip waits minutes for an index that cannot be reached: "
    "`--retries 0 --timeout 5` shortens that"
)
_IN_URLS = "%:/?#[]@!$&'()*+,;=~"

Indexes = Mapping[str, str]  # name -> address
Addresses = Mapping[str, str]  # distribution -> URL, or path from the file's folder

# By what an earlier export is known, which the next one may replace.
SIGNATURES = {
    "pylock": 'created-by = "provision"\n',
    "requirements": "# pip install --require-hashes --only-binary :all: --no-deps -r FILE\n",
    "environment": "# provision export",
}


def lost(target: Target, lock: Lock, kind: str) -> tuple[str, ...]:
    """Return what of a target its copy in a format does not hold."""
    losses = _lost_layers(target, lock, kind)
    if kind != "pylock" and target.pip.index:
        losses.append(
            "which index each package comes from: the installer searches all of them"
        )
    if kind == "environment" and (target.pip.overrides or target.pip.exclude):
        losses.append(
            "overrides and excluded packages: pip resolves again, and may refuse "
            "the versions, or add what is excluded"
        )
    variants = [artifact.name for artifact in lock.artifacts if artifact.variant]
    if variants:
        losses.append(
            f"that {', '.join(variants)} is a wheel variant: installers refuse its file, "
            "or take another wheel and refuse its hash"
        )
    if lock.local:
        own = " ".join(target.pip.local)
        losses.append(
            f"the own packages: `pip install --no-deps {own}` afterwards, "
            "in the project's folder"
        )
    return tuple(losses)


def _lost_layers(target: Target, lock: Lock, kind: str) -> list[str]:
    losses = []
    has_conda = lock.conda is not None
    if kind == "environment":
        losses.append("the hashes of the wheels")
        if has_conda:
            losses.append("the hashes of the conda packages")
        return losses
    if has_conda:
        losses.append(
            "the conda layer: interpreter and native libraries come from the machine"
        )
    if target.environment:
        losses.append("the variables of [environment]")
    return losses


def requirements(lock: Lock, indexes: Indexes, built: Addresses) -> str:
    """Return the pip layer as a requirements file with hashes."""
    # All is listed. What an override replaced, pip would miss.
    lines = [
        SIGNATURES["requirements"].rstrip(),
        # uv takes a name from the first index that has it, unless it has to compare all.
        "# uv pip install --no-deps --require-hashes --index-strategy unsafe-best-match -r FILE",
        # `doctor --project` compares it with the builds of this platform only.
        f"# platform: {lock.header['platform']}, Python {lock.header['python']}",
    ]
    if indexes:
        lines.append(f"# {SLOW_INDEX}")
    for url in indexes.values():
        lines.append(_index_line(url))
    for wheel in lock.artifacts:
        lines.append(f"{_required(wheel, built)} \\")
        lines.append(f"    --hash=sha256:{wheel.sha256}")
    return "\n".join(lines) + "\n"


def _required(wheel: Artifact, built: Addresses) -> str:
    """Return a pin, or what takes a built wheel from its place and never from an index."""
    address = built.get(wheel.name)
    if not address:
        return f"{wheel.name}=={wheel.version}"
    return f"{wheel.name} @ {address}" if "://" in address else address


def environment(target: Target, lock: Lock, indexes: Indexes, built: Addresses) -> str:
    """Return both layers as an ``environment.yml`` of conda."""
    lines = [
        f"{SIGNATURES['environment']} {target.name} --format environment",
        f"name: {_yaml(target.name)}",
        "channels:",
    ]
    channels = target.channels or ("conda-forge",)
    lines += [f"- {_yaml(channel)}" for channel in channels]
    lines.append("dependencies:")
    lines += _native(target, lock)
    lines.append("- pip:")
    for url in indexes.values():
        lines.append(f"  - {_yaml(_index_line(url))}")
    for wheel in lock.artifacts:
        lines.append(f"  - {_yaml(_required(wheel, built))}")
    if target.environment:
        lines.append("variables:")
    prefix = "%CONDA_PREFIX%" if target.platform == "win-64" else "$CONDA_PREFIX"
    for name, value in target.environment.items():
        lines.append(f"  {_yaml(name)}: {_yaml(value.replace('{prefix}', prefix))}")
    return "\n".join(lines) + "\n"


def _index_line(url: str) -> str:
    # pip ends an option at a blank and puts variables in the place of ${…}.
    return f"--extra-index-url {quote(url, safe=_IN_URLS)}"


def _yaml(text: str) -> str:
    """Return a text as a scalar that each reader of YAML 1.1 and 1.2 takes for this text."""
    # Plain ones can be numbers, dates and booleans: `on`, `null`, `1e3`, `12:30`.
    if _PLAIN.fullmatch(text):
        return text
    escaped = "".join(map(_escaped, text))
    return f'"{escaped}"'


def _escaped(sign: str) -> str:
    if sign in '"\\' or not " " <= sign <= "~":
        code = ord(sign)
        return f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}"
    return sign


def _native(target: Target, lock: Lock) -> list[str]:
    """Return the conda packages, with an interpreter and pip in any case."""
    pins = []
    names = set()
    for package in conda_packages(lock):
        names.add(package.name)
        pin = f"{package.name}={package.version}={package.build}"
        pins.append(f"- {_yaml(pin)}")
    if "python" not in names:
        pins.append(f"- python={target.python}")
    if "pip" not in names:
        pins.append("- pip")
    return pins


def pylock(lock: Lock, indexes: Indexes, addresses: Addresses) -> str:
    """Return the pip layer as ``pylock.toml``, with the address or the path of each wheel.

    The addresses must be without credentials.
    """
    packages = []
    for artifact in lock.artifacts:
        index = indexes.get(artifact.index)
        packages.append(_package(artifact, addresses[artifact.name], index))
    document = Pylock(
        lock_version=Version("1.0"),
        environments=[Marker(PLATFORMS[lock.header["platform"]].marker)],
        requires_python=SpecifierSet(f"=={lock.header['python']}.*"),
        created_by="provision",
        packages=packages,
    )
    document.validate()
    return tomlkit.dumps(document.to_dict())


def _package(artifact: Artifact, address: str, index: str | None) -> Package:
    is_url = "://" in address
    wheel = PackageWheel(
        name=artifact.filename,
        url=address if is_url else None,
        path=None if is_url else address,  # built from source
        size=artifact.size,
        hashes={"sha256": artifact.sha256},
    )
    return Package(
        name=canonicalize_name(artifact.name),
        version=Version(artifact.version),
        index=index,
        wheels=[wheel],
    )
