"""Hosts on one machine: each a network, mount and process namespace with a root folder of its own.

They hang on one bridge in a network namespace that nothing else is in. Programs are the machine's,
mounted read-only; ``/etc``, ``/home``, ``/var``, ``/sys`` and the rest belong to the host, which
starts as a fresh one: an sshd and nothing else. All processes end with the lab.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.commands.detect.conftest import MACHINES, make_gpu, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLONE = Path(__file__).parents[2]
NETWORK = "10.77.0"
UNSHARE = "unshare --net --mount --uts {} --pid --fork --kill-child sh -c"
# Of Debian's packages openssh-server, rsync, munge, slurmctld, slurmd and slurm-client.
PROGRAMS = (
    "sshd",
    "rsync",
    "ip",
    "unshare",
    "nsenter",
    "munged",
    "slurmctld",
    "slurmd",
    "scontrol",
)
_ROOT = (
    "mnt",
    "proc",
    "sys",
    "dev",
    "run",
    "tmp",
    "root",
    "var/log",
    "var/tmp",
    "opt",
    "etc/ssh",
)
_FROM_ETC = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "nsswitch.conf",
    "alternatives",
    "passwd",
    "group",
    "localtime",
    "os-release",
    "debian_version",
)
# The first process of a host. $1 root folder, $2 name, $3 prefix of Python, $4 a folder that all
# hosts share; what it runs comes in through ssh or `nsenter`.
_INIT = """
set -eu
hostname "$2"
mount --bind /usr "$1/usr"; mount -o remount,bind,ro "$1/usr"
case $3 in /usr*) ;; *) mkdir -p "$1$3"; mount --bind "$3" "$1$3"
    mount -o remount,bind,ro "$1$3";; esac
