#!/bin/sh
# Builds {target} from this folder alone, without a network. Where there is no Python {python},
# it unpacks and uses the one in python/, which has to stay there then.
caller=$PWD
cd "$(dirname "$0")/toolkit" || exit
python="${{PYTHON:-python{python}}}"
if ! command -v "$python" >/dev/null; then
    python="$PWD/.python/python/bin/python{python}"
    if ! [ -x "$python" ]; then
        if ! ls ../python/*.tar.gz >/dev/null 2>&1; then
            echo "error: this bundle has no Python: install Python {python}, or set PYTHON=PATH" >&2
            exit 3
        fi
        rm -rf .python* && mkdir .python.new && tar xzf ../python/*.tar.gz -C .python.new &&
            mv .python.new .python || {{
            echo "error: cannot unpack" ../python/*.tar.gz ": copy it again, or free some space" >&2
            exit 3
        }}
    fi
fi
"$python" -I provision/commands/bundle_check.py .. || exit
PIP_NO_INDEX=1 PIP_FIND_LINKS=../tools UV_OFFLINE=1 UV_FIND_LINKS=../tools PWD=$caller \
    exec "$python" noxfile.py -s build-{target} -- --offline --wheelhouse ../artifacts "$@"
