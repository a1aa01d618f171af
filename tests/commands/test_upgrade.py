from __future__ import annotations

import datetime as dt
import tomllib

from provision.commands.upgrade import with_cutoff

SPEC = """\
# why this target is here
[pip]
cutoff = 2026-11-01 # the day of the release
requirements = [
    "torch", # the reason
]

[pip.index]
vendor = ["torch"]
"""
DAY = dt.date(2026, 11, 20)


def test_all_packages_move_and_the_rest_of_the_file_stays() -> None:
    assert with_cutoff(SPEC, None, DAY) == SPEC.replace("2026-11-01", "2026-11-20")


def test_one_package_gets_a_cutoff_of_its_own_until_all_move() -> None:
    one = with_cutoff(SPEC, "torch", DAY)
    two = with_cutoff(one, "numpy", DAY)
    assert tomllib.loads(two)["pip"]["cutoffs"] == {"torch": DAY, "numpy": DAY}
    assert tomllib.loads(two)["pip"]["cutoff"] == dt.date(2026, 11, 1)
    assert '"torch", # the reason' in two
    assert with_cutoff(two, None, DAY) == SPEC.replace("2026-11-01", "2026-11-20")
