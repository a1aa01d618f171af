"""`python3 noxfile.py` takes the arguments of nox, and needs nothing: it sets up the tools."""

from __future__ import annotations

import compileall
import difflib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from itertools import takewhile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOOLS = HERE / ".tools"
LOCKS = HERE / "lockfiles" / "tools"
BIN = TOOLS / ("Scripts" if os.name == "nt" else "bin")
EXE = ".exe" if os.name == "nt" else ""
STAMP = "complete.stamp"
OLD = HERE / ".tools-old"  # the tools that are being replaced
AGAIN = 75  # exit code of nox: the tools for development have to be added, from outside of them
# What is set up for them at once: all sessions below, but not those of targets.
DEVELOPERS = {
    "attacks",
    "audit",
    "bench",
    "browser",
    "coverage",
    "docker",
    "docs",
    "faults",
    "fleet",
    "lint",
    "pages",
    "pictures",
    "profiles",
    "release",
    "tests",
    "update-tools",
    "wine",
}
# The settings of pip that decide what can be reached; any other (target, user, dry-run …) would
# break the set-up or change it. With each the variable that uv has for it, as it reads no pip
# configuration (https://docs.astral.sh/uv/pip/compatibility/); for no-index it has only an option.
NETWORK = {
    "index-url": "UV_DEFAULT_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
    "trusted-host": "UV_INSECURE_HOST",
    "client-cert": "SSL_CLIENT_CERT",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
}
OWN = (
    "NETRC",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
)

# They are the caller's Python's, and would reach every program that a session starts.
for variable in [name for name in os.environ if name.upper().startswith("PYTHON")]:
    del os.environ[variable]


def ensure_tools(*, dev: bool = False) -> None:
    """Install the locked tools into ``.tools``, unless they are there already.

    They are made under another name and renamed, so ``.tools`` is complete or absent. One process
    at a time makes them; what a killed one has left is removed by the next.

    Args:
        dev: Also those of tests and lint, which takes longer.

    Raises:
        SystemExit: They cannot be installed (3), or not by a program that runs in them (75).
    """
    wanted = LOCKS / ("dev.txt" if dev else "requirements.txt")
    if is_ready(wanted):
        return
    if Path(sys.prefix).resolve() == TOOLS:
        sys.stderr.write(
            "the tools for development are absent; `python3 noxfile.py` adds them\n"
        )
        raise SystemExit(AGAIN)
    sys.path.insert(0, str(HERE))  # these modules need nothing but Python
    from provision.core.errors import ProvisionError  # noqa: PLC0415
    from provision.core.locking import folder_lock  # noqa: PLC0415

    def waiting() -> None:
        sys.stderr.write(
            f"another process is setting up {TOOLS.name}; waiting for it …\n"
        )

    try:
        with folder_lock(HERE / ".cache" / "tools", waiting) as lock:
            if not is_ready(wanted):
                source = wanted.relative_to(HERE)
                sys.stderr.write(
                    f"setting up the tools in {TOOLS.name} from {source} …\n"
                )
                replace_tools(wanted, lock)
    except (ProvisionError, OSError) as error:
        sys.stderr.write(f"error: could not set up {TOOLS}\n")
        parts = (
            vars(error)
            if isinstance(error, ProvisionError)
            else {"evidence": str(error)}
        )
        for name, text in parts.items():
            sys.stderr.write(f"  {name + ':':<10}{text}\n" if text else "")
        raise SystemExit(3) from None


def is_ready(wanted: Path) -> bool:
    """Whether the tools of a lock are installed."""
    # dev.txt contains all of requirements.txt, so with it both requests are met.
    accepted = [digest(lock) for lock in (LOCKS / "dev.txt", wanted)]
    stamp = TOOLS / STAMP
    # An upgrade of the system can remove the Python that the environment was made from.
    found = stamp.read_text(encoding="utf-8") if stamp.is_file() else ""
    return found in accepted and (BIN / f"python{EXE}").exists()


