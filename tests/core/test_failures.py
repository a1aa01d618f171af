"""What the system raises, as an error for people."""

from __future__ import annotations

import pytest

from provision.core.failures import as_error

PLACE = "/usr/lib/python3.11/lib-dynload/unicodedata.so: failed to map segment from"


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (MemoryError(), "the memory is used up"),
        (ImportError(f"{PLACE} shared object"), "the memory is used up"),
        (ImportError("libm.so.6: Cannot allocate memory"), "the memory is used up"),
        (
            ImportError(f"{PLACE} shared object: Operation not permitted"),
            "Provision itself failed",
        ),
        (RuntimeError("can't start new thread"), "the system starts no more threads"),
    ],
)
def test_an_exhausted_machine_is_no_fault_of_provision(
    error: Exception, what: str
) -> None:
    assert str(as_error(error)).startswith(what)
