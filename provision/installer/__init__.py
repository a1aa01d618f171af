"""Installers: from a lock and its artifacts to an environment."""