def digest(lock: Path) -> str:
    """Return the SHA-256 of a lock."""
    return hashlib.sha256(lock.read_bytes()).hexdigest()


def replace_tools(wanted: Path, lock: int) -> None:
    """Make the tools of a lock in a new folder, then put that in the place of ``.tools``.

    Args:
        wanted: The lock.
        lock: File descriptor of the lock that is held. The programs that are started inherit it,
            so that they end before another process begins, even if this one is killed.
    """
    if OLD.exists() and not TOOLS.exists():  # killed between the two renames
        OLD.rename(TOOLS)
    for left in (OLD, *HERE.glob(".tools-new-*")):
        shutil.rmtree(left, ignore_errors=True)
    # Not this folder itself, which is its owner's alone, but one inside.
    with tempfile.TemporaryDirectory(prefix=".tools-new-", dir=HERE) as scratch:
        made = Path(scratch, "tools")
        make_tools(made, wanted, lock)
        if TOOLS.exists():
            TOOLS.rename(OLD)
        made.rename(TOOLS)
    shutil.rmtree(OLD, ignore_errors=True)


def make_tools(made: Path, wanted: Path, lock: int) -> None:
    """Make an environment with the tools of a lock, which works in any place."""
    from provision.core.process import run  # noqa: PLC0415

    pip, uv = settings()
    local, usual = [], "check the network"
    if pip.get("PIP_NO_INDEX", "0").lower() in {"1", "true", "on"}:
        local = ["--no-index"]
        links = pip.get("PIP_FIND_LINKS", "what find-links names")
        usual = f"copy the files of {links} again: no index is asked"

    def call(
        *argv: str | Path, env: dict[str, str] | None = None, remedy: str = usual
    ) -> None:
        run(argv, env=uv if env is None else env, pass_fds=(lock,)).require(
            f"could not set up {TOOLS.name}", remedy=remedy, offline=remedy
        )

    program = BIN / f"uv{EXE}"
    if not (TOOLS / STAMP).is_file() or not has_uv(program):
        # pip installs uv alone: it is the only installer that a fresh Python has. uv does the rest
        # in a tenth of pip's time.
        seed = made.with_name("seed")
        python = Path(sys.executable)
        if run([python, "-I", "-m", "pip", "--version"], env=pip).returncode:
            need = "install what makes environments: python3-venv on Debian and Ubuntu"
            call(python, "-I", "-m", "venv", seed, env=pip, remedy=need)
            python = seed / BIN.name / f"python{EXE}"
        call(
            python,
            "-I",
            "-m",
            "pip",
            "install",
            "-qq",
            "--disable-pip-version-check",
            "--no-deps",
            "--require-hashes",
            "-r",
            LOCKS / "uv.txt",
            "--target",
            seed / "uv",
            env=pip,
        )
        program = seed / "uv" / "bin" / f"uv{EXE}"
    call(
        program,
        "venv",
        "--quiet",
        "--no-config",
        "--no-project",
        "--relocatable",
        "--python",
        sys.executable,
        made,
    )
    python = made / BIN.name / f"python{EXE}"
    install: list[str | Path] = [
        program,
        "pip",
        "install",
        "--quiet",
        "--no-config",
        "--no-deps",
        "--python",
        python,
    ]
    if wanted.name != "dev.txt":  # of whose 4,600 modules a session imports a quarter
        install += ["--compile-bytecode"]
    call(*install, *local, "--require-hashes", "-r", wanted)
    # The backend that pyproject.toml names is one of the tools, so this needs no network.
    call(*install, "--offline", "--no-build-isolation", "-e", HERE)
    # The absolute path that hatchling wrote is UTF-8, which Python 3.11 and 3.12 read in the
    # encoding of the locale; a relative one is the same in both, whatever letters lead here.
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(made)}))
    above = os.path.relpath(HERE, TOOLS / site.relative_to(made))
    (site / "_provision_torch.pth").write_text(f"{above}\n", encoding="utf-8")
    isolate(made / BIN.name)
    (made / STAMP).write_text(digest(wanted), encoding="utf-8")


