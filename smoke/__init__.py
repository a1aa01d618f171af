"""The smoke suite: what an environment must do on its device, run by the environment's own Python.

It needs the standard library, pytest and torch, and imports nothing of the toolkit: the two talk
through files only (``expect.json`` in, ``report.json`` out).
"""

import sys

# Before torch is imported: some versions of it add a temporary folder of their own.
PATH_AT_START = tuple(sys.path)
