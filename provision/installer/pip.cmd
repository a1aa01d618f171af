@echo off
>&2 echo pip would change this environment, which is built from the lock of TARGET.
>&2 echo   provision add TARGET NAME    adds a package: to the spec, the lock and here
>&2 echo   provision sbom TARGET        lists what is installed
exit /b 1
