"""Container images: the build context, the build, and the OCI layout."""
