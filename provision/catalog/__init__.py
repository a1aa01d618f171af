"""The catalog: committed snapshots of vendor indexes, conda channels, devices and drivers."""
