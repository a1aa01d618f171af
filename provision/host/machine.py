"""The input of a probe: a machine's files and environment variables, and the device catalog."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provision.catalog.devices import Devices
    from provision.host.model import User
    from provision.host.root import Root

_LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/lib",
    "usr/local/lib64",
    "usr/lib/wsl/lib",
)


@dataclass(frozen=True)
class Machine:
    """A Linux machine to probe: the running one, or a recorded one.

    Attributes:
        root: Its root folder.
        devices: The device catalog.
        environ: The environment variables to judge.
        user: Whose permissions to judge; None for those of this process.
    """

    root: Root
    devices: Devices
    environ: Mapping[str, str]
    user: User | None = None

    @cached_property
    def libraries(self) -> list[str]:
        """The file names in the system's library folders.

        Names, not a lookup through the loader: the versions are in them, and loading a GPU driver
        to ask it would take long, and can hang with the driver.
        """
        return [name for folder in _LIBRARY_FOLDERS for name in self.root.names(folder)]
