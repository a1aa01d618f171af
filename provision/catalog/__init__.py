"""The catalog: committed snapshots of vendor indexes and conda channels, devices and drivers."""
