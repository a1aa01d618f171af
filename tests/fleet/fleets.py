"""A fleet for tests and measurements: a lab's hosts, a project in miniature, and Ansible."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provision.catalog.digest import catalog_digest
from provision.core.project import Project
from provision.lockfile.pip import render_requirements
from provision.spec.reader import load_target
from tests.commands.detect.conftest import write
from tests.fleet.machines import CLONE, Lab, open_lab
from tests.small import CATALOG, PYTHON, artifact, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROVISION = Path(sys.executable).with_name("provision")
# What the hosts run, too.
HOST_PYTHON = Path(sys.base_prefix, "bin", f"python{PYTHON}")
# Builds of the user-mode driver: of all but one host, of that one, and of a roll-out.
DRIVER, OLD_DRIVER, NEW_DRIVER = 33578, 33276, 33944
XPU = '[hardware]\nfamilies = ["bmg"]\ndriver = ">=24.52"\n'
# The suite of the miniature project. It has no torch; its device is what sysfs of its host shows,
# and a card whose folder there has a file `sick` computes wrong numbers.
SUITE = """
import glob, importlib.util, json, os, sys, time
expect = json.load(open(sys.argv[1]))
cards = sorted(glob.glob("/sys/bus/pci/devices/*/drm")) or ["cpu"]
def check(name, bad, code, symptom):
    finding = {"code": code, "level": "error", "symptom": symptom, "cause": "c", "remedy": "r",
               "evidence": []}
    return {"id": name, "outcome": "failed" if bad else "passed", "title": "t", "stands_for": "s",
            "seconds": 0.1, "numbers": {"error": {"value": 1e-7, "unit": "1"}},
            "finding": finding if bad else None}
while os.path.exists("/etc/hang"):
    time.sleep(0.1)
checks = [check("identity.packages", importlib.util.find_spec("broken"), "not-locked",
                "broken is installed and not locked")]
for n, card in enumerate(cards):
    sick = os.path.exists(os.path.join(os.path.dirname(card), "sick"))
    checks.append(check("device.matmul" + (f"@{n}" if n else ""), sick, "wrong-numbers",
                        f"card {n} computes wrong numbers"))
checks.append(check("requirements.hub", os.path.exists("/etc/offline"), "network-failure",
                    "the hub does not answer"))
devices = [{"name": "card", "number": n} for n, _ in enumerate(cards)]
json.dump({"schema": 2, "suite": "full" if "--full" in sys.argv else "quick",
           "target": expect["target"], "python": "3", "torch": None, "device": devices[0],
           "devices": devices, "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
           "seconds": 0.1, "checks": checks}, open(sys.argv[2], "w"))
if "--junit" in sys.argv:
    open(sys.argv[sys.argv.index("--junit") + 1], "w").write("<testsuite/>")
sys.exit(any(c["finding"] for c in checks))
"""

CONFIG = """
[defaults]
inventory = {folder}/inventory.json
collections_path = {folder}/collections:{site}
local_tmp = {folder}/tmp
stdout_callback = ansible.posix.json
callbacks_enabled = ansible.posix.json
forks = 16
interpreter_python = auto_silent
deprecation_warnings = false
localhost_warning = false
retry_files_enabled = false
timeout = 5
[ssh_connection]
control_path_dir = {folder}/cp
ssh_args = -o ControlMaster=auto -o ControlPersist=60s -o UserKnownHostsFile={folder}/known_hosts
pipelining = true
"""


@dataclass
class Fleet:
    """The lab, and Ansible on its login node."""

    lab: Lab
    project: Path
    tools: Path
    environ: dict[str, str]

    def ansible(
        self, program: str, *words: str | Path, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Ansible's programs on the login node."""
        argv = (self.tools / program, *words)
        return self.lab.call(*argv, env=self.environ, cwd=self.project, check=check)

    def book(self, name: str) -> Path:
        """A playbook of the collection, as Ansible has installed it."""
        installed = self.lab.folder / "collections/ansible_collections/provision/fleet"
        return installed / "playbooks" / f"{name}.yml"

    def verdicts(self) -> dict[str, dict[str, Any]]:
        """The verdicts that the last round has brought to the controller, by host."""
        folder = max((self.lab.folder / "reports").iterdir())
        found = [json.loads(path.read_text()) for path in folder.glob("*.json")]
        return {verdict["node"]: verdict for verdict in found}

    def play(self, name: str, limit: str = "", **variables: object) -> Played:
        """Run a playbook of the collection."""
        words = ["-e", json.dumps(variables)]
        if limit:
            words += ["--limit", f"localhost,{limit}"]
        done = self.ansible("ansible-playbook", self.book(name), *words, check=False)
        return Played(done.returncode, json.loads(done.stdout), done.stderr)


