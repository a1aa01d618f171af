"""The nox sessions: one per verb and target, made from ``envs/*.toml``, and the developers' own.

``nox -l`` lists them. Where nox is not installed, ``python3 noxfile.py …`` takes the same
arguments: it makes a virtual environment with the pinned tools and runs nox from there.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOOLS = HERE / ".tools"
LOCKS = HERE / "lockfiles" / "tools"
BIN = TOOLS / ("Scripts" if os.name == "nt" else "bin")
EXE = ".exe" if os.name == "nt" else ""


def ensure_tools(*, dev: bool = False) -> None:
    """Install the locked tools into ``.tools``, unless they are there already.

    Args:
        dev: Also those of tests and lint, which takes longer.
    """
    wanted = LOCKS / ("dev.txt" if dev else "requirements.txt")
    stamp = TOOLS / "provision.stamp"
    # dev.txt contains all of requirements.txt, so with it both requests are met.
    enough = [LOCKS / "dev.txt", wanted]
    accepted = [hashlib.sha256(lock.read_bytes()).hexdigest() for lock in enough]
    if stamp.is_file() and stamp.read_text(encoding="utf-8") in accepted:
        return
    sys.stderr.write(f"setting up the tools in {TOOLS.name} from {wanted.relative_to(HERE)} …\n")
    # Removed first and written last, so that a set-up that was cut short is done again.
    stamp.unlink(missing_ok=True)
    if not (BIN / f"python{EXE}").exists():
        venv.create(TOOLS, with_pip=True)
    python, uv = str(BIN / f"python{EXE}"), str(BIN / f"uv{EXE}")
    # pip installs uv alone: it is the only installer that a fresh Python has.
    pip = [python, "-I", "-m", "pip"]
    subprocess.run([*pip, "install", "-qq", "--disable-pip-version-check", "--no-deps",
                    "--require-hashes", "-r", str(LOCKS / "uv.txt")], check=True)  # fmt: skip
    # uv does the rest in a tenth of pip's time, by the user's own settings for pip.
    install = [uv, "pip", "install", "--quiet", "--no-config", "--no-deps", "--compile-bytecode",
               "--python", python]  # fmt: skip
    settings = os.environ | uv_settings(pip)
    subprocess.run([*install, "--require-hashes", "-r", str(wanted)], env=settings, check=True)
    # The backend that pyproject.toml names is one of the tools, so this needs no network.
    subprocess.run([*install, "--offline", "--no-build-isolation", "-e", str(HERE)], check=True)
    # The absolute path that hatchling wrote is UTF-8, which Python 3.11 and 3.12 read in the
    # encoding of the locale; a relative one is the same in both, whatever letters lead here.
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(TOOLS)}))
    (site / "_provision.pth").write_text(os.path.relpath(HERE, site) + "\n", encoding="utf-8")
    stamp.write_text(hashlib.sha256(wanted.read_bytes()).hexdigest(), encoding="utf-8")


def uv_settings(pip: list[str]) -> dict[str, str]:
    """Return pip's network settings under the names that uv reads."""
    # uv reads no pip configuration (https://docs.astral.sh/uv/pip/compatibility/).
    names = {"index-url": "UV_DEFAULT_INDEX", "cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY"}
    listed = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=True)
    pairs = (line.partition("=") for line in listed.stdout.splitlines())
    found = {key.rpartition(".")[2]: value.strip("'") for key, _, value in pairs}
    return {names[key]: value for key, value in found.items() if key in names}


def main() -> int:
    """Run nox from ``.tools`` with this command's arguments."""
    try:
        ensure_tools()
    except (subprocess.CalledProcessError, OSError) as error:
        remedy = "check the network; Debian and Ubuntu also need the package python3-venv"
        sys.stderr.write(f"error: could not set up {TOOLS}\n  evidence: {error}\n")
        sys.stderr.write(f"  remedy:   {remedy}\n")
        return 3
    argv = [str(BIN / f"python{EXE}"), "-m", "nox", "-f", str(Path(__file__)), *sys.argv[1:]]
    try:
        return subprocess.run(argv, check=False).returncode
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    raise SystemExit(main())

import nox  # noqa: E402 - absent when this file is run as a script, which ends above

sys.path.insert(0, str(HERE))  # where another nox than that of .tools runs this file
from provision.sessions import add_sessions  # noqa: E402


def with_tools(verb: str) -> str:
    """Return the Python of ``.tools``, after the set-up that a verb needs."""
    ensure_tools(dev=verb == "lock")  # which needs conda-lock, and may be asked for pip-tools
    return str(BIN / f"python{EXE}")


add_sessions(__file__, with_tools)


def tool(session: nox.Session, *words: str, **env: str) -> None:
    """Run a developer's tool from ``.tools``."""
    ensure_tools(dev=True)
    session.run(str(BIN / f"python{EXE}"), "-m", *words, env=env, external=True)