mount --bind "$4" "$1/mnt"
mount -t proc proc "$1/proc"
mount --bind "$1/etc/osrelease" "$1/proc/sys/kernel/osrelease"
mount -t tmpfs tmpfs "$1/run"; mkdir "$1/run/sshd" "$1/run/munge"
cd "$1/dev"
for node in null zero full random urandom tty; do touch $node; mount --bind /dev/$node $node; done
mkdir -p pts shm; mount -t devpts -o newinstance,ptmxmode=666 devpts pts; ln -sf pts/ptmx ptmx
ln -sf /proc/self/fd fd; ln -sf fd/0 stdin; ln -sf fd/1 stdout; ln -sf fd/2 stderr
exec chroot "$1" /usr/sbin/sshd -D -e
"""
# The first process of the lab. $1 its folder, $2 the address of the bridge.
_LOGIN = """
set -eu
hostname login
mount -t proc proc /proc
mount -t tmpfs tmpfs /run/munge
mount --bind "$1/shared" /mnt
ip link set lo up
ip link add fleet type bridge
ip addr add "$2" dev fleet
ip link set fleet up
touch "$1/ready"
exec sleep inf
"""
_SSHD = """
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/authorized_keys
StrictModes no
UsePAM no
UseDNS no
MaxStartups 100
Subsystem sftp internal-sftp
SetEnv PATH={python}/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
"""


@dataclass
class Machine:
    """A host of the lab."""

    name: str
    address: str
    root: Path
    lab: Lab
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The first process of the host, as this machine numbers it."""
        assert self.process is not None
        return _first(self.process, 2)

    @property
    def wire(self) -> str:
        """The end of its cable at the bridge."""
        return f"v{self.address.rpartition('.')[2]}"

    def start(self) -> None:
        """Boot, and wait for the sshd."""
        told = self.root / "var/log/sshd"
        words = UNSHARE.format("--ipc").split()
        given = (self.root, self.name, sys.base_prefix, self.lab.shared)
        with told.open("wb") as log:
            self.process = subprocess.Popen(
                [*self.lab.enter, *words, _INIT, "sh", *given],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        pid, wire = self.pid, self.wire
        network = f"/proc/{_numbers(pid)[1]}/ns/net"
        cable = f"ip link add {wire} type veth peer name eth0 netns {network}"
        self.lab.call(*cable.split())
        self.lab.call("ip", "link", "set", wire, "master", "fleet", "up")
        within = ["nsenter", "--target", str(pid), "--net", "ip"]
        for words in (
            "link set lo up",
            f"addr add {self.address}/24 dev eth0",
            "link set eth0 up",
        ):
            subprocess.run([*within, *words.split()], check=True)
        # Before that, `run` would have the root folder of this machine.
        wait_for(lambda: "Server listening" in told.read_text(encoding="utf-8"))

    def stop(self) -> None:
        """Lose power."""
        if self.process is not None:
            self.lab.call("ip", "link", "delete", self.wire)
            os.kill(self.pid, 9)
            self.process.wait()
            self.process = None

    def link(self, state: str) -> None:
        """Pull the network cable (``down``), or plug it in (``up``)."""
        self.lab.call("ip", "link", "set", self.wire, state)

    def run(
        self, *words: str | Path, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on the host as root, without ssh."""
        spaces = ["--net", "--mount", "--uts", "--ipc", "--pid", "--root", "--wd"]
        enter = ["nsenter", "--target", str(self.pid), *spaces]
        path = f"{sys.base_prefix}/bin:/usr/sbin:/usr/bin"
        return subprocess.run(
            [*enter, *map(str, words)],
            capture_output=True,
            text=True,
            check=check,
            env={"PATH": path, "HOME": "/root"},
        )

    def read(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text(encoding="utf-8")

    def card(self, number: int) -> Path:
        """The folder of a card in sysfs. A file `sick` in it makes the card compute nonsense."""
        address = f"0000:0{3 + number}:00.0"
        return next((self.root / "sys/devices").rglob(address))

    def drive(self, build: int) -> None:
        """Give it two Arc cards, whose user-mode driver is of a build."""
        if not (self.root / "sys/bus").is_dir():
            (gpu,) = MACHINES["b580"]["gpu"]
            for n in range(2):
                bus = gpu["at"].replace("0000:03:00.0", f"0000:0{3 + n}:00.0")
                make_gpu(
                    self.root,
                    gpu | {"at": bus, "render": f"renderD12{8 + n}"},
                    nodes=True,
                )
            for link in (p for p in (self.root / "sys").rglob("*") if p.is_symlink()):
                target = os.path.relpath(link.readlink(), link.parent)
                link.unlink()
                link.symlink_to(target)
        # One of the folders for libraries that a host reads, and the only one that is not in /usr.
        libraries = self.root / ".singularity.d/libs"
        shutil.rmtree(libraries, ignore_errors=True)
        write(libraries / "libze_loader.so.1.20.2", "")
        write(libraries / f"libze_intel_gpu.so.1.6.{build}", "")


@dataclass
class Lab:
    """The bridge, and the hosts on it."""

    folder: Path
    process: subprocess.Popen[bytes]
    hosts: dict[str, Machine] = field(default_factory=dict)

    @property
    def shared(self) -> Path:
        """The folder that is ``/mnt`` on every host and on the login node."""
        return self.folder / "shared"

    @property
    def enter(self) -> list[str]:
        """What a command is prefixed with to run beside the hosts, as the login node."""
        pid = str(_first(self.process, 1))
        return ["nsenter", "--target", pid, "--net", "--mount", "--uts", "--pid", "--"]

    def call(
        self,
        *words: str | Path,
        env: dict[str, str] | None = None,
        check: bool = True,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on the login node."""
        done = subprocess.run(
            [*self.enter, *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            env=env,
            cwd=cwd,
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done

    def add(self, name: str, *shown: Path) -> Machine:
        """Make a host with nothing on it but some folders of this machine, and switch it on."""
        root = self.folder / name
        address = f"{NETWORK}.{10 + len(self.hosts)}"
        for folder in ("usr", *_ROOT):
            (root / folder).mkdir(parents=True)
        for link in ("bin", "sbin", "lib", "lib64"):
            (root / link).symlink_to(f"usr/{link}")
        for part in _FROM_ETC:
            source = Path("/etc", part)
            if source.is_dir():
                shutil.copytree(source, root / "etc" / part, symlinks=True)
            else:
                shutil.copy(source, root / "etc" / part)
        write(root / "etc/hostname", f"{name}\n")
        write(root / "etc/shadow", "root:*:19000:0:99999:7:::\n", mode=0o600)
        write(root / "etc/osrelease", "6.8.0-48-generic\n")
        write(root / "etc/ssh/sshd_config", _SSHD.format(python=sys.base_prefix))
        shutil.copy(self.folder / "key", root / "etc/ssh/host_key")
        (root / "etc/ssh/host_key").chmod(0o600)
        shutil.copy(self.folder / "key.pub", root / "etc/ssh/authorized_keys")
        (root / "tmp").chmod(0o1777)
        for folder in shown:
            place = root / folder.relative_to("/")
            place.mkdir(parents=True)
            self.call("mount", "--bind", folder, place)
            self.call("mount", "-o", "remount,bind,ro", place)
        self.hosts[name] = Machine(name, address, root, self)
        self.hosts[name].start()
        return self.hosts[name]


def _first(process: subprocess.Popen[bytes], depth: int) -> int:
    """The first process of a namespace that was made below a process, as this machine numbers it.

    Args:
        process: `unshare`, or `nsenter` before it.
        depth: How deep its process namespace is below this machine's.
    """
    until = time.monotonic() + 60
    while time.monotonic() < until:
        assert process.poll() is None, "the namespace ended"
        below = [process.pid]
        for pid in below:  # which grows
            with contextlib.suppress(OSError):
                below += map(
                    int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                )
                numbers = _numbers(pid)
                if len(numbers) == depth + 1 and numbers[-1] == 1:
                    return pid
        time.sleep(0.01)
    raise AssertionError("no process in the namespace")


def _numbers(pid: int) -> list[int]:
    """The numbers of a process: this machine's, and those in each namespace that it is in."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return [int(n) for ln in lines if ln.startswith("NSpid:") for n in ln.split()[1:]]


def wait_for(good: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not good():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


def require(*programs: str) -> None:
    """Skip where an engine is missing; in continuous integration, fail."""
    lack = [
        p
        for p in programs
        if shutil.which(p, path=f"{os.environ['PATH']}:/usr/sbin") is None
    ]
    lack += ["the rights of root"] if os.geteuid() else []
    if lack:
        reason = (
            f"absent: {', '.join(lack)} (`.ci/fleet` installs the engines on Debian)"
        )
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


@contextlib.contextmanager
def open_lab(folder: Path) -> Iterator[Lab]:
    """Make a bridge, until the block ends."""
    require(*PROGRAMS)
    keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N"]
    subprocess.run([*keygen, "", "-f", folder / "key"], check=True)
    (folder / "shared").mkdir()
    Path("/run/munge").mkdir(exist_ok=True)  # below the lab's own
    words = ["setpriv", "--pdeathsig", "KILL", *UNSHARE.format("").split()]
    process = subprocess.Popen([*words, _LOGIN, "sh", folder, f"{NETWORK}.1/24"])
    wait_for((folder / "ready").exists)
    made = Lab(folder, process)
    try:
        yield made
    finally:
        process.kill()
        for each in (process, *(host.process for host in made.hosts.values())):
            if each is not None:
                each.wait()
