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
PROVIDERS = {"intel": {"requires": ["provision-intel-variants"]}}
RELEASE: dict[str, Any] = {
    "$schema": SCHEMA,
    "default-priorities": {"namespace": ["intel"]},
}
BMG = {"family": ["bmg"], "driver_lower_bound": ["25.18"]}
DG2 = {"family": ["dg2"]}
VARIANTS: dict[str, Any] = {
    "bmg": {"intel": BMG},
    "dg2": {"intel": DG2},
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
    made_by_a_build = shutil.ignore_patterns("catalog.json")
    shutil.copytree(SOURCE, copy, ignore=made_by_a_build)
    for name in (
        "envs/catalog/devices.toml",
        "envs/catalog/drivers.toml",
        "provision/__init__.py",
    ):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, place)
    return copy


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package as a release does: the wheel from the sdist, far from the catalog."""
    folder = tmp_path_factory.mktemp("build")
    copy = copied(folder)
    out = folder / "dist"
    argv = [uv_program(), "build", "--quiet", "--offline", "--no-config"]
    argv += ["--no-build-isolation", "--python", sys.executable]
    done = run([*argv, "--out-dir", out, copy])
    done.require("it is built")
    (made,) = out.glob("*.whl")
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
    argv = [sys.executable, "-I", "-S", "-c", script, root, platform]
    done = run(argv, env=env).require("it answers")
    found, spent, modules = json.loads(done.stdout)
    return found, spent, modules


def properties(
    installed: Path, root: Path, variables: Mapping[str, str] | None = None
) -> dict[str, list[str]]:
    """Return what the provider says of a machine."""
    found, _, _ = asked(installed, root, variables)
    return found


def machine(root: Path, *ids: str, driver: str = "", display: str = "0x030000") -> Path:
    """Write the part of a Linux that the provider reads."""
    for number, device_id in enumerate(ids):
        device = root / "sys/bus/pci/devices" / f"0000:0{number}:00.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x8086\n")
        (device / "class").write_text(f"{display}\n")
        (device / "device").write_text(f"0x{device_id}\n")
    if driver:
        libraries = root / "usr/lib64"
        libraries.mkdir(parents=True)
        (libraries / driver).touch()
    return root


def test_it_has_the_families_and_the_driver_of_a_machine(
    installed: Path, tmp_path: Path
) -> None:
    driver = "libze_intel_gpu.so.1.6.33578.51"
    root = machine(tmp_path, "7d55", "e20b", "1916", driver=driver)
    found = properties(installed, root)
    # Separate cards first; Provision says the same of such a machine.
    assert found["family"] == ["bmg", "mtl", "skl"]
    newest, next_newest, *_ = found["driver_lower_bound"]
    assert newest == "25.18"
    assert next_newest == "25.13"
    devices = read_devices(shipped().catalog)
    releases = []
    for number, name in reversed(devices.releases):
        if number <= 33578:
            releases.append(name)
    own = intel_properties(found["family"], releases)
    assert own == {"intel": in_tuples(found)}


def in_tuples(properties: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """Return properties as Provision has them."""
    return {name: tuple(values) for name, values in properties.items()}


@pytest.mark.parametrize(
    ("platform", "name"), [("linux-64", "arc-linux"), ("win-64", "arc-windows")]
)
def test_it_has_the_features_that_provision_lists_on_each_platform(
    installed: Path, tmp_path: Path, platform: str, name: str
) -> None:
    root = machine(tmp_path, "e20b", driver="libze_intel_gpu.so.1.6.33578.51")
    found, _, _ = asked(installed, root, platform=platform)
    devices = read_devices(shipped().catalog)
    gpu = Gpu("intel", "e20b", "Arc B580", "03", "bmg", supported=True)
    runtimes = Runtimes(compute_runtime=devices.release_of(33578))
    host = Host(platform, "6", gpus=(gpu,), runtimes=runtimes)
    own = properties_of_host(host, devices)["intel"]
    assert in_tuples(found) == own
    target = load_target(shipped().specs, name)
    required = properties_of_target(target, devices)["intel"]
    assert required.keys() == found.keys()


def test_every_device_of_the_catalog_is_known(installed: Path) -> None:
    path = installed / "provision_intel_variants" / "catalog.json"
    carried = json.loads(path.read_text(encoding="utf-8"))
    devices = read_devices(shipped().catalog)
    families = {i: device.family for i, device in devices.intel.items()}
    assert carried["families"] == families
    releases = [tuple(pair) for pair in reversed(carried["releases"])]
    assert releases == list(devices.releases)


def test_a_machine_without_such_a_gpu_has_nothing_at_once(
    installed: Path, tmp_path: Path
) -> None:
    times = []
    for _ in range(3):
        found, spent, modules = asked(installed, tmp_path)
        assert found == {}
        times.append(spent)
    assert min(times) < 50
    top = {name.partition(".")[0] for name in modules}
    slow = {"torch", "provision", "packaging", "subprocess", "ctypes"}
    assert top.isdisjoint(slow)
    # A network card of Intel's is no GPU, and neither is an id that nobody knows.
    network = machine(tmp_path / "a", "1533", display="0x020000")
    assert properties(installed, network) == {}
    unknown = machine(tmp_path / "b", "ffff")
    assert properties(installed, unknown) == {}
    damaged = machine(tmp_path / "c", "e20b", driver="libze_intel_gpu.so.1.6.x")
    device = damaged / "sys/bus/pci/devices/0000:00:00.0/device"
    device.write_bytes(b"\xff\xfe\n")
    assert properties(installed, damaged) == {}


def test_it_answers_for_a_machine_that_is_not_here(
    installed: Path, tmp_path: Path
) -> None:
    family, driver = "PROVISION_INTEL_FAMILY", "PROVISION_INTEL_DRIVER"
    found = properties(installed, tmp_path, {family: "bmg", driver: "24.52"})
    assert found["family"] == ["bmg"]
    assert found["driver_lower_bound"][0] == "24.52"
    root = machine(tmp_path / "arc", "56a0")
    assert properties(installed, root, {family: ""}) == {}
    assert properties(installed, root, {family: "no such"}) == {}
    # The driver of this machine is not that one's.
    other = machine(tmp_path / "other", "e20b", driver="libze_intel_gpu.so.1.6.33578")
    assert properties(installed, other, {family: "dg2"}) == DG2
    assert properties(installed, other, {family: "dg2", driver: ""}) == DG2
    assert properties(installed, root, {driver: "99.1"}) == DG2


def test_it_needs_nothing_and_names_its_endpoint(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (info,) = [name for name in names if name.endswith("/METADATA")]
        metadata = archive.read(info).decode()
        entry_points = info.replace("METADATA", "entry_points.txt")
        points = archive.read(entry_points).decode()
    assert "Requires-Dist" not in metadata
    manifest = (SOURCE / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(manifest)["project"]
    assert project["dependencies"] == []
    # PEP 850 takes it from the name of the distribution where a release states none.
    endpoint = "provision_intel_variants = provision_intel_variants"
    assert f"[variant_plugins]\n{endpoint}" in points


def test_each_release_has_file_names_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index refuses other bytes under a name that it has, and each commit makes other bytes."""
    monkeypatch.setattr("release.PACKAGES", [f"packages/{SOURCE.name}"])
    clone = tmp_path / "clone"
    copied(clone)
    commit_all(clone)
    names = []
    for version in ("7.1.0", "7.2.0"):
        module = clone / "provision" / "__init__.py"
        module.write_text(f'__version__ = "{version}"\n')
        git(clone, "commit", "--quiet", "--all", "-m", version)
        epoch, source = committed(clone)
        made = build(source, tmp_path / version, epoch, *WAYS[0])
        names.append({path.name for path in made.iterdir()})
    first, second = names
    assert "provision_intel_variants-7.1.0-py3-none-any.whl" in first
    assert len(first) == 2
    assert len(second) == 2
    assert first.isdisjoint(second)


