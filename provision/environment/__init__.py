"""Built environments: what is installed, the build manifest, and verification against the lock."""
