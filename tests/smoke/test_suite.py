"""The suite as the toolkit starts it, in real environments: healthy, without a pytest, and broken.

The suite brings its own pytest, as an environment may have none, or one that is broken.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.commands.suite import runner_folder, with_causes
from provision.image.context import copy_runner
from tests.smoke.conftest import SUITE, linked_environment
from tests.smoke.extra_checks import OTHERS
from tests.smoke.faults import check_ids

if TYPE_CHECKING:
    from tests.smoke.conftest import Suite

pytestmark = pytest.mark.machine
KEYS = {
    "schema",
    "suite",
    "target",
    "python",
    "torch",
    "device",
    "started",
    "seconds",
    "checks",
    "not_run",
    "devices",
    "operators",
    "broken",
    "load",
}
CHECK_KEYS = {"id", "title", "stands_for", "outcome", "seconds", "numbers", "finding"}
# What the plain CPU target has no part in.
ELSEWHERE = {
    "device.family",
    "device.driver",
    "device.fallback",
    "fused.operators",
    "rotary.ipex-llm",
    "rotary.scripted",
    "low-bit.linear",
    "low-bit.models",
    "resume.portable",
    "transfer.roundtrip",
    "transfer.speed",
    "memory.large",
    "health.errors",
    "group.exchange",
}
# Of a Llama that is sampled, Stable Diffusion's UNet, Whisper's encoder and a training of LPRNet, as
# recorded from other code than the checks have: without views, and what only makes memory.
OF_MODELS = """
    _log_softmax _log_softmax_backward_data _softmax _to_copy add addcdiv_ addcmul_ addmm
    avg_pool2d avg_pool2d_backward bernoulli_ cat clone convolution convolution_backward cos cumsum
    div embedding eq gelu index isin lt masked_fill max max_pool2d_with_indices
    max_pool2d_with_indices_backward mean mm mul multinomial native_batch_norm
    native_batch_norm_backward native_group_norm native_layer_norm neg pow relu rsqrt rsub scatter
    silu sin sort split sqrt sub sum threshold_backward topk upsample_nearest2d where
"""
RUNNER = ("pytest", "_pytest", "pluggy", "iniconfig", "py.py", "pygments")
# One of each kind, but none that loads Accelerate and transformers: test_faults runs those.
CHECKED = {
    "identity.import",
    "identity.versions",
    "identity.code",
    "device.ready",
    "device.matmul",
    "selection.order",
    "throughput.training",
}


def judge_contract(report: dict[str, Any]) -> None:
    """Fail unless a report has the fields that its readers take, and every check once."""
    assert set(report) == KEYS
    assert report["schema"] == 2
    assert report["target"] == "cpu-linux"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", report["started"])
    assert report["device"]["name"]
    assert report["seconds"] > 0
    ids = [check["id"] for check in report["checks"]]
    not_run = [entry["id"] for entry in report["not_run"]]
    assert sorted(ids + not_run) == sorted(check_ids())
    assert all(entry["reason"] and not entry["required"] for entry in report["not_run"])
    for check in report["checks"]:
        assert set(check) - {"not_measured"} == CHECK_KEYS
        assert check["title"].endswith(".")
        assert check["stands_for"]
        for number in check["numbers"].values():
            assert isinstance(number["value"], (int, float))
            assert number["unit"]


# Environments -------------------------------------------------------------------------------------

# What the real ones raise: torchvision of the default index beside torch+cpu (pytorch/vision#8907),
# and pytorch_lightning beside a setuptools without pkg_resources.
VISION = "raise RuntimeError('operator torchvision::nms does not exist')\n"
LIGHTNING = "import no_pkg_resources\n"
HIJACK = """
import sys
class Finder:
    def find_spec(self, *_args):
        return None
sys.meta_path.insert(0, Finder())
"""


def site_of(python: Path) -> Path:
    (site,) = python.parent.parent.glob("lib/python3.*/site-packages")
    return site


def install(site: Path, name: str, files: dict[str, str]) -> None:
    info = f"{name.replace('-', '_')}-1.0.dist-info"
    files = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/RECORD": "".join(f"{path},,\n" for path in files),
    }
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)


@pytest.fixture(scope="module")
def bare(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a real environment without pytest, which names a package of the system."""
    folder = tmp_path_factory.mktemp("bare")
    made = linked_environment(python, folder / "env", RUNNER)
    install(folder / "dist-packages", "other", {"other/__init__.py": ""})
    (site_of(made) / "system.pth").write_text(f"{folder / 'dist-packages'}\n")
    return made


