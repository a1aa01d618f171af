"""Lock files: reading, writing and comparing what a target is locked to."""
