"""The base of all packages: errors, findings, and access to files, processes and network."""
