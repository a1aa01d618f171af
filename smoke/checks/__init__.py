"""The checks, one ``test_<area>.py`` per area; every such file is run."""
