"""Resolvers: from a spec and the catalog to the text of a lock."""
