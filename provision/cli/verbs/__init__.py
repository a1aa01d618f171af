"""One module per verb; see :mod:`provision.cli`."""
