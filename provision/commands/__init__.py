"""One module per verb; each returns data and prints nothing."""
