"""Remedies for the system and the accelerator of a log: what cannot be done there is left out."""

import re

from provision.doctor.matcher import Search

# What a log shows of the system that it is of, and of its accelerator.
_SIGNS = {
    "windows": [
        r"(?<![\w/])[A-Z]:\\\\?[^n\\]",
        r"\bwin_amd64\b",
        r"\bWinError\b",
        r"\bWindows[- ]1[01]\b",
    ],
    "linux": [
        r"\bmanylinux|\blinux-gnu\b|\blinux_x86_64\b",
        r"(?:^|[\s\"'(=])/(?:usr|home|opt|root)/",
        r"\.so(?:\.\d+)*\b",
    ],
    "macos": [
        r"(?:^|[\s\"'(=@])/Users/(?!.*\\)",
        r"\bmacosx[_-]\d+",
        r"/opt/homebrew/",
    ],
    "intel": [
        r"\bxpu\b|\btorch_ipex\b|intel_extension_for_pytorch|\bipex\b",
        r"\bArc\W{0,6}[AB]\d{2,3}\b",
        r"Intel\(R\) (?:Arc|Iris|Data Center GPU)",
        r"\blevel.zero\b|\blibsycl\b|\bsycl\d?\b|\bUR_RESULT_\w+|\bZE_RESULT_\w+",
    ],
    "nvidia": [
        r"\bGeForce\b|\bQuadro\b|\bTITAN\b|\bNVIDIA\b",
        r"\b(?:RTX|GTX) ?[A\d]\d{3}\b|\bTesla [A-Z]\d+",
        r"\bcuda\b|\bcudnn\w*|\bnccl\b|\+cu1\d\d\b",
    ],
    "amd": [
        r"\bgfx(?:9|1[0-2])\w{2}\b|\bradeon\b|\bamdgpu\b|\brocm\b",
        r"/dev/kfd\b|\bHIP error\b|\bHSA_OVERRIDE\w+",
    ],
}
_SYSTEMS = ("windows", "linux", "macos")
_ACCELERATORS = ("intel", "nvidia", "amd")
# What exists with some systems or accelerators only.
_ONLY = [
    (
        {"linux"},
        r"apt-get|/etc/|/dev/(?!null)|modprobe|systemctl|ldconfig|dmesg|usermod",
    ),
    (
        {"linux"},
        r"LD_LIBRARY_PATH|LD_PRELOAD|setvars\.sh|/opt/|\.so\b|\bDebian\b|\bUbuntu\b",
    ),
    ({"linux", "macos"}, r"\bsudo\b|`export |`source |\bulimit\b"),
    (
        {"windows"},
        r"\bwinget\b|\bsetx\b|\.bat\b|PowerShell|Visual (?:C\+\+|Studio)|\bWSL\b|`wsl ",
    ),
    ({"windows"}, r"\.dll\b|\bMSVC\b|Device Manager|triton-windows"),
    ({"macos"}, r"\bbrew\b|\bxcode-select\b|\bXcode\b"),
    ({"nvidia"}, r"nvidia-smi|docs\.nvidia|--gpus|triton-windows|\bXid\b|nvidia-ctk"),
    (
        {"intel"},
        r"setvars|xpu-smi|ONEAPI_DEVICE_SELECTOR|`sycl-ls|intel-opencl|level-zero",
    ),
    ({"amd"}, r"/dev/kfd|rocminfo|HSA_OVERRIDE"),
]
_ELSEWHERE = (
    "Run `provision detect`, which names the target of this machine, and build that"
)


def machine_of(search: Search) -> frozenset[str]:
    """Return the one system and the one accelerator that a log shows; less where it is open."""
    shown = set[str]()
    for names in (_SYSTEMS, _ACCELERATORS):
        present = [n for n in names if any(search.find(p) for p in _SIGNS[n])]
        if len(present) == 1:
            shown.update(present)
    return frozenset(shown)


def fitting(remedy: str, machine: frozenset[str]) -> str:
    """Return a remedy without the sentences that only help with another machine."""
    sentences = re.split(r"(?<=[.;]) +(?=\S)", remedy)
    kept = [text for text in sentences if not _foreign(text, machine)]
    if not kept:
        return _ELSEWHERE
    text = " ".join(kept).rstrip(";")
    return text[:1].upper() + text[1:] if text[:1] != remedy[:1] else text


def _foreign(text: str, machine: frozenset[str]) -> bool:
    for names, pattern in _ONLY:
        kind = _SYSTEMS if names & {*_SYSTEMS} else _ACCELERATORS
        of_log = machine & {*kind}
        if of_log and not of_log & names and re.search(pattern, text):
            return True
    return False


def commands(verb: str, kind: str, machine: frozenset[str]) -> str:
    """Return the command of a verb for the target of a kind: of the log's system, else of both."""
    systems = [system for system in ("windows", "linux") if system in machine]
    if kind == "max":  # a Data Center GPU Max has drivers for Linux only
        systems = ["linux"]
    targets = [f"{kind}-{system}" for system in systems or ("windows", "linux")]
    first = f"`provision {verb} {targets[0]}`"
    if len(targets) == 1:
        return first
    return f"{first} (in Linux `provision {verb} {targets[1]}`)"


def with_commands(text: str, machine: frozenset[str]) -> str:
    """Return a text with the commands that it names in braces, such as ``{build arc}``."""
    return re.sub(
        r"\{(build|smoke) ([\w-]+)\}",
        lambda named: commands(named[1], named[2], machine),
        text,
    )