def has_uv(program: Path) -> bool:
    """Whether a uv is the locked one, so that no other has to be fetched."""
    from provision.core.process import run  # noqa: PLC0415

    locked = re.search(
        r"^uv==(\S+)", (LOCKS / "uv.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    words = run([program, "--version"]).stdout.split() if program.is_file() else []
    return locked is not None and words[1:2] == [locked[1]]


def isolate(programs: Path) -> None:
    """Let the scripts of a folder start Python isolated: ``PYTHON*`` is for other programs.

    Not those of Windows, whose launchers give Python no option; ``provision.cli.isolated`` helps
    there.
    """
    for script in programs.iterdir():
        text = script.read_bytes() if script.is_file() and os.name == "posix" else b""
        if text.startswith(b"#!/bin/sh\n'''exec'"):  # as uv writes it
            script.write_bytes(text.replace(b'"$0" "$@"', b'-I "$0" "$@"', 1))


def settings() -> tuple[dict[str, str], dict[str, str]]:
    """Return the environments of pip and uv: the user's settings for networks, and no others.

    Raises:
        ProvisionError: A configuration file of pip cannot be read.
    """
    from provision.artifacts.pip_config import pip_settings  # noqa: PLC0415
    from provision.core.process import clean_environment  # noqa: PLC0415

    own = {name: os.environ[name] for name in OWN if name in os.environ}
    found = {
        key: value for key, value in pip_settings(os.environ).items() if key in NETWORK
    }
    pip = {
        f"PIP_{key.replace('-', '_').upper()}": value for key, value in found.items()
    }
    uv = {NETWORK[key]: value for key, value in found.items() if NETWORK[key]}
    if links := uv.get("UV_FIND_LINKS"):
        uv["UV_FIND_LINKS"] = ",".join(links.split())
    # The file of pip would add its other settings.
    pip |= {"PIP_CONFIG_FILE": os.devnull}
    return clean_environment(extra=own | pip), clean_environment(extra=own | uv)


def main() -> int:
    """Run nox from ``.tools`` with this command's arguments."""
    argv = [
        str(BIN / f"python{EXE}"),
        "-I",
        "-m",
        "nox",
        "-f",
        str(Path(__file__)),
        *sys.argv[1:],
    ]
    sessions = takewhile(lambda word: word != "--", sys.argv[1:])
    try:
        ensure_tools(dev=not DEVELOPERS.isdisjoint(sessions))
        code = subprocess.run(argv, check=False).returncode
        if code == AGAIN:
            ensure_tools(dev=True)
            code = subprocess.run(argv, check=False).returncode
    except KeyboardInterrupt:
        return 130
    return code


if __name__ == "__main__":
    raise SystemExit(main())

import nox  # noqa: E402 - absent when this file is run as a script, which ends above

sys.path.insert(0, str(HERE))  # where another nox than that of .tools runs this file
from provision.sessions import add_sessions, listed  # noqa: E402


def with_tools() -> str:
    """Return the Python of ``.tools``, which has what every verb needs."""
    ensure_tools()
    return str(BIN / f"python{EXE}")


def refuse_unknown(known: set[str]) -> None:
    """Name the sessions that are near one of a target which there is not."""
    for word in takewhile(lambda word: word != "--", sys.argv[1:]):
        verb = word.partition("-")[0]
        if (
            word != verb
            and word not in known
            and any(name.startswith(f"{verb}-") for name in known)
        ):
            near = " or ".join(difflib.get_close_matches(word, known, 3, 0.4))
            sys.stderr.write(
                f"no session {word}: {near}? `nox -l -t {verb}` lists them\n"
            )
            raise SystemExit(3)


OF_A_PROJECT = add_sessions(__file__, with_tools)
refuse_unknown(OF_A_PROJECT)


def developers(function: Callable[[nox.Session], None]) -> object:
    """Make a session, unless `nox -l -t VERB` lists those of targets."""
    name = function.__name__.replace("_", "-")
    return function if listed(sys.argv[1:]) else nox.session(name=name)(function)


def engine(function: Callable[[nox.Session], None]) -> object:
    """Make a session that a script in .ci calls: the short list of `nox -l` leaves it out."""
    return function if listed(sys.argv[1:]) is not None else nox.session(function)


def tool(session: nox.Session, *words: str, **env: str) -> None:
    """Run a developer's tool from ``.tools``."""
    ensure_tools(dev=True)
    session.run(str(BIN / f"python{EXE}"), "-m", *words, env=env, external=True)


# Two more than cores: many tests wait for time limits, programs and dead servers.
WORKERS = str((os.cpu_count() or 1) + 2)


def build_for_tests(session: nox.Session) -> None:
    """Build cpu-linux, whose torch tests use; the tests of the checks prove it."""
    provision = str(BIN / f"provision{EXE}")
    session.run(provision, "build", "cpu-linux", "--no-smoke", external=True)


def compile_torch(prefix: Path) -> subprocess.Popen[bytes] | None:
    """Start to compile torch, which else each of the first processes that import it would do."""
    if any(prefix.glob("lib/python3*/site-packages/torch/__pycache__/__init__.*.pyc")):
        return None
    code = "import accelerate, torch._dynamo, transformers"
    return subprocess.Popen([prefix / "bin" / "python", "-I", "-c", code])


def run_tests(session: nox.Session, *runner: str) -> None:
    """Run the tests, in the processes of a runner where one is given."""
    ensure_tools(dev=True)
    # The asserts of all tests are rewritten once, beside the build, and not in each process. They
    # are kept as bytecode, whatever the caller's variable says.
    bytecode = {"PYTHONDONTWRITEBYTECODE": ""}
    files = sorted(str(path) for path in (HERE / "tests").rglob("test_*.py"))
    with ExitStack() as stack:
        for half in (files[::2], files[1::2]):
            rewriting = [
                str(BIN / f"python{EXE}"),
                "-m",
                "pytest",
                "--collect-only",
                "-q",
            ]
            process = subprocess.Popen(
                [*rewriting, *half],
                cwd=HERE,
                env=os.environ | bytecode,
                stdout=subprocess.DEVNULL,
            )
            stack.enter_context(process)
        build_for_tests(session)
        # The processes of the checks write no bytecode, and each would compile these anew.
        for folder in (HERE / "smoke", HERE / "tests" / "smoke"):
            compileall.compile_dir(folder, quiet=2)
    # Sessions of their own.
    others = (
        "attack",
        "browser",
        "docker",
        "faults",
        "fleet",
        "pages",
        "profiles",
        "release",
        "slow",
        "wine",
    )
    chosen = session.posargs or ["-m", " and ".join(f"not {name}" for name in others)]
    prefix = HERE / ".envs" / "cpu-linux" / "current"
    # A file stays in one process, so that an expensive fixture of a module is set up once. Not
    # `loadgroup`: xdist 3.8 with pytest 9.2 ignores its groups. In the order of tests/conftest.py:
    # xdist's own puts the files with few tests last, and those take longest here.
    parallel = ["-n", WORKERS, "--dist", "loadfile", "--no-loadscope-reorder"]
    with compile_torch(prefix) or nullcontext():
        built = {"PROVISION_TEST_ENV": str(prefix)}
        tool(session, *runner, "pytest", *parallel, *chosen, **built, **bytecode)


@developers
def tests(session: nox.Session) -> None:
    """Run the tests, with the built cpu-linux environment; arguments go to pytest."""
    run_tests(session)


@developers
def coverage(session: nox.Session) -> None:
    """Run the tests, a third slower, and report the lines that none of them reached."""
    ensure_tools(dev=True)
    tool(session, "coverage", "erase")
    run_tests(session, "coverage", "run", "-m")
    tool(session, "coverage", "combine", "--quiet")
    tool(session, "coverage", "report")


@developers
def faults(session: nox.Session) -> None:
    """Kill real builds and verbs beside a program, fill disks, stop servers."""
    chosen = ["-m", "faults and not attack"]
    tool(session, "pytest", *chosen, *session.posargs)


@developers
def attacks(session: nox.Session) -> None:
    """Try every known attack, 2,000 damaged files, 60,000 hostile inputs and 200 kills."""
    # Each kind of damage and each verb is a test, and takes long: one file may use all processes.
    tool(
        session,
        "pytest",
        "-n",
        WORKERS,
        "--dist",
        "worksteal",
        "-v",
        "-m",
        "attack",
        *session.posargs,
        PROVISION_FUZZ="2000",
        PROVISION_READERS="10000",
        PROVISION_KILLS="200",
        PROVISION_POINTS="8",
    )


@developers
def profiles(session: nox.Session) -> None:
    """Prove every GPU target on its device profiles; find every fault; run the full suite."""
    ensure_tools(dev=True)
    build_for_tests(session)
    built = {"PROVISION_TEST_ENV": str(HERE / ".envs" / "cpu-linux" / "current")}
    tool(session, "pytest", "-m", "profiles", *session.posargs, **built)


@engine
def docker(session: nox.Session) -> None:
    """Run the tests of images in a real engine, which `.ci/engine` prepares."""
    tool(session, "pytest", "-m", "docker", "tests/image", *session.posargs)


@engine
def wine(session: nox.Session) -> None:
    """Run the tests of Windows under Wine; `.ci/wine` makes what they need and calls this."""
    tool(session, "pytest", "-m", "wine", "tests/wine", *session.posargs)


@developers
def bench(session: nox.Session) -> None:
    """Measure against other tools; after --: subjects (build, lock …) and --rounds N."""
    ensure_tools(dev=True)
    # The tools to compare with stay out of .tools, whose start-up is measured.
    python = apart(session, "bench")
    tool(session, "benchmarks", "--tools", python, *session.posargs)


@engine
def fleet(session: nox.Session) -> None:
    """Run the tests of fleets under Ansible and Slurm, which `.ci/fleet` prepares."""
    ensure_tools(dev=True)
    build_for_tests(session)
    tool(
        session,
        "pytest",
        "-m",
        "fleet",
        "tests/fleet",
        *session.posargs,
        PROVISION_FLEET_TOOLS=str(Path(apart(session, "fleet")).parent),
        PROVISION_TEST_ENV=str(HERE / ".envs" / "cpu-linux" / "current"),
    )


def apart(session: nox.Session, name: str) -> str:
    """Return the Python of an environment with the tools of a lock of its own."""
    prefix = HERE / ".cache" / name
    python = str(prefix / BIN.name / f"python{EXE}")
    prefix.parent.mkdir(exist_ok=True)
    uv = [str(BIN / f"uv{EXE}")]
    session.run(
        *uv, "venv", "--quiet", "--no-config", "--clear", str(prefix), external=True
    )
    session.run(
        *uv,
        "pip",
        "sync",
        "--quiet",
        "--no-config",
        "--require-hashes",
        "--python",
        python,
        str(LOCKS / f"{name}.txt"),
        external=True,
    )
    return python


@developers
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


@developers
def docs(session: nox.Session) -> None:
    """Make what docs/ has from the code, and the site in .cache/site; a warning is a failure."""
    ensure_tools(dev=True)
    for script in sorted((HERE / "docs").glob("draw_*.py")):
        session.run(str(BIN / f"python{EXE}"), str(script), external=True)
    tool(session, "mkdocs", "build", "--strict", NO_MKDOCS_2_WARNING="1")


@developers
def pages(session: nox.Session) -> None:
    """Run the commands that README, pages and `--help` show, and read the site as its visitors do."""
    chosen = ["-m", "pages and not browser and not slow"]
    tool(session, "pytest", *chosen, *session.posargs)


@engine
def pictures(session: nox.Session) -> None:
    """Make the pictures of docs/ again: real verbs in a terminal, a report in Chromium."""
    ensure_tools(dev=True)
    script = str(HERE / "docs" / "record_pictures.py")
    session.run(
        str(BIN / f"python{EXE}"), script, apart(session, "pictures"), external=True
    )


@engine
def browser(session: nox.Session) -> None:
    """Check every page of the site with axe, light and dark, in a Chromium that is on PATH."""
    ensure_tools(dev=True)
    # The one wheel that has a current axe-core, without the browsers' driver that it requires.
    axe = HERE / ".cache" / "axe"
    session.run(
        str(BIN / f"uv{EXE}"),
        "pip",
        "install",
        "--quiet",
        "--no-config",
        "--no-deps",
        "--require-hashes",
        "--target",
        str(axe),
        "-r",
        str(LOCKS / "axe.txt"),
        external=True,
    )
    script = axe / "axe_playwright_python" / "axe.min.js"
    tool(
        session,
        "pytest",
        "-n",
        "2",
        "-m",
        "browser",
        "tests/test_site.py",
        *session.posargs,
        PROVISION_AXE=str(script),
    )


@developers
def release(session: nox.Session) -> None:
    """Build what is published twice, into dist/, list its parts, and try it in every Python."""
    ensure_tools(dev=True)
    judge = apart(session, "release")
    tool(session, "release", judge)
    made = sorted(map(str, (HERE / "dist").glob("provision_*.[wt]*")))
    session.run(judge, "-m", "twine", "check", "--strict", *made, external=True)
    wheel = str(next((HERE / "dist").glob("provision_torch-*.whl")))
    tool(
        session,
        "pytest",
        "-m",
        "release",
        "tests/test_tool.py",
        *session.posargs,
        PROVISION_WHEEL=wheel,
    )


@developers
def audit(session: nox.Session) -> None:
    """Look up the known vulnerabilities of every lock, or of the targets after --.

    A package that the service does not know is a failure: it was not checked. What a spec accepts
    until a day, in [[pip.accepted]], is none.
    """
    ensure_tools(dev=True)
    session.run(
        str(BIN / f"provision{EXE}"),
        "outdated",
        "--audit",
        *session.posargs,
        external=True,
    )
    if not session.posargs:  # the toolkit's own tools, which have no spec
        tool(
            session,
            "pip_audit",
            "--strict",
            "--disable-pip",
            "--no-deps",
            "--progress-spinner",
            "off",
            "--requirement",
            str(LOCKS / "dev.txt"),
        )


@developers
def update_tools(session: nox.Session) -> None:
    """Lock the toolkit's own tools again, for every platform."""
    compile_ = [
        "uv",
        "pip",
        "compile",
        "--universal",
        "--generate-hashes",
        "--quiet",
        "--upgrade",
        "--no-config",
        "--python-version",
        "3.11",
        "--custom-compile-command",
        "nox -s update-tools",
    ]
    separate = {
        f"{name}.txt": [name]
        for name in ("axe", "bench", "fleet", "pictures", "release")
    }
    groups = {
        "uv.txt": ["uv"],
        "dev.txt": ["tools", "dev"],
        "requirements.txt": ["tools"],
        "runtime.txt": ["runtime"],
    }
    for name, parts in (groups | separate).items():
        chosen = [word for part in parts for word in ("--group", part)]
        source = [] if name == "uv.txt" or name in separate else ["pyproject.toml"]
        if name == "axe.txt":
            source += ["--no-deps"]
        if name in {"requirements.txt", "runtime.txt"}:  # parts of dev.txt
            source += ["--constraint", str(LOCKS / "dev.txt")]
        tool(session, *compile_, *source, *chosen, "--output-file", str(LOCKS / name))
