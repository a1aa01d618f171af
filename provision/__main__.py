"""``python -m provision``."""

from provision.cli.isolated import start

raise SystemExit(start())
