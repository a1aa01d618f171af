"""Run programs one after another, each in a fork of this process, which has loaded torch.

A line of JSON has the words of a program and the file for each of its streams; the answer is its
exit code.
"""

# ruff: noqa: ANN001, ANN002, ANN201, S102, T201, BLE001

import gc
import json
import os
import sys
import traceback
from pathlib import Path

gc.disable()  # a search for garbage goes through all that torch has made
import torch._dynamo  # noqa: F401, E402 - which each optimizer loads

gc.freeze()
gc.enable()


def become(words, *streams):
    for number, path in enumerate(streams, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    sys.argv, code = words, 0
    try:
        exec(
            compile(Path(words[0]).read_text(), words[0], "exec"),
            {"__name__": "__main__"},
        )
    except BaseException as error:
        traceback.print_exception(error.with_traceback(error.__traceback__.tb_next))
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        become(*json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