@pytest.fixture(scope="module")
def spoiled(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment whose pytest, requirements and start are broken."""
    made = linked_environment(
        python, tmp_path_factory.mktemp("spoiled") / "env", RUNNER
    )
    site = site_of(made)
    (site / "pytest.py").write_text("raise RuntimeError('this pytest is broken')\n")
    (site / "sitecustomize.py").write_text(HIJACK)
    (site / "cuda_to_xpu.pth").write_text("import sys; sys.mapped = True\n")
    files = {"torchvision/__init__.py": VISION, "tests/__init__.py": VISION}
    install(site, "torchvision", files)
    install(site, "pytorch-lightning", {"pytorch_lightning/__init__.py": LIGHTNING})
    install(site, "only-data", {"../../../share/only-data.txt": "data"})
    return made


def only(*names: str) -> list[str]:
    return [word for name in names for word in ("--only", name)]


def without_pytest(base: dict[str, Any]) -> dict[str, str]:
    kept = base["packages"].items()
    return {name: version for name, version in kept if name not in RUNNER}


# Runs ---------------------------------------------------------------------------------------------


def test_a_run_of_a_few_checks_is_reported_whole(
    suite: Suite, bare: Path, base: dict[str, Any], tmp_path: Path
) -> None:
    """As in an image: with the part of the toolkit's packages that is copied there."""
    copy_runner(runner_folder(), tmp_path / "runner")
    words = ("--runner", tmp_path / "runner", *only(*CHECKED))
    done, report = suite(*words, python=bare, packages=without_pytest(base))
    assert done.returncode == 0, done.stdout
    judge_contract(report)
    results = {check["id"]: check for check in report["checks"]}
    assert set(results) == CHECKED
    assert len(done.stdout.splitlines()) == len(results)
    throughput = results["throughput.training"]["numbers"]["throughput"]
    assert throughput["unit"] == "images/s"
    assert throughput["spread"] >= 0


def test_without_a_pytest_nothing_is_green(
    suite: Suite, bare: Path, base: dict[str, Any]
) -> None:
    """The false green: one check passed, and the environment was proven."""
    words = only("identity.import", "device.ready")
    done, report = suite(*words, python=bare, packages=without_pytest(base))
    assert done.returncode == 3
    assert "there is no pytest" in done.stderr
    assert "--runner" in done.stderr
    assert [each["id"] for each in report["checks"]] == ["identity.import"]
    assert [e["id"] for e in report["not_run"] if e["required"]] == ["device.ready"]


def suite_with_extra_checks(folder: Path) -> Path:
    copy = folder / "smoke"
    shutil.copytree(SUITE.parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    extra = Path(__file__).with_name("extra_checks.py")
    shutil.copy(extra, copy / "checks" / "test_extra.py")
    return copy


def test_each_fault_of_an_environment_is_named_and_nothing_else_excuses_a_check(
    suite: Suite, spoiled: Path, base: dict[str, Any], tmp_path: Path
) -> None:
    # Neither pytest's variables nor a configuration in the working directory may matter.
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (tmp_path / "conftest.py").write_text("raise SystemExit('from the caller')\n")
    variables = {"PYTEST_ADDOPTS": "--no-such-option", "PYTEST_PLUGINS": "nowhere"}
    copy = suite_with_extra_checks(tmp_path)
    runner = runner_folder()
    assert all((runner / name).is_dir() for name in OTHERS)
    done, report = suite(
        *("--runner", runner),
        *only("extra", "identity.requirements", "identity.code"),
        python=spoiled,
        program=copy / "run.py",
        variables=variables | {"EXTRA_RUNNER": str(runner)},
        packages=without_pytest(base),
        requirements=["numpy", "torchvision", "only-data", "pytorch-lightning"],
    )
    assert done.returncode == 1, done.stderr
    checks = {check["id"]: check for check in with_causes(report["checks"])}
    assert {name: check["outcome"] for name, check in checks.items()} == {
        "identity.import": "passed",
        "identity.code": "failed",
        "identity.requirements": "failed",
        "extra.not_excused": "failed",
        "extra.slow": "warned",
        "extra.skips": "failed",
        "extra.runner": "passed",
        "extra.child": "passed",
    }
    assert checks["extra.slow"]["finding"]["level"] == "warning"
    judge_requirements(checks["identity.requirements"])
    judge_code(checks["identity.code"], site_of(spoiled))
    not_run = {entry["id"]: entry for entry in report["not_run"]}
    excused = not_run["extra.excused"]
    assert excused["required"] is False
    assert excused["reason"] == "cpu has no wings"
    # No bytecode is left in the suite.
    assert not list(copy.rglob("*.pyc"))


def judge_code(check: dict[str, Any], site: Path) -> None:
    """Fail unless all that changes each start of Python is named."""
    first, second, third = check["finding"]["evidence"]
    assert "Finder" in first
    assert f"sitecustomize of {site / 'sitecustomize.py'}" in second
    assert third == "cuda_to_xpu.pth runs import sys; sys.mapped = True"


def judge_requirements(check: dict[str, Any]) -> None:
    """Fail unless all that can't be imported is named, and the first with its cause."""
    finding = check["finding"]
    assert finding["code"] == "torch-companion-mismatch"
    assert "torchvision can't be imported" in finding["symptom"]
    others = [line for line in finding["evidence"] if "pytorch-lightning: " in line]
    assert "no_pkg_resources" in others[0]
    # What has no module is named, and no failure.
    assert check["numbers"]["only-data has no module"]["value"] == 0
    assert check["numbers"]["imported"]["value"] == 3


def test_the_quick_suite_leaves_the_long_checks_out(suite: Suite) -> None:
    # A fault that ends the checks early keeps this short: without its device nothing else runs.
    # And a lock without accelerate does not leave the checks that need it out in silence.
    done, report = suite(accelerator="cuda", packages={}, requirements=["torch"])
    assert done.returncode == 1
    assert report["suite"] == "quick"
    findings = {check["id"]: check["finding"] for check in report["checks"]}
    reasons = {entry["id"]: entry["reason"] for entry in report["not_run"]}
    assert reasons["memory.leak"] == "only in the full suite"
    assert reasons["offload.tied"] == "needs accelerate, which is not locked"
    assert set(findings) | set(reasons) == check_ids()
    codes = {name: each["code"] for name, each in findings.items() if each}
    assert {name: code for name, code in codes.items() if code != "blocked"} == (
        dict.fromkeys(
            ("identity.build", "device.ready"), "cpu-build-of-torch-installed"
        )
    )
    blocked = [each for each in findings.values() if each and each["code"] == "blocked"]
    assert {each["level"] for each in blocked} == {"note"}


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("fused.atention", "no such check: fused.atention"),
        pytest.param(
            "transfer",
            "transfer.speed (only for targets with a GPU)",
            marks=pytest.mark.profiles,
        ),
    ],
)
def test_a_check_that_cannot_be_run_is_not_green(
    suite: Suite, word: str, message: str
) -> None:
    done, _ = suite("--full", "--only", word)
    assert done.returncode == 3
    assert message in done.stderr


