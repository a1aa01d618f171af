"""The base of all packages: errors, findings, and access to disk, processes and network."""
