"""The context of the environment rules: everything that they may use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provision.host.model import host_layers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provision.catalog.devices import Devices
    from provision.doctor.caches import Cache
    from provision.doctor.environment import Environment
    from provision.doctor.libraries import MissingLibrary
    from provision.host.model import Gpu, Host
    from provision.spec.model import Target

# Distributions that decide, besides torch, whether an environment can use a device.
_SHOWN = ("intel-extension-for-pytorch", "ipex-llm", "torchvision",
            "torchaudio", "triton", "pytorch-triton-xpu", "transformers", "accelerate", "numpy",
            "xformers", "flash-attn", "bitsandbytes")  # fmt: skip


@dataclass(frozen=True, slots=True)
class DoctorContext:
    """The environment, the machine and the target, before any rule is applied.

    Attributes:
        env: The environment.
        host: The machine.
        devices: The device catalog.
        target: The target that it was built for; None for a foreign environment.
        assumed: Accelerator to judge the machine for, instead of the environment's own.
        missing: Native libraries that are imported and not found.
        elsewhere: Distributions on PYTHONPATH and in folders of ``.pth`` files, each with its
            folder.
        caches: Kernel caches of the user.
        driver_changed: When the GPU's user-mode driver was installed, in Unix time.
    """

    env: Environment
    host: Host
    devices: Devices
    target: Target | None = None
    assumed: str | None = None
    missing: tuple[MissingLibrary, ...] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    caches: tuple[Cache, ...] = ()
    driver_changed: float | None = None

    @property
    def accelerator(self) -> str:
        """The accelerator of the target, or else of the installed torch."""
        of_target = self.target.accelerator if self.target else None
        return self.assumed or of_target or self.env.accelerator

    def gpus(self, vendor: str) -> list[Gpu]:
        """Return the GPUs of a vendor."""
        return [gpu for gpu in self.host.gpus if gpu.vendor == vendor]

    @property
    def own_gpus(self) -> list[Gpu]:
        """The GPUs that the environment's accelerator is for."""
        return self.gpus({"cuda": "nvidia", "xpu": "intel"}.get(self.accelerator, "none"))

    def summary(self) -> dict[str, str]:
        """Return the versions of the environment and the layers of the machine, for display."""
        env = self.env
        built = (
            f"{env.torch.version}, built for {env.accelerator}" if env.torch else "not installed"
        )
        others = {name: found.version for name in _SHOWN if (found := env.get(name))}
        return {
            "Python": env.python or "of unknown version",
            "torch": built,
            **others,
            "distributions": str(len(env.distributions)),
            **host_layers(self.host),
        }
