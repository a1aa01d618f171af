"""The targets that remedies name: one for each use of a machine, by platform."""

# Use -> platform -> target of envs/. A use is an accelerator, or ipex-llm with its old IPEX.
TARGETS = {
    "cpu": {
        "linux-64": "cpu-linux",
        "linux-aarch64": "cpu-linux-aarch64",
        "win-64": "cpu-windows",
    },
    "cuda": {
        "linux-64": "cuda-linux",
        "linux-aarch64": "cuda-linux-aarch64",
        "win-64": "cuda-windows",
    },
    "xpu": {"linux-64": "arc-linux", "win-64": "arc-windows"},
    "mps": {"osx-arm64": "mps-macos"},
    "ipex-llm": {"linux-64": "ipex-llm-linux", "win-64": "ipex-llm-windows"},
}


def build_command(use: str, platform: str) -> str:
    """Return the command that builds the target of a use, or the one that finds a target."""
    target = TARGETS.get(use, {}).get(platform)
    if target is None:
        return "`provision detect`, which names the target for this machine"
    return f"`provision build {target}`"
