"""Specs: the `envs/<target>.toml` files, and the hardware they name."""
