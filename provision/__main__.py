"""``python -m provision``."""

from provision.cli import main

raise SystemExit(main())