@pytest.mark.profiles
def test_the_full_suite_passes_and_compares_the_operators_of_four_models(
    suite: Suite,
) -> None:
    done, report = suite("--full")
    assert done.returncode == 0, done.stdout
    judge_contract(report)
    assert report["suite"] == "full"
    not_run = {entry["id"] for entry in report["not_run"]}
    assert not_run - {"compile.mul_add"} == ELSEWHERE
    load = next(check for check in report["checks"] if check["id"] == "health.load")
    # What this machine does not tell is named, and what it tells is drawn.
    told = load["numbers"].keys() | set(load.get("not_measured", ()))
    assert told >= {"temperature", "power", "clock"}
    assert load["numbers"]["throughput"]["every"] > 0
    assert report["operators"] == sorted(set(report["operators"]))
    expected = {f"aten::{name}" for name in OF_MODELS.split()}
    assert expected - set(report["operators"]) == set()


@pytest.mark.profiles
def test_without_transformers_a_llama_of_torch_is_compared(
    suite: Suite, base: dict[str, Any]
) -> None:
    packages = dict(base["packages"])
    del packages["transformers"], packages["tokenizers"]
    words = ("--full", *only("models.llama", "models.generate"))
    done, report = suite(*words, packages=packages)
    assert done.returncode == 0, done.stdout
    (result,) = [check for check in report["checks"] if check["id"] == "models.llama"]
    numbers = {"float32 output", "float32 gradient", "bfloat16 output"}
    assert set(result["numbers"]) >= numbers
    reasons = {entry["id"]: entry["reason"] for entry in report["not_run"]}
    assert reasons["models.generate"] == "needs transformers, which is not locked"


def test_a_bad_expectation_and_a_switch_with_a_value_are_refused_at_once(
    suite: Suite,
) -> None:
    done, report = suite(accelerator="tpu", rotary=["sideways"])
    assert done.returncode == 2
    assert report is None
    assert "accelerator: 'tpu'" in done.stderr
    assert "rotary: ['sideways']" in done.stderr
    # The trap of argparse's type=bool, for which the text False is true, stays shut.
    done, report = suite("--full", "False")
    assert done.returncode == 2
    assert report is None


def test_a_run_that_was_ended_is_reported_from_its_journal(
    suite: Suite, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    ended = {"id": "identity.import", "title": "t", "stands_for": "s"}
    ended |= {"outcome": "passed", "seconds": 1.0, "numbers": {}, "finding": None}
    lines = [json.dumps({"at": 1.0, "result": ended}), '{"start": {"id": "fused.att']
    journal.write_text("\n".join(lines), encoding="utf-8")
    done, report = suite("--journal", journal, "--ended", "killed")
    assert done.returncode == 3
    assert report["broken"] == "killed"
    assert [check["id"] for check in report["checks"]] == ["identity.import"]
    missing = {entry["id"] for entry in report["not_run"] if entry["required"]}
    assert "fused.attention" in missing
    assert "fused.attention" in done.stderr
