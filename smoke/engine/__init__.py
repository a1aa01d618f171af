"""What runs checks and keeps their results: supervisor, worker, journal, the `check` decorator."""