@dataclass
class Played:
    """What a playbook did, as Ansible's own JSON callback tells it."""

    code: int
    document: dict[str, Any]
    stderr: str

    def stats(self, host: str) -> dict[str, int]:
        return self.document["stats"][host]

    def unfit(self) -> str:
        """The hosts that the last task names."""
        return self.failed().get(
            "provision.fleet.report : Name the hosts that are not fit", ""
        )

    def failed(self) -> dict[str, str]:
        """The message of each task that failed, by its name."""
        messages: dict[str, str] = {}
        for play in self.document["plays"]:
            for task in play["tasks"]:
                for result in task["hosts"].values():
                    if result.get("failed"):
                        messages[task["task"]["name"]] = str(result.get("msg"))
        return messages


def make_project(root: Path) -> Project:
    """Make a project in miniature, with a target for the CPU and one for Arc."""
    project = Project(root)
    write(root / "smoke/run.py", SUITE)
    write(root / "smoke/pytest.ini", "")
    project.catalog.mkdir(parents=True)
    for facts in ("devices.toml", "drivers.toml"):
        shutil.copy(CATALOG / facts, project.catalog)
    for name, accelerator, hardware in (
        ("poolcpu", "cpu", ""),
        ("poolxpu", "xpu", XPU),
    ):
        wheels = [
            make_wheel(root / "wheels/default", each, "1.0", {f"{each}.py": "x = 1\n"})
            for each in ("alpha", name)
        ]
        write(
            project.specs / f"{name}.toml",
            f"""
summary = "A target in miniature"
accelerator = "{accelerator}"
platform = "linux-64"
python = "{PYTHON}"
{hardware}
[pip]
cutoff = 2026-11-01
requirements = ["alpha", "{name}"]
""",
        )
        target = load_target(project.specs, name)
        header = {
            "spec": target.digest(),
            "catalog": catalog_digest(project.catalog, target),
            "platform": target.platform,
            "python": target.python_version,
        }
        text = render_requirements(header, list(map(artifact, wheels)))
        write(project.lock(name) / "requirements.txt", text)
    return project


@contextlib.contextmanager
def open_fleet(
    folder: Path, tools: Path, arc: Iterable[str], plain: Iterable[str]
) -> Iterator[Fleet]:
    """Make hosts as they come from the factory: with two Arc cards, and without any.

    Args:
        folder: Where all of it lies.
        tools: The folder of Ansible's programs.
        arc: Names of hosts with two Arc cards.
        plain: Names of hosts without.
    """
    with open_lab(folder) as lab:
        for name in arc:
            lab.add(name).drive(DRIVER)
        for name in plain:
            lab.add(name)
        made = Fleet(
            lab,
            make_project(folder / "project").root,
            tools,
            _environment(folder, tools),
        )
        _write_inventory(made, list(arc), list(plain))
        made.ansible(
            "ansible-galaxy",
            "collection",
            "install",
            "--no-deps",
            "--offline",
            "-p",
            folder / "collections",
            CLONE / "fleet/ansible",
        )
        _make_bundles(made)
        yield made


def _environment(folder: Path, tools: Path) -> dict[str, str]:
    (site,) = tools.parent.glob("lib/python*/site-packages")
    write(folder / "ansible.cfg", CONFIG.format(folder=folder, site=site))
    return {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        # No Python of uv's in a bundle: its server must not be asked.
        "UV_PYTHON_INSTALL_MIRROR": (folder / "mirror").as_uri(),
    }


def _write_inventory(fleet: Fleet, arc: list[str], plain: list[str]) -> None:
    folder, hosts = fleet.lab.folder, fleet.lab.hosts
    common = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(folder / "key"),
        "ansible_python_interpreter": str(HOST_PYTHON),
        "provision_project": str(fleet.project),
        "provision_command": str(PROVISION),
        "provision_wheelhouses": [str(fleet.project / "wheels/default")],
        "provision_python": str(HOST_PYTHON),
        "report_folder": str(folder / "reports"),
    }
    candidates = ["poolcpu", "poolxpu"]
    groups = (
        ("arc", arc, {"provision_target": "auto", "provision_candidates": candidates}),
        ("plain", plain, {"provision_target": "poolcpu"}),
    )
    children: dict[str, Any] = {}
    for group, names, variables in groups:
        members = {name: {"ansible_host": hosts[name].address} for name in names}
        children[group] = {"vars": variables, "hosts": members}
    document = {"all": {"vars": common, "children": children}}
    write(folder / "inventory.json", json.dumps(document))
    key = (folder / "key.pub").read_text(encoding="utf-8")
    lines = [f"{host.address} {key}" for host in hosts.values()]
    write(folder / "known_hosts", "".join(lines))


def _make_bundles(fleet: Fleet) -> None:
    """Make the bundles where an index can be reached: the login node of the lab has no route."""
    environ = dict(fleet.environ)
    for name, value in os.environ.items():
        if name.startswith(("PIP_", "UV_", "SSL_")) or name.upper().endswith("_PROXY"):
            environ.setdefault(name, value)
    environ["HOME"] = os.environ["HOME"]
    words = [fleet.tools / "ansible-playbook", fleet.book("site"), "--tags", "bundles"]
    done = subprocess.run(
        words, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