def stock(folder: Path, wheel: Path, providers: dict[str, Any]) -> None:
    """Put a release with variants into an index, and the provider beside it."""
    folder.mkdir(parents=True)
    shutil.copy(wheel, folder)
    stated = RELEASE | {"providers": providers}
    for label, needed in VARIANTS.items():
        inside = stated | {"variants": {label: needed}}
        files = {
            "kernels-1.0.dist-info/variant.json": json.dumps(inside),
            "kernels.py": f"label = {label!r}\n",
        }
        make_wheel(folder, "kernels", "1.0", files, variant=label)
    release = stated | {"variants": VARIANTS}
    text = json.dumps(release)
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
    root, place = tmp_path / "index", tmp_path / "place"
    stock(root / "default", wheel, PROVIDERS)
    done = installs(root, place, "--verbose")
    assert "unsupported wheel variant provider for namespace `intel`" in done.stderr
    assert (place / "kernels.py").read_text() == "label = 'null'\n"


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
    device_id, driver = gpu
    of_machine = machine(tmp_path / "machine", device_id, driver=driver)
    found = properties(installed, of_machine)
    provider: dict[str, Any] = {"static-properties": found}
    if len(found) > 1:
        provider["feature-order"] = list(found)
    root, place = tmp_path / "index", tmp_path / "place"
    stock(root / "default", wheel, {"intel": provider})
    installs(root, place).require("uv installs")
    assert (place / "kernels.py").read_text() == f"label = {label!r}\n"


@pytest.mark.network
def test_the_reference_implementation_loads_it(wheel: Path, tmp_path: Path) -> None:
    """It asks the provider that an index beside the release has, in an environment of its own."""
    root = tmp_path / "index"
    stock(root / "default", wheel, PROVIDERS)
    prefix = tmp_path / "env"
    uv = [uv_program(), "--no-config"]
    made = run([*uv, "venv", "--python", sys.executable, prefix])
    made.require("an environment")
    install = [*uv, "pip", "install", "--quiet", "--python", prefix]
    reference = [*install, "variantlib==0.2.2"]
    if default := read_pip_config().index_url:
        reference += ["--default-index", default]
    run(reference).require("variantlib is installed")
    with serve(root) as index:
        own = ["--default-index", f"{index.url}/default/", "provision-intel-variants"]
        run([*install, *own]).require("the provider is installed")
    script = (
        "import json, sys; from variantlib.api import get_variants_by_priority\n"
        "release = json.loads(open(sys.argv[1]).read())\n"
        "print(*(v.label for v in get_variants_by_priority(variants_json=release)))"
    )
    listed = root / "default" / "kernels-1.0-variants.json"
    python = prefix / "bin" / "python"
    argv = [python, "-I", "-c", script, listed]
    for family, expected in (
        ("bmg", ["bmg", "null"]),
        ("dg2", ["dg2", "null"]),
        ("", ["null"]),
    ):
        named = {"PROVISION_INTEL_FAMILY": family, "PROVISION_INTEL_DRIVER": "25.18"}
        done = run(argv, env=clean_environment(extra=named))
        labels = done.require("variantlib answers").stdout.split()
        assert labels == expected
