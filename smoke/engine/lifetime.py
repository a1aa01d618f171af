"""No process of the suite outlives the one that started it, however that one ends.

Neither way reads a standard handle. On Windows a read that waits on standard input blocks every
library that asks for the type of that handle while it is loaded, as the C runtimes of numpy's and
torch's libraries do: the import never ends (numpy#24290, OpenBLAS#5109, python/cpython#78961).
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import struct
import sys
import threading

# The exit code of a worker whose process can't use its device any more; another one goes on.
DEVICE_LOST = 76
# The variable that names the file descriptor of the pipe to a child; empty on Windows.
PIPE = "SMOKE_PARENT"
# winnt.h: the class of the limits below, and the limit "end all processes of the job when its last
# handle is closed".
EXTENDED_LIMITS, KILL_ON_JOB_CLOSE = 9, 0x2000
# JOBOBJECT_EXTENDED_LIMIT_INFORMATION of 64 bits: two times, the flags, and other limits, all 0.
LIMITS = struct.pack("16xI124x", KILL_ON_JOB_CLOSE)


@functools.cache
def own_descendants() -> None:
    """On Windows, let the system end what this process starts when this process ends.

    The process joins a job itself, of which it holds the only handle: what it starts is in the job
    from its first instruction on. A job that were given the child after its start would miss what
    the child, such as the launcher of a virtual environment, had started by then.
    """
    if sys.platform != "win32":
        return
    import ctypes

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    for function in (kernel.CreateJobObjectW, kernel.GetCurrentProcess):
        function.restype = ctypes.c_void_p  # a handle has 64 bits, an int only 32
    job = ctypes.c_void_p(kernel.CreateJobObjectW(None, None))
    kernel.SetInformationJobObject(job, EXTENDED_LIMITS, LIMITS, len(LIMITS))
    # A job with limits on its user interface refuses nested ones. The checks run there as well.
    kernel.AssignProcessToJobObject(job, ctypes.c_void_p(kernel.GetCurrentProcess()))


def open_pipe() -> tuple[int, ...]:
    """Return the descriptor that a child must inherit; none on Windows.

    The other end stays open until this process ends, and no child inherits it.
    """
    return () if sys.platform == "win32" else os.pipe()[:1]


def end_with_parent() -> None:
    """End this process, with what it starts, when its parent has ended."""
    own_descendants()
    name = os.environ.pop(PIPE, "")
    if sys.platform == "win32" or not name:
        return
    pipe = int(name)
    leads_group = os.getpgrp() == os.getpid()
    if sys.platform == "linux":
        import fcntl

        # The kernel kills at the pipe's end: a driver that hangs may hold the interpreter's lock,
        # and then no thread of Python runs again. A negative number is a process group.
        owner = -os.getpid() if leads_group else os.getpid()
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETOWN, owner)
            fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(pipe, fcntl.F_SETFL, os.O_ASYNC)

    def wait() -> None:
        os.read(pipe, 1)  # returns at once if the parent has ended by now
        if leads_group:
            os.killpg(0, signal.SIGKILL)
        os._exit(1)  # sys.exit would end this thread only

    threading.Thread(target=wait, daemon=True).start()
