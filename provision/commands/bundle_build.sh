#!/bin/sh
# Builds {target} from this folder alone, without a network. Where there is no Python {python},
# it unpacks and uses the one in python/, which has to stay there then.
cd "$(dirname "$0")/toolkit" || exit
python="${{PYTHON:-python{python}}}"
if ! command -v "$python" >/dev/null && [ -d ../python ]; then
    [ -x .python/python/bin/python{python} ] || {{ rm -rf .python* && mkdir .python.new &&
        tar xzf ../python/*.tar.gz -C .python.new && mv .python.new .python; }} || exit
    python="$PWD/.python/python/bin/python{python}"
fi
PIP_NO_INDEX=1 PIP_FIND_LINKS=../tools UV_OFFLINE=1 \
    UV_FIND_LINKS=../tools exec "$python" noxfile.py -s build-{target} -- \
    --offline --wheelhouse ../artifacts "$@"
