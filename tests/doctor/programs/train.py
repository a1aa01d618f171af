"""sd-scripts in small: a device module that imports IPEX wherever it is installed."""

# ruff: noqa: T201

try:
    import intel_extension_for_pytorch  # noqa: F401
except Exception:  # noqa: BLE001 - as the original does
    print("no IPEX")
print("training")
