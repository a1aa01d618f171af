#!/bin/sh
cat >&2 <<'END'
pip would change this environment, which is built from the lock of TARGET.
  provision add TARGET NAME    adds a package: to the spec, the lock and here
  provision sbom TARGET        lists what is installed
END
exit 1
