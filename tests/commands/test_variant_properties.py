"""The properties of a target's machines and of this one; uv and variantlib choose by them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from provision.catalog.devices import read_devices
from provision.catalog.variants import (
    SCHEMA,
    VariantsJson,
    read_variants_json,
    with_static_list,
)
from provision.commands.export import export_variants
from provision.commands.variants import properties_of_host, properties_of_target
from provision.core.errors import SpecError, UsageError
from provision.core.process import clean_environment, run
from provision.core.program import uv_program
from provision.core.project import shipped
from provision.host.model import Driver, Gpu, Host, Runtimes
from provision.host.processor import x86_64_level
from provision.spec.reader import load_target
from tests.lab import typed
from tests.small import make_wheel, serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from provision.catalog.variants import Properties

DEVICES = read_devices(shipped().catalog)
# Label -> what its wheel needs; the order of namespaces is that of a package with GPU code first.
VARIANTS = {
    "cu13": {
        "nvidia": {
            "cuda_version_lower_bound": ["13.0"],
            "sm_arch": ["75_real", "80_real", "90_real"],
        }
    },
    "cu12": {"nvidia": {"cuda_version_lower_bound": ["12.0"]}},
    "bmg": {"intel": {"family": ["bmg"], "driver_lower_bound": ["25.18"]}},
    "newer_driver": {"intel": {"family": ["pvc"], "driver_lower_bound": ["26.31"]}},
    "v3": {"x86_64": {"level": ["v3"]}},
    "null": {},
}
RELEASE = {
    "$schema": SCHEMA,
    "default-priorities": {"namespace": ["nvidia", "intel", "x86_64"]},
    "providers": {
        "nvidia": {
            "requires": ["nvidia-variant-provider"],
            "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
        },
        "intel": {"requires": ["provision-intel-variants"]},
        "x86_64": {"requires": ["x86-64-variant-provider"]},
    },
}
# Target -> the variant that its machines get.
CHOSEN = {
    "cuda-linux": "cu13",
    "cuda12-linux": "cu12",
    "arc-linux": "bmg",
    "max-linux": "null",
    "cpu-linux": "null",
}


def of_target(name: str) -> Properties:
    return properties_of_target(load_target(shipped().specs, name), DEVICES)


def release(variants: dict[str, Any]) -> VariantsJson:
    text = json.dumps(RELEASE | {"variants": variants})
    return VariantsJson.model_validate_json(text)


def test_a_target_has_what_its_least_machine_has() -> None:
    cuda = of_target("cuda-linux")
    bounds = cuda["nvidia"]["cuda_version_lower_bound"]
    assert bounds[:3] == ("13.0", "13", "12.20")  # driver 580 reports CUDA 13.0
    assert bounds[-1] == "11"
    assert cuda["nvidia"]["sm_arch"][0] == "75_real"
    assert cuda["nvidia"]["sm_arch"][-1] == "70_virtual"
    assert cuda["x86_64"] == {"level": ("v1",)}
    arc = of_target("arc-linux")
    assert "bmg" in arc["intel"]["family"]
    assert arc["intel"]["driver_lower_bound"][0] == "25.18"
    # Windows numbers its drivers in another way, and the provider names none there.
    assert of_target("arc-windows")["intel"].keys() == {"family"}
    assert of_target("cpu-linux") == {"x86_64": {"level": ("v1",)}}
    assert of_target("cpu-linux-aarch64") == {"aarch64": {"version": ("8a",)}}


@pytest.mark.parametrize(
    ("range_", "least"),
    [
        (">=8", "80_real"),
        ("==8.*", "80_real"),
        ("~=8.6", "86_real"),
        (">=7.5,>=8.0,<10", "80_real"),
        ("==9.0", "90_real"),
    ],
)
def test_a_range_of_capabilities_has_a_least_one(range_: str, least: str) -> None:
    target = load_target(shipped().specs, "cuda-linux")
    hardware = target.hardware.model_copy(update={"compute_capability": range_})
    ranged = target.model_copy(update={"hardware": hardware})
    assert properties_of_target(ranged, DEVICES)["nvidia"]["sm_arch"][0] == least


def test_a_machine_has_what_its_drivers_show() -> None:
    dg2 = Gpu("intel", "56a0", "Arc A770", "03", "dg2", supported=True)
    igpu = Gpu("intel", "7d55", "Arc", "00", "mtl", integrated=True)
    ada = Gpu(
        "nvidia",
        "2684",
        "RTX 4090",
        "01",
        "ada",
        compute_capability="8.9",
        driver=Driver("nvidia", "570.86.10"),
    )
    runtimes = Runtimes(compute_runtime="24.52.32224.5")
    host = Host("linux-64", "6.8", gpus=(igpu, ada, dg2), runtimes=runtimes)
    found = properties_of_host(host, DEVICES)
    assert list(found) == ["nvidia", "intel", "x86_64"]
    assert found["nvidia"]["cuda_version_lower_bound"][0] == "12.8"
    assert found["nvidia"]["sm_arch"][:2] == ("89_real", "88_real")
    assert found["intel"]["family"] == ("dg2", "mtl")
    assert found["intel"]["driver_lower_bound"][:2] == ("24.52", "24.48")


def test_a_gpu_without_a_driver_has_no_property_of_one() -> None:
    gpus = (
        Gpu("nvidia", "2684", "RTX 4090", "01", "ada", compute_capability="8.9"),
        Gpu("intel", "e20b", "Arc B580", "02", "bmg"),
        Gpu("amd", "7480", "Radeon", "03"),
    )
    found = properties_of_host(Host("linux-aarch64", "6.8", gpus=gpus), DEVICES)
    assert found == {
        "intel": {"family": ("bmg",)},
        "aarch64": {"version": ("8a",)},
    }
    assert properties_of_host(Host("plan-9", "4"), DEVICES) == {}


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        ("fpu sse2", 1),
        ("cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3", 2),
        ("avx avx2 bmi1 bmi2 f16c fma abm movbe xsave", 1),  # not those of level 2
    ],
)
def test_the_level_of_a_processor(tmp_path: Path, flags: str, level: int) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: spectre_v1\n")
    assert x86_64_level(cpuinfo) == level
    assert x86_64_level(tmp_path / "absent") == 1


def test_detect_prints_the_properties_of_this_machine() -> None:
    done = typed("detect", "--json")
    found = json.loads(done.stdout)["result"]["properties"]
    assert done.returncode == 0
    assert found


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve an index for each target: the same wheels, and that target's variants.json."""
    root = tmp_path_factory.mktemp("shop")
    for name in CHOSEN:
        stock(root / name, VARIANTS, of_target(name))
    without_null = {label: needed for label, needed in VARIANTS.items() if needed}
    stock(root / "none", without_null, of_target("max-linux"))
    with serve(root) as index:
        yield index.url


