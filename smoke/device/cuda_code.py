"""Which GPUs can run the code in a CUDA build of torch.

CUDA C++ Programming Guide, "GPU Feature List" and "Application Compatibility"; the exceptions for
chips on boards are those of DEVICE_REQUIREMENT in torch/cuda/__init__.py.
"""

import re

_NAME = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")
# Code for chips of embedded boards runs on nothing else, and they run no other chip's.
_EMBEDDED = {(5, 3), (6, 2), (7, 2), (8, 7)}


def _number(name: re.Match[str]) -> tuple[int, int]:
    number = int(name[2]), int(name[3])
    if number == (10, 1):  # CUDA 13 renamed Thor
        return 11, 0
    return number


def runs(code: str, capability: str) -> bool:
    """Return whether a GPU can run code, both named as torch does.

    Args:
        code: One entry of ``torch.cuda.get_arch_list()``: ``sm_86`` is machine code, which runs on
            later chips of the same generation; ``compute_90`` is PTX, which the driver compiles for
            any later chip. With ``a`` it runs on that chip only, with ``f`` on its family.
        capability: The GPU's, as ``sm_89``.
    """
    made = _NAME.fullmatch(code)
    gpu = _NAME.fullmatch(capability)
    if made is None or gpu is None:
        return False
    needs = _number(made)
    has = _number(gpu)
    if made[4] == "a":
        return needs == has
    if made[1] == "compute" and not made[4]:
        return needs <= has
    if needs in _EMBEDDED or has in _EMBEDDED:
        return needs == has
    return needs[0] == has[0] and needs[1] <= has[1]