# One more than cores: some tests wait for time limits and dead servers.
WORKERS = str((os.cpu_count() or 1) + 1)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests, with the built cpu-linux environment; arguments go to pytest."""
    ensure_tools(dev=True)
    session.run(str(BIN / f"provision{EXE}"), "build", "cpu-linux", external=True)
    chosen = session.posargs or ["-m", "not docker and not wine and not faults and not profiles"]
    built = {"PROVISION_TEST_ENV": str(HERE / ".envs" / "cpu-linux" / "current")}
    tool(session, "coverage", "erase")
    # A file stays in one process, so that an expensive fixture of a module is set up once. Not
    # `loadgroup`: xdist 3.8 with pytest 9.2 ignores its groups. In the order of tests/conftest.py:
    # xdist's own puts the files with few tests last, and those take longest here.
    parallel = ["-n", WORKERS, "--dist", "loadfile", "--no-loadscope-reorder"]
    tool(session, "coverage", "run", "-m", "pytest", *parallel, *chosen, **built)
    tool(session, "coverage", "combine", "--quiet")
    tool(session, "coverage", "report")


@nox.session
def budget(session: nox.Session) -> None:
    """Accept what each verb imports, opens and starts now as its budget (tests/budget.json)."""
    tool(session, "pytest", "-q", "tests/test_budget.py", PROVISION_ACCEPT_BUDGET="1")


@nox.session
def faults(session: nox.Session) -> None:
    """Kill builds at a hundred moments, fill disks, stop servers; prints what survived."""
    tool(session, "pytest", "-m", "faults", *session.posargs)


@nox.session
def profiles(session: nox.Session) -> None:
    """Prove every GPU target on every device profile that it is for, and each fault on three."""
    ensure_tools(dev=True)
    session.run(str(BIN / f"provision{EXE}"), "build", "cpu-linux", external=True)
    built = {"PROVISION_TEST_ENV": str(HERE / ".envs" / "cpu-linux" / "current")}
    tool(session, "pytest", "-m", "profiles", *session.posargs, **built)


@nox.session
def docker(session: nox.Session) -> None:
    """Run the tests of images in a real engine, which `.ci/engine` prepares."""
    tool(session, "pytest", "-m", "docker", *session.posargs)


@nox.session
def wine(session: nox.Session) -> None:
    """Run the tests of Windows under Wine; `.ci/wine` makes what they need and calls this."""
    tool(session, "pytest", "-m", "wine", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure against other tools; after --: subjects (build, lock …) and --rounds N."""
    ensure_tools(dev=True)
    # The tools to compare with and matplotlib stay out of .tools, whose start-up is measured.
    prefix = HERE / ".cache" / "bench"
    python = str(prefix / BIN.name / f"python{EXE}")
    prefix.parent.mkdir(exist_ok=True)
    uv = [str(BIN / f"uv{EXE}")]
    session.run(*uv, "venv", "--quiet", "--no-config", "--clear", str(prefix), external=True)
    session.run(*uv, "pip", "sync", "--quiet", "--no-config", "--require-hashes", "--python",
                python, str(LOCKS / "bench.txt"), external=True)  # fmt: skip
    tool(session, "benchmarks", "--tools", python, *session.posargs)
    session.run(python, "-m", "benchmarks.plot", external=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types, the order of the packages, and every spec against its schema."""
    tool(session, "ruff", "format", "--check", ".")
    tool(session, "ruff", "check", ".")
    tool(session, "mypy")
    tool(session, "mypy", "--platform", "win32", "provision", "smoke", "noxfile.py")
    session.run(str(BIN / f"lint-imports{EXE}"), external=True)
    schema = Path(session.create_tmp(), "spec.schema.json")
    with schema.open("w", encoding="utf-8") as out:
        session.run(str(BIN / f"provision{EXE}"), "schema", stdout=out, external=True)
    specs = sorted(map(str, (HERE / "envs").glob("*.toml")))
    tool(session, "check_jsonschema", "--schemafile", str(schema), *specs)


@nox.session
def docs(session: nox.Session) -> None:
    """Draw the picture of the packages (docs/rooms.svg) from their imports."""
    ensure_tools(dev=True)
    session.run(str(BIN / f"python{EXE}"), "docs/draw_rooms.py", external=True)


@nox.session
def audit(session: nox.Session) -> None:
    """Look up the known vulnerabilities of every lock, or of the targets after --.

    A package that the service does not know is a failure: it was not checked.
    """
    ensure_tools(dev=True)
    for name in session.posargs or sorted(
        path.parent.name for path in LOCKS.parent.glob("*/r*.txt")
    ):
        lock = (LOCKS.parent / name / "requirements.txt").read_text(encoding="utf-8")
        public = Path(session.create_tmp(), f"{name}.txt")
        # Vendors' builds of a release, such as 2.13.0+cpu, are known by the release's own version.
        public.write_text(re.sub(r"(==[^+\s]+)\+\S+", r"\1", lock), encoding="utf-8")
        session.log(f"auditing {name}")
        tool(session, "pip_audit", "--strict", "--disable-pip", "--no-deps",
             "--progress-spinner", "off", "--requirement", str(public))  # fmt: skip


@nox.session(name="update-tools")
def update_tools(session: nox.Session) -> None:
    """Lock the toolkit's own tools again, for every platform."""
    compile_ = ["uv", "pip", "compile", "--universal", "--generate-hashes",
                "--quiet", "--upgrade", "--no-config", "--python-version", "3.11",
                "--custom-compile-command", "nox -s update-tools"]  # fmt: skip
    groups = {"uv.txt": ["uv"], "requirements.txt": ["tools"], "dev.txt": ["tools", "dev"],
              "bench.txt": ["bench"]}  # fmt: skip
    for name, parts in groups.items():
        chosen = [word for part in parts for word in ("--group", part)]
        source = [] if name in {"uv.txt", "bench.txt"} else ["pyproject.toml"]
        tool(session, *compile_, *source, *chosen, "--output-file", str(LOCKS / name))
