"""Attacks on what a build made and on what it is made from: each is found, and mended."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import marshal
import os
import shutil
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.artifacts.wheel_records import remote_records, wheel_record
from provision.commands.build_request import ready_generation
from provision.commands.generations import EDITED, rollback
from provision.commands.repair import repair
from provision.commands.verify import verify_current
from provision.core.errors import ToolError, UsageError
from provision.core.filesystem import read_link
from provision.core.process import environment_python, run
from provision.core.project import CURRENT, RECORD
from provision.environment import interpreter
from provision.environment.manifest import (
    current_generation,
    mark_proof,
    read_generation,
)
from provision.environment.seal import beside
from provision.lockfile.pip import read_lock
from tests.lab import open_lab
from tests.small import PYTHON, TARGET, artifact, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable

    from provision.environment.verification import Verification
    from tests.lab import Lab

pytestmark = pytest.mark.machine


def look(lab: Lab, *, deep: bool = True) -> Verification:
    return verify_current(lab.project, TARGET, deep=deep)


def codes(lab: Lab, *, deep: bool = True) -> set[str]:
    findings = look(lab, deep=deep).findings
    return {finding.code for finding in findings}


def mend(lab: Lab) -> None:
    repaired = repair(look(lab), lab.order(), run, lab.listener)
    assert repaired.generation
    assert codes(lab) == set()
    assert lab.says("import alpha; print(alpha.version)") == "1.0"


def prefix(lab: Lab) -> Path:
    return (lab.home / CURRENT).resolve()


def site(lab: Lab) -> Path:
    (found,) = prefix(lab).rglob("site-packages")
    return found


def edit_with_record(file: Path, info: Path, text: str = "version = 'evil'\n") -> None:
    """Edit a file of a wheel and its line in RECORD, as a careful enemy does."""
    file.write_text(text)
    digest = hashlib.sha256(text.encode()).digest()
    encoded = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    record = info / "RECORD"
    lines = []
    for line in record.read_text().splitlines():
        path, _, recorded = line.partition(",")
        if path.split("/")[-1] == file.name:
            recorded = f"sha256={encoded},{len(text)}"
        lines.append(f"{path},{recorded}\n")
    record.write_text("".join(lines))


def edit_alpha(folder: Path) -> None:
    edit_with_record(folder / "alpha.py", folder / "alpha-1.0.dist-info")


def test_a_fresh_and_a_used_environment_have_no_finding(lab: Lab) -> None:
    lab.build()
    assert codes(lab) == set()
    assert codes(lab, deep=False) == set()
    python = environment_python(prefix(lab))
    for levels in ([], ["-O"], ["-OO"]):  # Python writes bytecode of each
        run([python, *levels, "-c", "import alpha"])
    bytecode = list(site(lab).rglob("*.pyc"))
    assert len(bytecode) == 3
    assert codes(lab) == set()


def test_attack_a_file_edited_together_with_its_record(lab: Lab) -> None:
    lab.build()
    edit_alpha(site(lab))
    found = look(lab)
    (finding,) = found.findings
    assert finding.code == "foreign-record"
    assert found.drifted == ("alpha",)
    mend(lab)


def test_attack_verify_runs_no_python_that_was_replaced(ready: Lab) -> None:
    python = environment_python(prefix(ready))
    run([python, "-c", "import alpha"])  # its bytecode would be compared
    ran = ready.project.root / "ran"
    python.unlink()
    python.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
    python.chmod(0o755)
    assert codes(ready) == {"changed-prefix", "changed-interpreter"}
    assert not ran.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="its programs are in Scripts")
def test_programs_that_are_gone_are_found_without_a_hash_and_the_interpreter_first(
    ready: Lab,
) -> None:
    shutil.rmtree(prefix(ready) / "bin")
    for deep in (False, True):
        first, *_ = look(ready, deep=deep).findings
        assert first.code == "changed-interpreter"
        assert first.symptom.endswith(" is gone")


def _poison_cache(lab: Lab) -> None:
    cache = lab.project.root.parent / "cache"
    (module,) = cache.rglob("alpha.py")
    edit_alpha(module.parent)
    shutil.rmtree(lab.home)


def test_attack_a_cache_with_file_and_record_edited_does_not_build(lab: Lab) -> None:
    lab.build()
    _poison_cache(lab)
    lab.index.asked.clear()
    assert lab.build().generation is not None
    assert lab.says("import alpha; print(alpha.version)") == "1.0"
    wheels = [path for path in lab.index.asked if path.endswith(".whl")]
    assert wheels == ["/default/alpha-1.0-py3-none-any.whl"]
    assert codes(lab) == set()


def _add_program(lab: Lab) -> None:
    _stray_program(prefix(lab))


def _system_site(lab: Lab) -> None:
    path = prefix(lab) / "pyvenv.cfg"
    text = path.read_text()
    path.write_text(text.replace("site-packages = false", "site-packages = true"))


def _edit_launcher(lab: Lab) -> None:
    path = prefix(lab) / "bin" / "tool"
    info = site(lab) / "tool-1.0.dist-info"
    edit_with_record(path, info, path.read_text() + "import evil\n")


def _drop_seal(lab: Lab) -> None:
    _no_seal(prefix(lab))


def test_attack_the_environment_itself_edited(lab: Lab) -> None:
    entry = {
        "tool.py": "def main(): print('tool')\n",
        "tool-1.0.dist-info/entry_points.txt": "[console_scripts]\ntool = tool:main\n",
    }
    folder = lab.index.root / "default"
    tool = make_wheel(folder, "tool", "1.0", entry)
    lab.relock(*lab.wheels, tool)
    lab.build()
    for attack, code, named in (
        (_add_program, "changed-prefix", "bin/git"),
        (_edit_launcher, "changed-prefix", "bin/tool"),
        (_system_site, "changed-prefix", "pyvenv.cfg"),
        (_drop_seal, "unsealed", ".seals/"),
    ):
        launcher = prefix(lab) / "bin" / "tool"
        assert run([launcher]).stdout == "tool\n"
        attack(lab)
        assert code in codes(lab, deep=False)
        findings = look(lab).findings
        (finding,) = [found for found in findings if found.code == code]
        assert named in "\n".join(finding.evidence)
        mend(lab)
    python = prefix(lab) / "bin" / "python"
    python.unlink()
    python.symlink_to("/bin/sh")
    assert "changed-prefix" in codes(lab, deep=False)


def test_attack_an_edited_manifest_is_not_sealed_again(lab: Lab) -> None:
    lab.build(smoke=False)
    _edited_manifest(prefix(lab))
    now = current_generation(lab.home)
    assert now is not None
    mark_proof(now, "proven", "")
    assert "changed-prefix" in codes(lab)


def test_attack_a_wheel_that_replaces_files_of_the_environment(lab: Lab) -> None:
    wheels = lab.wheels
    folder = lab.index.root / "default"
    for place, name in (("data", "pyvenv.cfg"), ("scripts", "activate")):
        files = {"evil.py": "", f"evil-1.0.data/{place}/{name}": "home = /tmp\n"}
        evil = make_wheel(folder, "evil", "1.0", files)
        lab.relock(*wheels, evil)
        with pytest.raises(ToolError, match="of the environment itself") as caught:
            lab.build()
        assert name in caught.value.what
        assert lab.left() == []


def _pyc(source: Path, code: str, flags: int) -> Path:
    """Write bytecode that Python takes for that of a source."""
    path = str(source)
    cache = Path(importlib.util.cache_from_source(path))
    cache.parent.mkdir(exist_ok=True)
    kind = struct.pack("<I", flags)
    checked = b"\0" * 8
    if not flags:
        state = source.stat()
        checked = struct.pack("<II", int(state.st_mtime), state.st_size)
    compiled = compile(code, path, "exec")
    header = importlib.util.MAGIC_NUMBER + kind + checked
    cache.write_bytes(header + marshal.dumps(compiled))
    return cache


def test_attack_bytecode_of_another_source_or_of_none(lab: Lab) -> None:
    lab.build()
    source = site(lab) / "alpha.py"
    for flags in (0, 1):  # by time, and unchecked
        cache = _pyc(source, "version = 'evil'", flags)
        # Python believes it.
        assert lab.says("import alpha; print(alpha.version)") == "evil"
        (finding,) = look(lab).findings
        assert finding.code == "foreign-bytecode"
        assert finding.evidence == (f"__pycache__/{cache.name}",)
    # A name may be two lines.
    for name in ("ghost.cpython-311.pyc", "a\nb.cpython-311.pyc"):
        ghost = cache.with_name(name)
        ghost.write_bytes(b"garbage")
    (finding,) = look(lab).findings
    assert len(finding.evidence) == 3
    mend(lab)


def test_bytecode_of_other_tools_is_no_finding(lab: Lab) -> None:
    lab.build()
    folder = site(lab) / "__pycache__"
    folder.mkdir()
    for name in ("alpha.cpython-311-pytest-9.0.pyc", "alpha.f-1.py311.nbi"):
        (folder / name).write_bytes(b"theirs")
    (folder / "alpha.cpython-39.pyc").write_bytes(b"of another Python")
    (folder / "dangling.cpython-311.pyc").symlink_to("nowhere")
    assert codes(lab) == set()


def _outside(lab: Lab) -> None:
    outside = lab.project.root.parent / "outside"
    shutil.copytree(prefix(lab), outside, symlinks=True)
    current = lab.home / CURRENT
    current.unlink()
    current.symlink_to(outside)


def _link_to_a_link(lab: Lab) -> None:
    folder = prefix(lab)
    moved = folder.rename(lab.project.root.parent / "moved")
    folder.symlink_to(moved)


@pytest.mark.parametrize("attack", [_outside, _link_to_a_link])
def test_attack_current_points_elsewhere(
    lab: Lab, attack: Callable[[Lab], None]
) -> None:
    lab.build()
    attack(lab)
    current = lab.home / CURRENT
    assert read_link(current) is None
    assert current_generation(lab.home) is None
    built = lab.build().generation
    assert built is not None
    assert current.readlink() == Path(built.folder.name)
    folder = built.folder.resolve()
    assert folder.parent == lab.home.resolve()


def test_attack_an_edit_that_other_generations_share(lab: Lab) -> None:
    lab.build()
    first = prefix(lab)
    lab.relock(*lab.wheels, lab.wheel("gamma"))
    lab.build()
    module = site(lab) / "alpha.py"
    (of_first,) = first.rglob("alpha.py")
    assert module.samefile(of_first)
    state = module.stat()
    text = module.read_text()
    module.write_text(text.replace("1.0", "6.6"))
    as_before = (state.st_atime_ns, state.st_mtime_ns)
    os.utime(module, ns=as_before)
    mend(lab)
    assert first.name in "\n".join(lab.listener.notes)
    other = read_generation(first)
    assert other is not None
    assert other.record.proof == "unproven"
    assert other.record.reason == EDITED
    repaired = prefix(lab)
    with pytest.raises(UsageError, match="no earlier generation"):
        rollback(lab.project, TARGET, lab.listener)
    assert f"{first.name} is left out: {EDITED}" in lab.listener.notes
    assert prefix(lab) == repaired


def _edited_module(folder: Path) -> None:
    (module,) = folder.rglob("alpha.py")
    text = module.read_text().replace("1.0", "6.6")
    module.unlink()  # which other generations share
    module.write_text(text)


def _stray_module(folder: Path) -> None:
    (found,) = folder.rglob("site-packages")
    module = found / "sitecustomize.py"
    module.touch()


def _stray_program(folder: Path) -> None:
    program = folder / "bin" / "git"
    program.write_text("#!/bin/sh\n")


def _other_interpreter(folder: Path) -> None:
    python = folder / "bin" / "python"
    other = folder.parent / "other-python"
    other.write_text(f'#!/bin/sh\nexec {python.resolve()} "$@"\n')
    other.chmod(0o755)
    python.unlink()
    python.symlink_to(other)


def _edited_manifest(folder: Path) -> None:
    path = folder / RECORD
    text = path.read_text()
    path.write_text(text.replace('"tree": "', '"tree": "0'))


def _no_seal(folder: Path) -> None:
    beside(folder).unlink()


EDITS = (
    _edited_module,
    _stray_module,
    _stray_program,
    _other_interpreter,
    _edited_manifest,
    _no_seal,
)


def test_attack_rollback_to_an_edited_generation(lab: Lab) -> None:
    """It goes to the last one that is as it was built, whatever was edited in the others."""
    alpha, beta = lab.wheels
    folders = []
    for number in range(len(EDITS) + 2):
        gamma = lab.wheel("gamma", f"1.{number}")
        lab.relock(alpha, beta, gamma)
        lab.build()
        folders.append(prefix(lab))
    first, *edited, _last = folders
    for folder, edit in zip(edited, EDITS, strict=True):
        edit(folder)
    done = rollback(lab.project, TARGET, lab.listener)
    assert done.now.folder == first
    notes = [note for note in lab.listener.notes if EDITED in note]
    assert len(notes) == len(EDITS)
    assert prefix(lab) == first


@pytest.mark.parametrize("edit", EDITS)
def test_attack_an_edited_environment_is_not_up_to_date(
    lab: Lab, edit: Callable[[Path], None]
) -> None:
    lab.build()
    before = prefix(lab)
    edit(before)
    assert ready_generation(lab.order()) is None
    assert lab.build().generation is not None
    assert prefix(lab) != before
    assert codes(lab) == set()
    assert ready_generation(lab.order()) is not None


def test_what_has_another_time_is_hashed_once(lab: Lab) -> None:
    first = lab.build().generation
    (module,) = prefix(lab).rglob("alpha.py")
    module.touch()
    assert ready_generation(lab.order()) is None
    again = lab.build()
    assert again.generation == first
    assert again.plan is None
    assert again.report is None
    assert ready_generation(lab.order()) == first


DATA = {
    "thing.py": "",
    "thing-1.0.data/scripts/script": "#!python\nimport sys; print('script', sys.prefix)\n",
    "thing-1.0.data/scripts/shell": "#!/bin/sh\necho shell\n",
    "thing-1.0.data/data/share/thing.txt": "data\n",
    "thing-1.0.data/data/bin/data-program": "#!/bin/sh\n",
    "thing-1.0.data/data/lib/libthing.so": "library\n",
    f"thing-1.0.data/data/lib/python{PYTHON}/site-packages/late.py": "",
    "thing-1.0.data/headers/thing.h": "int thing;\n",
    "thing-1.0.data/purelib/pure.py": "",
    "thing-1.0.data/platlib/plat.py": "",
    "thing-1.0.dist-info/entry_points.txt": (
        "[console_scripts]\nrun-thing = thing:main\nOther.Case = thing:main [extra]\n"
        "[gui_scripts]\nshow-thing = thing:main\n[thing.plugins]\nnot-a-script = thing:main\n"
    ),
}


def test_the_tree_is_the_same_in_short_and_long_and_odd_paths(tmp_path: Path) -> None:
    trees = set()
    for name in ("with a space", "long" * 40):
        with open_lab(tmp_path / name) as lab:
            folder = lab.index.root / "default"
            thing = make_wheel(folder, "thing", "1.0", DATA)
            lab.relock(*lab.wheels, thing)
            built = lab.build().generation
            assert built is not None
            assert codes(lab) == set()
            script = prefix(lab) / "bin" / "script"
            assert "script" in run([script]).stdout
            trees.add(built.record.tree)
            text = script.read_text()
            script.write_text(text.replace("print", "exec"))
            found = codes(lab)
            assert {"changed-file", "foreign-record", "changed-prefix"} <= found
    assert len(trees) == 1


@pytest.mark.parametrize(("built", "seen"), [("link", "real"), ("real", "link")])
def test_a_project_is_the_same_by_a_link_to_it(
    tmp_path: Path, built: str, seen: str
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with open_lab(tmp_path / built) as lab:
        thing = make_wheel(lab.index.root / "default", "thing", "1.0", DATA)
        lab.relock(*lab.wheels, thing)
        made = lab.build().generation
        assert made is not None
        place = lab.project.root.relative_to(tmp_path / built)
        other = lab.project._replace(root=tmp_path / seen / place)
        found = verify_current(other, TARGET, deep=True)
        assert (found.findings, found.tree) == ((), made.record.tree)


def test_records_are_read_from_a_server_by_ranges(lab: Lab) -> None:
    wheel = lab.wheel("alpha", text="# much\n" * 40_000)
    locked = artifact(wheel)
    urls = {locked.sha256: f"{lab.index.url}/default/{wheel.name}"}
    lab.index.ranges.clear()
    found = remote_records([locked], urls, None)
    assert found == {locked.sha256: wheel_record(wheel)}
    asked = sum(stop - start for start, stop in lab.index.ranges)
    assert asked < locked.size // 2  # type: ignore[operator]
    for fault in (403, "truncate", "no-ranges"):
        lab.index.fault = fault
        assert remote_records([locked], urls, None) == {}


def _open_lock(lab: Lab) -> None:
    """Take the RECORDs out of the lock, as where a vendor's server could not be reached."""
    from provision.lockfile.pip import PIP_LAYER, sealed

    folder = lab.project.lock(TARGET)
    path = folder / PIP_LAYER
    lines = path.read_text().splitlines(keepends=True)
    without = [line for line in lines if "# record:" not in line]
    path.write_text(sealed("".join(without)))
    assert len(read_lock(folder).open) == 2