def stock(folder: Path, variants: dict[str, Any], properties: Properties) -> None:
    """Put a release with variants into the folder of an index; each requires another package."""
    for label in [*variants, ""]:
        own = {label: variants[label]} if label else {}
        inside = {"kernels-1.0.dist-info/variant.json": json.dumps(stated(own))}
        needs = [f"for-{label.replace('_', '-') or 'plain'}"]
        files = inside if label else {"kernels.py": ""}
        make_wheel(folder, "kernels", "1.0", files, needs, variant=label)
        make_wheel(folder, needs[0].replace("-", "_"), "1.0", {"of.py": ""})
    listed = with_static_list(release(variants), properties)
    (folder / "kernels-1.0-variants.json").write_text(json.dumps(listed))


def stated(variants: dict[str, Any]) -> dict[str, Any]:
    return RELEASE | {"variants": variants}


@pytest.mark.machine
@pytest.mark.parametrize("target", [*CHOSEN, "none"])
def test_uv_resolves_a_targets_variant_on_another_machine(
    shop: str, target: str
) -> None:
    # A machine with the newest NVIDIA GPU: uv must not take what it has, or it would be cu13.
    asked = {
        "UV_NO_CACHE": "1",
        "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": "13.0",
        "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": "9.0",
    }
    argv = [uv_program(), "pip", "compile", "--no-config", "--quiet", "--no-header"]
    argv += ["--preview-features", "wheel-variants", "--no-annotate"]
    argv += ["--default-index", f"{shop}/{target}/", "--python", sys.executable, "-"]
    done = run(argv, env=clean_environment(extra=asked), stdin="kernels\n")
    chosen = CHOSEN.get(target, "plain").replace("_", "-")
    found = done.require("uv resolved").stdout.split()
    assert found == [f"for-{chosen}==1.0", "kernels==1.0"]


