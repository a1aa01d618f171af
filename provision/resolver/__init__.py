"""Resolvers: make the text of a lock from a spec and the catalog."""
