"""Reports of smoke runs, and the comparison of two of them."""
