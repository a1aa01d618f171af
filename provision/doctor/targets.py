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
# What remedies say of an environment that Provision built, and what of one that it did not.
_FOREIGN = {
    "Build the target again; if the error remains, find": "Find",
    "run `provision add TARGET PACKAGE`": "install it there",
    "`provision add TARGET PACKAGE`, with": "Install it there, with",
    "`provision add TARGET PACKAGE`": "install it there",
    ", then `provision lock TARGET` and `provision build TARGET`": "",
    "Build the environment again from its lock": "Use an environment from a lock",
    "Build the environment from one lock": "Use an environment from one lock",
    "build the target again": "use the environment of `provision build TARGET`",
    "Run `provision verify TARGET --repair`, then": "Install what the target locks, then run",
    ", `provision add TARGET ninja`": "",
    "`provision verify TARGET`": "`provision doctor --python PATH`",
}


def in_own_verbs(remedy: str, target: str) -> str:
    """Return a remedy as it is for what Provision built for a target: its own verbs do it."""
    spec, repair = f"envs/{target}.toml", f"`provision verify {target} --repair`"
    lock = f"`provision lock {target}` and `provision build {target}`"
    leave_out = rf'Write `exclude = ["\1"]` into [pip] of {spec}, then {lock}'
    remedy = _INSTALL.sub(rf"`provision add {target} '\1'`", remedy)
    remedy = _FROM_SOURCE.sub(f": `provision add {target} PACKAGE==VERSION`", remedy)
    remedy = _REINSTALL.sub(repair, remedy)
    remedy = _UNINSTALL.sub(leave_out, remedy)
    remedy = remedy.replace("doctor --python PATH", f"doctor --target {target}")
    return _CHECK.sub(f"`provision verify {target}`", remedy).replace("TARGET", target)


def in_foreign(remedy: str, target: str) -> str:
    """Return a remedy as it is for an environment that somebody else made, checked as a target."""
    for own, foreign in _FOREIGN.items():
        remedy = remedy.replace(own, foreign)
    return remedy.replace("TARGET", target)


def build_command(use: str, platform: str) -> str:
    """Return the command that builds the target of a use, or the one that finds a target."""
    target = TARGETS.get(use, {}).get(platform)
    if target is None:
        return "`provision detect`, which names the target for this machine"
    return f"`provision build {target}`"
