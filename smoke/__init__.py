"""The smoke suite: checks of a built environment, run by its own Python.

It needs the standard library and torch, and brings its pytest along (`runner`). It imports nothing
of the toolkit: the two exchange files only (``expect.json`` in, ``report.json`` out).

Processes: ``run.py`` (the supervisor) starts ``engine/worker.py``, which imports torch and runs the
checks with pytest; they share a journal file. A check that needs a fresh process uses
`child_process.call`.

Rooms: ``checks`` (one ``test_<area>.py`` per area), ``reference`` (what results are compared with),
``device`` (what the device tells of itself), ``engine`` (what runs checks and keeps results).
To add a check, write it into a file of ``checks``; a fault that makes it fail goes into
``tests/smoke/faults.py``.
"""

import sys

# Before torch is imported: some versions of it add their own temporary folder.
PATH_AT_START = tuple(sys.path)