def test_attack_a_poisoned_cache_where_only_a_wheelhouse_knows_the_record(
    lab: Lab, tmp_path: Path
) -> None:
    _open_lock(lab)
    lab.build()
    _poison_cache(lab)
    house = tmp_path / "house"
    house.mkdir()
    for wheel in lab.wheels:
        shutil.copy(wheel, house)
    built = lab.build(wheelhouses=(house,), offline=True)
    assert built.generation is not None
    assert lab.says("import alpha; print(alpha.version)") == "1.0"


def test_attack_an_edited_record_that_the_lock_does_not_know(lab: Lab) -> None:
    _open_lock(lab)
    lab.build()
    notes = "\n".join(lab.listener.notes)
    assert "no RECORD is known of alpha, beta" in notes
    assert codes(lab) == set()
    edit_alpha(site(lab))
    assert codes(lab) == {"foreign-record"}  # the build kept the digest, outside of it


def test_attack_a_file_of_the_standard_library_edited(tmp_path: Path) -> None:
    base = tmp_path / "base"
    library = base / "lib" / "python3.11"
    module = library / "json" / "__init__.py"
    shared = base / "lib" / "libpython3.11.so.1.0"
    program = base / "bin" / "python3.11"
    for path in (library / "os.py", module, shared, program):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("content")
    env = tmp_path / "env"
    link = env / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(program)
    before = interpreter.read_interpreter(env, "3.11.9")
    cache = library / "__pycache__"
    cache.mkdir()
    bytecode = cache / "os.cpython-311.pyc"
    bytecode.write_text("bytecode")
    assert interpreter.read_interpreter(env, "3.11.9") == before
    for path, field in (
        (module, "stdlib"),
        (shared, "stdlib"),
        (program, "sha256"),
    ):
        path.write_text("edited")
        (finding,) = interpreter.interpreter_findings(env, before)
        assert field in finding.evidence[0]
        path.write_text("content")
    assert list(interpreter.interpreter_findings(env, before)) == []
    link.unlink()
    (finding,) = interpreter.interpreter_findings(env, before)
    assert finding.level == "error"


def test_a_spec_may_pin_the_exact_python_which_is_not_replaced(lab: Lab) -> None:
    path = lab.project.specs / f"{TARGET}.toml"
    text = path.read_text()
    wheels = lab.wheels

    def pin(version: str) -> None:
        pinned = text.replace(f'python = "{PYTHON}"', f'python = "{version}"')
        path.write_text(pinned)
        lab.relock(*wheels)

    pin(f"{PYTHON}.99")
    with pytest.raises(ToolError, match=rf"with Python {PYTHON}\.99"):
        lab.build()
    assert lab.left() == []
    major, minor, micro, *_ = sys.version_info
    exact = f"{major}.{minor}.{micro}"
    pin(exact)
    built = lab.build().generation
    assert built is not None
    assert built.record.python == exact
    assert codes(lab) == set()
