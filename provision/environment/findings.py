"""What verifying an environment may find: the texts are in ``findings.toml``."""

from functools import partial
from pathlib import Path

from provision.core.findings import described

finding = partial(described, Path(__file__).with_suffix(".toml"))
