"""A 64-bit Arm machine, emulated: what its user types builds, verifies and computes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.image.test_engine import engine as engine  # noqa: PLC0414 - a fixture

pytestmark = pytest.mark.aarch64
CLONE = Path(__file__).parents[1]
NAME = "cpu-linux-aarch64"
whole = pytest.mark.skipif(
    "PROVISION_AARCH64_WHOLE" not in os.environ,
    reason="`.ci/aarch64 --whole` takes 15 minutes",
)
# The processor of Ampere's and Amazon's servers. qemu's own choice is one that nobody makes, for
# which OpenBLAS takes kernels whose Cholesky factors are wrong by a tenth.
PROCESSOR = '\n[environment]\nQEMU_CPU = "neoverse-n1"\n'
COMPUTES = """
import platform, torch
torch.manual_seed(0)
x = torch.randn(4, 8, 32, 32, requires_grad=True)
w = torch.randn(16, 8, 3, 3, requires_grad=True)
(torch.nn.functional.conv2d(x, w) ** 2).sum().backward()
found = w.grad.double()
y, v = x.detach().double().requires_grad_(), w.detach().double().requires_grad_()
(torch.nn.functional.conv2d(y, v) ** 2).sum().backward()
assert torch.allclose(found, v.grad, rtol=1e-4, atol=1e-2), (found - v.grad).abs().max()
a = torch.randn(64, 64, dtype=torch.float64)
a = a @ a.T + 64 * torch.eye(64, dtype=torch.float64)
assert torch.allclose(torch.linalg.cholesky(a.float()).double(), torch.linalg.cholesky(a), 1e-4)
print(platform.machine(), torch.__version__)
"""


class Machine:
    """A root file system whose programs qemu runs, with a copy of this clone."""

    def __init__(self, root: Path) -> None:
        self.root = root
        archive = Path(os.environ["PROVISION_AARCH64"], "root.tar")
        subprocess.run(["/usr/bin/tar", "-xf", archive, "-C", root], check=True)
        shutil.copy("/etc/resolv.conf", root / "etc")
        bundle = Path(
            os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")
        )
        shutil.copy(bundle, root / "etc" / "ca.pem")
        list_files = ["/usr/bin/git", "ls-files", "-co", "--exclude-standard"]
        listed = subprocess.run(
            list_files, cwd=CLONE, check=True, capture_output=True, text=True
        )
        for name in filter(
            lambda name: (CLONE / name).is_file(), listed.stdout.splitlines()
        ):
            copy = root / "srv" / "clone" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CLONE / name, copy)
        spec = root / "srv" / "clone" / "envs" / f"{NAME}.toml"
        spec.write_text(spec.read_text(encoding="utf-8") + PROCESSOR, encoding="utf-8")

    def call(self, *words: str) -> str:
        """Run a command in the clone, alone with its mounts, and return what it prints."""
        own = {
            name: os.environ[name] for name in ("PIP_INDEX_URL",) if name in os.environ
        }
        variables = {
            "PATH": "/usr/sbin:/usr/bin:/bin",
            "HOME": "/root",
            **own,
            "SSL_CERT_FILE": "/etc/ca.pem",
            "PIP_CERT": "/etc/ca.pem",
        }
        script = (
            'mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && '
            'exec chroot "$0" sh -c \'cd /srv/clone && exec "$@"\' sh "$@"'
        )
        argv = [
            "/usr/bin/unshare",
            "--mount",
            "sh",
            "-c",
            script,
            str(self.root),
            *words,
        ]
        done = subprocess.run(
            argv, env=variables, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    if "PROVISION_AARCH64" not in os.environ:
        pytest.skip("`.ci/aarch64` makes the machine")
    return Machine(tmp_path_factory.mktemp("aarch64"))


@pytest.fixture(scope="module")
def built(machine: Machine) -> Machine:
    machine.call("python3", "noxfile.py", "-s", f"build-{NAME}", "--", "--no-smoke")
    return machine


def test_its_target_is_found_built_and_computes(built: Machine) -> None:
    provision = ".tools/bin/provision"
    assert (
        json.loads(built.call(provision, "detect", "--json"))["result"]["chosen"]
        == NAME
    )
    built.call(provision, "verify", NAME, "--deep")
    assert built.call(
        provision, "run", NAME, "--", "python", "-c", COMPUTES
    ).split() == [
        "aarch64",
        "2.10.0+cpu",
    ]
    # What nothing there vouches for: the lock that its own resolver makes is the committed one.
    built.call(provision, "lock", NAME, "--check")


@whole
def test_all_quick_checks_pass(built: Machine) -> None:
    built.call(".tools/bin/provision", "smoke", NAME)
    listed = json.loads(built.call(".tools/bin/provision", "targets", "--json"))[
        "result"
    ]["rows"]
    assert next(row for row in listed if row["name"] == NAME)["proof"] == "proven"


@whole
def test_its_image_passes_them_too(
    machine: Machine, engine: str, tmp_path: Path
) -> None:
    base = "local/debian-arm64:bookworm"
    os.link(Path(os.environ["PROVISION_AARCH64"], "root.tar"), tmp_path / "root.tar")
    (tmp_path / "Dockerfile").write_text(
        "FROM scratch\nADD root.tar /\n", encoding="utf-8"
    )
    env = os.environ | {"DOCKER_BUILDKIT": "1"}
    subprocess.run(
        [
            engine,
            "build",
            "--quiet",
            "--platform",
            "linux/arm64",
            "--tag",
            base,
            str(tmp_path),
        ],
        env=env,
        check=True,
    )
    # The toolkit itself is this machine's: an image of Arm is built on x86, as users do.
    clone = machine.root / "srv" / "clone"
    argv = [str(CLONE / ".tools/bin/provision"), "docker", NAME, "--base-image", base]
    subprocess.run(argv, cwd=clone, check=True)
    inspected = subprocess.run(
        [
            engine,
            "image",
            "inspect",
            f"provision/{NAME}",
            "--format",
            "{{.Architecture}}",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    assert inspected.stdout.strip() == "arm64"
    # The health check would run the same checks beside them, every half minute.
    argv = [engine, "run", "--rm", "--no-healthcheck", f"provision/{NAME}"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
