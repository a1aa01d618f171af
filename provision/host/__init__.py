"""The host: its GPUs, drivers, runtimes and permissions. Probes never raise; parsers are pure."""
