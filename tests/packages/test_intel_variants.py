"""The provider of wheel variants for Intel GPUs, as it is built, installed and asked."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.artifacts.pip_config import read_pip_config
from provision.catalog.devices import read_devices
from provision.catalog.variants import SCHEMA, intel_properties
from provision.commands.variants import properties_of_host, properties_of_target
from provision.core.process import clean_environment, run
from provision.core.program import uv_program
from provision.core.project import shipped
from provision.host.model import Gpu, Host, Runtimes
from provision.spec.reader import load_target
from release import WAYS, build, committed
from tests.checkout import commit_all, git
from tests.small import make_wheel, serve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from provision.core.process import Completed

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "packages" / "provision-intel-variants"
RELEASE: dict[str, Any] = {
    "$schema": SCHEMA,
    "default-priorities": {"namespace": ["intel"]},
    "providers": {"intel": {"requires": ["provision-intel-variants"]}},
}
VARIANTS: dict[str, Any] = {
    "bmg": {"intel": {"family": ["bmg"], "driver_lower_bound": ["25.18"]}},
    "dg2": {"intel": {"family": ["dg2"]}},
    "null": {},
}
# Prints what the provider says of a machine, the processor's milliseconds, and what it imported.
ASK = """
import sys, time
begin = time.process_time()
from pathlib import Path
import provision_intel_variants as provider
if sys.argv[2] == "win-64":
    sys.platform, provider._of_windows = "win32", lambda: ["e20b"]
