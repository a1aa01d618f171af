"""One module per verb; see :mod:`provision.cli`.

What a handler needs is imported inside it: parsing a command line loads neither pydantic nor rich,
and a build that has nothing to do loads no resolver.
"""
