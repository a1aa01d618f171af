"""What the system raises, as an error for people."""

from __future__ import annotations

from provision.core.failures import as_error

PLACE = "/usr/lib/python3.11/lib-dynload/unicodedata.so: failed to map segment from"


EXHAUSTED = [
    (MemoryError(), "the memory is used up"),
    (ImportError(f"{PLACE} shared object"), "the memory is used up"),
    (ImportError(f"{PLACE} shared object: no right"), "Provision itself failed"),
    (RuntimeError("can't start new thread"), "the system starts no more threads"),
]


def test_an_exhausted_machine_is_no_fault_of_provision() -> None:
    for error, what in EXHAUSTED:
        assert str(as_error(error)).startswith(what)