found = provider.get_supported_configs(Path(sys.argv[1]))
spent = (time.process_time() - begin) * 1000
import json
print(json.dumps([{f.name: f.values for f in found}, spent, sorted(sys.modules)]))
"""
pytestmark = pytest.mark.machine


def copied(folder: Path) -> Path:
    """Copy the package and what it takes from the toolkit; return the package's folder."""
    copy = folder / "packages" / SOURCE.name
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("catalog.json"))
    (folder / "envs" / "catalog").mkdir(parents=True)
    (folder / "provision").mkdir()
    catalog = ("envs/catalog/devices.toml", "envs/catalog/drivers.toml")
    for name in (*catalog, "provision/__init__.py"):
        shutil.copy(ROOT / name, folder / name)
    return copy


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package as a release does: the wheel from the sdist, far from the catalog."""
    folder = tmp_path_factory.mktemp("build")
    copy = copied(folder)
    argv = [uv_program(), "build", "--quiet", "--offline", "--no-config"]
    argv += ["--no-build-isolation", "--python", sys.executable]
    run([*argv, "--out-dir", folder / "dist", copy]).require("it is built")
    (made,) = (folder / "dist").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the wheel into a folder with nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def asked(
    installed: Path,
    root: Path,
    variables: Mapping[str, str] | None = None,
    platform: str = "linux-64",
) -> tuple[dict[str, list[str]], float, list[str]]:
    script = f"import sys; sys.path.insert(0, {str(installed)!r})\n{ASK}"
    env = clean_environment(extra=variables or {})
    done = run([sys.executable, "-I", "-S", "-c", script, root, platform], env=env)
    found, spent, modules = json.loads(done.require("it answers").stdout)
    return found, spent, modules


def machine(root: Path, *ids: str, driver: str = "", display: str = "0x030000") -> Path:
    """Write the part of a Linux that the provider reads."""
    for number, device_id in enumerate(ids):
        device = root / "sys/bus/pci/devices" / f"0000:0{number}:00.0"
        device.mkdir(parents=True)
        facts = {"vendor": "0x8086", "class": display, "device": f"0x{device_id}"}
        for name, text in facts.items():
            (device / name).write_text(f"{text}\n")
    if driver:
        (root / "usr/lib64").mkdir(parents=True)
        (root / "usr/lib64" / driver).touch()
    return root


def test_it_has_the_families_and_the_driver_of_a_machine(
    installed: Path, tmp_path: Path
) -> None:
    root = machine(
        tmp_path, "7d55", "e20b", "1916", driver="libze_intel_gpu.so.1.6.33578.51"
    )
    found, _, _ = asked(installed, root)
    # Separate cards first; Provision says the same of such a machine.
    assert found["family"] == ["bmg", "mtl", "skl"]
    assert found["driver_lower_bound"][:2] == ["25.18", "25.13"]
    devices = read_devices(shipped().catalog)
    releases = [name for build, name in reversed(devices.releases) if build <= 33578]
    (own,) = intel_properties(found["family"], releases).values()
    assert found == {name: list(values) for name, values in own.items()}


@pytest.mark.parametrize("platform", ["linux-64", "win-64"])
def test_it_has_the_features_that_provision_lists_on_each_platform(
    installed: Path, tmp_path: Path, platform: str
) -> None:
    root = machine(tmp_path, "e20b", driver="libze_intel_gpu.so.1.6.33578.51")
    found, _, _ = asked(installed, root, platform=platform)
    devices = read_devices(shipped().catalog)
    gpu = Gpu("intel", "e20b", "Arc B580", "03", "bmg", supported=True)
    release = devices.release_of(33578)
    host = Host(platform, "6", gpus=(gpu,), runtimes=Runtimes(compute_runtime=release))
    own = properties_of_host(host, devices)["intel"]
    assert {name: tuple(values) for name, values in found.items()} == own
    name = {"linux-64": "arc-linux", "win-64": "arc-windows"}[platform]
    target = load_target(shipped().specs, name)
    assert properties_of_target(target, devices)["intel"].keys() == found.keys()


def test_every_device_of_the_catalog_is_known(installed: Path) -> None:
    path = installed / "provision_intel_variants" / "catalog.json"
    carried = json.loads(path.read_text(encoding="utf-8"))
    devices = read_devices(shipped().catalog)
    families = {i: device.family for i, device in devices.intel.items()}
    assert carried["families"] == families
    assert [tuple(pair) for pair in reversed(carried["releases"])] == [
        *devices.releases
    ]


def test_a_machine_without_such_a_gpu_has_nothing_at_once(
    installed: Path, tmp_path: Path
) -> None:
    answers = [asked(installed, tmp_path) for _ in range(3)]
    found, _, modules = answers[0]
    assert found == {}
    assert min(spent for _, spent, _ in answers) < 50
    top = {name.partition(".")[0] for name in modules}
    assert not top & {"torch", "provision", "packaging", "subprocess", "ctypes"}
    # A network card of Intel's is no GPU, and neither is an id that nobody knows.
    assert (
        asked(installed, machine(tmp_path / "a", "1533", display="0x020000"))[0] == {}
    )
    assert asked(installed, machine(tmp_path / "b", "ffff"))[0] == {}
    damaged = machine(tmp_path / "c", "e20b", driver="libze_intel_gpu.so.1.6.x")
    (damaged / "sys/bus/pci/devices/0000:00:00.0/device").write_bytes(b"\xff\xfe\n")
    assert asked(installed, damaged)[0] == {}


def test_it_answers_for_a_machine_that_is_not_here(
    installed: Path, tmp_path: Path
) -> None:
    named = {"PROVISION_INTEL_FAMILY": "bmg", "PROVISION_INTEL_DRIVER": "24.52"}
    found, _, _ = asked(installed, tmp_path, named)
    assert found["family"] == ["bmg"]
    assert found["driver_lower_bound"][0] == "24.52"
    root = machine(tmp_path / "arc", "56a0")
    for family in ("", "no such"):
        assert asked(installed, root, {"PROVISION_INTEL_FAMILY": family})[0] == {}
    # The driver of this machine is not that one's.
    other = machine(tmp_path / "other", "e20b", driver="libze_intel_gpu.so.1.6.33578")
    for named in ({}, {"PROVISION_INTEL_DRIVER": ""}):
        variables = {"PROVISION_INTEL_FAMILY": "dg2"} | named
        assert asked(installed, other, variables)[0] == {"family": ["dg2"]}
    unknown = {"PROVISION_INTEL_DRIVER": "99.1"}
    assert asked(installed, root, unknown)[0] == {"family": ["dg2"]}


def test_it_needs_nothing_and_names_its_endpoint(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (info,) = [n for n in archive.namelist() if n.endswith("/METADATA")]
        metadata = archive.read(info).decode()
        points = archive.read(info.replace("METADATA", "entry_points.txt")).decode()
    assert "Requires-Dist" not in metadata
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dependencies"] == []
    # PEP 850 takes it from the name of the distribution where a release states none.
    assert (
        "[variant_plugins]\nprovision_intel_variants = provision_intel_variants"
        in points
    )


def test_each_release_has_file_names_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index refuses other bytes under a name that it has, and each commit makes other bytes."""
    monkeypatch.setattr("release.PACKAGES", [f"packages/{SOURCE.name}"])
    copied(tmp_path / "clone")
    commit_all(tmp_path / "clone")
    names = list[set[str]]()
    for version in ("7.1.0", "7.2.0"):
        own = tmp_path / "clone" / "provision" / "__init__.py"
        own.write_text(f'__version__ = "{version}"\n')
        git(tmp_path / "clone", "commit", "--quiet", "--all", "-m", version)
        epoch, source = committed(tmp_path / "clone")
        made = build(source, tmp_path / version, epoch, *WAYS[0])
        names.append({path.name for path in made.iterdir()})
    assert f"{SOURCE.name.replace('-', '_')}-7.1.0-py3-none-any.whl" in names[0]
    assert len(names[0]) == len(names[1]) == 2
    assert not names[0] & names[1]


