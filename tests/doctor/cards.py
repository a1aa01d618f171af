"""Two GPUs, as this machine might have them."""

from provision.host.model import Driver, Gpu

ARC = Gpu(
    "intel",
    "56a0",
    "Arc A770",
    "0000:03:00.0",
    "dg2",
    supported=True,
    integrated=False,
    driver=Driver("i915"),
)
RTX = Gpu(
    "nvidia",
    "2204",
    "RTX 3090",
    "0000:01:00.0",
    "ampere",
    supported=True,
    integrated=False,
    compute_capability="8.6",
    driver=Driver("nvidia", "580.95.05"),
)
