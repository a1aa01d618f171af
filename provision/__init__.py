"""Provision: reproducible PyTorch environments, one per kind of hardware."""

__version__ = "0.1.0"