def stock(folder: Path, wheel: Path, providers: dict[str, Any]) -> None:
    """Put a release with variants into an index, and the provider beside it."""
    folder.mkdir(parents=True)
    shutil.copy(wheel, folder)
    stated = RELEASE | {"providers": providers}
    for label, needed in VARIANTS.items():
        inside = json.dumps(stated | {"variants": {label: needed}})
        files = {
            "kernels-1.0.dist-info/variant.json": inside,
            "kernels.py": f"label = {label!r}\n",
        }
        make_wheel(folder, "kernels", "1.0", files, variant=label)
    text = json.dumps(stated | {"variants": VARIANTS})
    (folder / "kernels-1.0-variants.json").write_text(text)


def installs(root: Path, place: Path, *options: str) -> Completed:
    with serve(root) as index:
        argv: Sequence[str | Path] = [
            uv_program(),
            "pip",
            "install",
            "--no-config",
            "--no-cache",
            "--preview-features",
            "wheel-variants",
            "--python",
            sys.executable,
            "--target",
            place,
            "--default-index",
            f"{index.url}/default/",
            *options,
            "kernels",
        ]
        return run(argv)


def test_uv_runs_no_provider_but_its_own(wheel: Path, tmp_path: Path) -> None:
    """So a release needs the static list; where this fails, uv has learnt to load providers."""
    stock(tmp_path / "index" / "default", wheel, RELEASE["providers"])
    done = installs(tmp_path / "index", tmp_path / "place", "--verbose")
    assert "unsupported wheel variant provider for namespace `intel`" in done.stderr
    assert (tmp_path / "place" / "kernels.py").read_text() == "label = 'null'\n"


@pytest.mark.parametrize(
    ("gpu", "label"),
    [
        (("e20b", "libze_intel_gpu.so.1.6.33578"), "bmg"),
        (("e20b", "libze_intel_gpu.so.1.3.30872"), "null"),  # an older driver
        (("56a0", ""), "dg2"),
    ],
)
def test_uv_chooses_by_what_the_provider_says(
    wheel: Path,
    installed: Path,
    tmp_path: Path,
    gpu: tuple[str, str],
    label: str,
) -> None:
    found, _, _ = asked(installed, machine(tmp_path / "machine", gpu[0], driver=gpu[1]))
    provider: dict[str, Any] = {"static-properties": found}
    if len(found) > 1:
        provider["feature-order"] = list(found)
    stock(tmp_path / "index" / "default", wheel, {"intel": provider})
    installs(tmp_path / "index", tmp_path / "place").require("uv installs")
    assert (tmp_path / "place" / "kernels.py").read_text() == f"label = {label!r}\n"


@pytest.mark.network
def test_the_reference_implementation_loads_it(wheel: Path, tmp_path: Path) -> None:
    """It asks the provider that an index beside the release has, in an environment of its own."""
    stock(tmp_path / "index" / "default", wheel, RELEASE["providers"])
    prefix = tmp_path / "env"
    uv = [uv_program(), "--no-config"]
    run([*uv, "venv", "--python", sys.executable, prefix]).require("an environment")
    install = [*uv, "pip", "install", "--quiet", "--python", prefix]
    reference = [*install, "variantlib==0.2.2"]
    if default := read_pip_config().index_url:
        reference += ["--default-index", default]
    run(reference).require("variantlib is installed")
    with serve(tmp_path / "index") as index:
        own = ["--default-index", f"{index.url}/default/", "provision-intel-variants"]
        run([*install, *own]).require("the provider is installed")
    script = (
        "import json, sys; from variantlib.api import get_variants_by_priority\n"
        "release = json.loads(open(sys.argv[1]).read())\n"
        "print(*(v.label for v in get_variants_by_priority(variants_json=release)))"
    )
    listed = tmp_path / "index" / "default" / "kernels-1.0-variants.json"
    ours = {"bmg": "bmg null", "dg2": "dg2 null", "": "null"}
    for family, expected in ours.items():
        named = {"PROVISION_INTEL_FAMILY": family, "PROVISION_INTEL_DRIVER": "25.18"}
        python = prefix / "bin" / "python"
        done = run(
            [python, "-I", "-c", script, listed], env=clean_environment(extra=named)
        )
        assert done.require("variantlib answers").stdout.split() == expected.split()
