"""Programs of others read the archive that ``--oci`` writes: skopeo, and Apptainer as Debian has it.

``.ci/engine`` installs both. Grype and Syft, which Debian does not have, need an entry for each folder.
"""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from provision.core.process import run
from provision.ui.console import Console
from provision.ui.results import show_image

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.core.process import Completed
    from provision.image.docker import BuiltImage
    from provision.image.request import ImageRequest

    Tiny = tuple[ImageRequest, BuiltImage]

pytestmark = pytest.mark.docker

DEBIAN = Path(
    os.environ.get("PROVISION_TEST_APPTAINER")
    or Path.home() / ".cache/provision-apptainer"
)
# Enter the folder $1 as the root folder, with the folder $2 as /mnt. Apptainer refuses to start
# containers below a root folder that chroot has set.
ENTER = """
set -e
mount --rbind "$1" "$1"
mount --bind "$2" "$1/mnt"
cd "$1"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs tmpfs tmp
mount --rbind /dev dev
pivot_root . media
umount --lazy /media
shift 2
exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin apptainer "$@"
"""


@pytest.fixture(scope="module")
def layout(tiny: Tiny) -> Path:
    """The archive of the small image."""
    written = tiny[1].layout
    assert written is not None
    return written


def apptainer(folder: Path, *words: str) -> Completed:
    assert DEBIAN.is_dir(), f"{DEBIAN} does not exist: `.ci/engine` makes it"
    argv = ["unshare", "--mount", "sh", "-c", ENTER, "sh", DEBIAN, folder, *words]
    return run(argv, env=dict(os.environ))


def skopeo(*words: str) -> str:
    done = run(["skopeo", *words], env=dict(os.environ))
    return done.require("skopeo reads it", remedy="`.ci/engine` installs skopeo").stdout


def test_apptainer_builds_a_sif_file_and_runs_programs_in_it(layout: Path) -> None:
    source = f"oci-archive:/mnt/{layout.name}"
    folder = layout.parent
    built = apptainer(folder, "build", "--force", "/mnt/tiny.sif", source)
    built.require("Apptainer reads it")
    # Without --no-privs root gets all capabilities, of which a container of CI has not all.
    flags = ("--no-privs", "--contain", "/mnt/tiny.sif")
    code = "import alpha; print(sorted(alpha.x))"
    found = apptainer(folder, "exec", *flags, "python", "-c", code)
    assert found.stdout == "['a', 'b']\n", found.stderr
    proven = apptainer(folder, "run", *flags)  # the entry point, and the quick checks
    assert proven.returncode == 0, proven.stderr
    broken = apptainer(folder, "run", *flags, "false")
    assert broken.returncode == 1


def test_skopeo_copies_it_and_the_digest_stays(layout: Path, tmp_path: Path) -> None:
    copy = f"oci:{tmp_path / 'copy'}:tiny"
    # Without the flag it compresses the layers.
    skopeo("copy", "--quiet", "--preserve-digests", f"oci-archive:{layout}", copy)
    before = json.loads(skopeo("inspect", f"oci-archive:{layout}"))
    after = json.loads(skopeo("inspect", copy))
    assert after["Digest"] == before["Digest"]
    assert after["Labels"]["provision.target"] == "tiny"


def test_the_printed_digests_are_those_of_sha256sum_and_skopeo(
    tiny: Tiny, layout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_image(tiny[1], Console("provision"))
    printed = capsys.readouterr().out
    file_digest = run(["sha256sum", layout]).stdout.split()[0]
    image_digest = json.loads(skopeo("inspect", f"oci-archive:{layout}"))["Digest"]
    assert f"{layout} has SHA-256 {file_digest} (`sha256sum`)\n" in printed
    assert f"its image has digest {image_digest} (`skopeo inspect`)\n" in printed


def orphans(archive: tarfile.TarFile, seen: set[PurePosixPath]) -> Iterator[str]:
    """Yield each entry whose folder has no entry before it."""
    for entry in archive:
        path = PurePosixPath(entry.name)
        if path.parent not in seen:
            yield entry.name
        if entry.isdir():
            seen.add(path)


def test_each_entry_of_the_archive_and_of_its_layers_has_a_folder(layout: Path) -> None:
    root = PurePosixPath()
    with tarfile.open(layout) as archive:
        assert list(orphans(archive, {root})) == []
        (image,) = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
        folders = {root}  # of all layers up to this one
        for name in image["Layers"]:
            with tarfile.open(fileobj=archive.extractfile(name)) as layer:
                assert list(orphans(layer, folders)) == []
