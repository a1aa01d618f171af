"""The device under test: its facts, sensors, capabilities and compilers."""
