"""Benchmarks: the commands of Provision beside the tools that they are made of, as ratios."""
