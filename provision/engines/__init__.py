"""Adapters to the tools that resolve and install."""
