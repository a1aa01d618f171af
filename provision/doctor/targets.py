"""The targets that remedies name: one for each use of a machine, by platform."""

import re

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

# Commands of remedies for any environment; a placeholder such as NAME==VERSION is in capitals.
_INSTALL = re.compile(
    r"`?uv pip install(?: --?[\w-]+)* '?([a-z][\w.-]*(?:[<>=!~]=?[\w.*,<>=!~]+))'?`?"
)
_REINSTALL = re.compile(r"`?uv pip install (?!-c )[^`]*[A-Z]{4,}[^`]*`?")
_FROM_SOURCE = re.compile(r", or build it from source [^`]*: `uv pip install [^`]*`")
_UNINSTALL = re.compile(r"(?:Run )?`uv pip uninstall ([\w.-]+)`")
_CHECK = re.compile(r"`uv pip check`")


def in_own_verbs(remedy: str, target: str) -> str:
    """Return a remedy as it is for what Provision built for a target: its own verbs do it."""
    spec, repair = f"envs/{target}.toml", f"`provision verify {target} --repair`"
    lock = f"`provision lock {target}` and `provision build {target}`"
    leave_out = rf'Write `exclude = ["\1"]` into [pip] of {spec}, then {lock}'
    remedy = _INSTALL.sub(rf"`provision add {target} '\1'`", remedy)
    remedy = _FROM_SOURCE.sub(f": `provision add {target} PACKAGE==VERSION`", remedy)
    remedy = _REINSTALL.sub(repair, remedy)
    remedy = _UNINSTALL.sub(leave_out, remedy)
    return _CHECK.sub(f"`provision verify {target}`", remedy).replace("TARGET", target)


def build_command(use: str, platform: str) -> str:
    """Return the command that builds the target of a use, or the one that finds a target."""
    target = TARGETS.get(use, {}).get(platform)
    if target is None:
        return "`provision detect`, which names the target for this machine"
    return f"`provision build {target}`"