@pytest.mark.machine
@pytest.mark.parametrize("target", ["cuda-linux", "arc-linux", "cpu-linux"])
def test_uv_installs_by_a_list_that_the_wheels_hold_too(
    tmp_path: Path, target: str
) -> None:
    """uv asks the providers of the wheel again before it installs it."""
    folder = tmp_path / "index" / "default"
    listed = with_static_list(release(VARIANTS), of_target(target))
    for label, needed in VARIANTS.items():
        whole = listed | {"variants": {label: needed}}
        # Of a namespace that the list lacks the wheel has the provider, as published.
        inside = (
            whole
            if needed.keys() <= set(listed["providers"])
            else stated({label: needed})
        )  # type: ignore[call-overload]
        files = {
            "kernels-1.0.dist-info/variant.json": json.dumps(inside),
            "kernels.py": f"label = {label!r}\n",
        }
        make_wheel(folder, "kernels", "1.0", files, variant=label)
    (folder / "kernels-1.0-variants.json").write_text(json.dumps(listed))
    place = tmp_path / "installed"
    with serve(tmp_path / "index") as index:
        argv = [uv_program(), "pip", "install", "--no-config", "--quiet", "--no-cache"]
        argv += ["--preview-features", "wheel-variants", "--target", place]
        argv += ["--default-index", f"{index.url}/default/", "kernels"]
        run([*argv, "--python", sys.executable]).require("uv installed")
    assert (place / "kernels.py").read_text() == f"label = {CHOSEN[target]!r}\n"


def test_the_export_has_a_list_for_people_and_a_file_for_an_index(
    tmp_path: Path,
) -> None:
    target = load_target(shipped().specs, "arc-linux")
    file = tmp_path / "arc.json"
    exported = export_variants(shipped(), target, file, None)
    listed = json.loads(file.read_text())
    assert "variants" not in listed
    provider = listed["providers"]["intel"]
    assert provider["feature-order"] == ["family", "driver_lower_bound"]
    assert provider["static-properties"]["family"][0] == "dg2"
    assert any("a spec with one family" in note for note in exported.notes)
    assert export_variants(shipped(), target, file, None).text == exported.text
    source = tmp_path / "kernels-1.0-variants.json"
    source.write_text(json.dumps(RELEASE | {"variants": VARIANTS}))
    with pytest.raises(UsageError, match="was not made by this command"):
        export_variants(shipped(), target, source, None)
    again = export_variants(shipped(), target, None, source)
    served = json.loads(again.text)
    assert served["variants"].keys() == {"bmg", "newer_driver", "v3", "null"}
    assert served["providers"].keys() == {"intel", "x86_64"}
    assert "requires" not in again.text


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"variants": {"../bmg": {}}}, "variants.../bmg"),
        ({"variants": {"bmg": {"intel": {"family": ["b mg"]}}}}, "variants.bmg.intel"),
        ({"variants": {"bmg": {"IN tel": {}}}}, "variants.bmg.IN tel"),
        ({"variants": []}, "variants"),
        ({"default-priorities": {"namespace": []}}, "default-priorities.namespace"),
        ({"run": "this"}, "run"),
    ],
)
def test_attack_a_damaged_variants_json_is_refused_with_its_place(
    tmp_path: Path, change: dict[str, Any], place: str
) -> None:
    """An index serves it, so anybody may have written it: only what PEP 825 allows is taken."""
    path = tmp_path / "kernels-1.0-variants.json"
    path.write_text(json.dumps(RELEASE | {"variants": VARIANTS} | change))
    with pytest.raises(SpecError) as error:
        read_variants_json(path)
    assert str(path) in str(error.value)
    assert place in error.value.evidence


@pytest.mark.parametrize("text", ["", "[" * 100_000, "{", "\x00", '{"a":' * 5_000])
def test_attack_what_is_no_variants_json_is_an_error(tmp_path: Path, text: str) -> None:
    """An index serves garbage, or what no parser follows to its end."""
    path = tmp_path / "kernels-1.0-variants.json"
    path.write_text(text)
    with pytest.raises(SpecError, match=r"kernels-1\.0-variants\.json has 1 error"):
        read_variants_json(path)
    with pytest.raises(SpecError):
        read_variants_json(tmp_path / "absent")


def test_only_one_format_takes_a_release() -> None:
    done = typed("export", "cpu-linux", "--format", "pylock", "--variants-json", "x")
    assert done.returncode == 2
    assert "--variants-json is for --format variants" in done.stderr
