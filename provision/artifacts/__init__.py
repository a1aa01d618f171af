"""Artifacts: wheels and conda packages, found and downloaded by hash."""
