#!/bin/sh
# build.sh python OUT: builds the plugin in the folder python to the component OUT.
# build.sh --fetch: only fetches the tools.
#
# They come from PyPI, once, into VOLHOST_GUEST_TOOLS (default: guest-tools in the folder that keeps what CI fetches). Needs python3 with venv.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
COMPONENTIZE_PY=0.25.1
tools=${VOLHOST_GUEST_TOOLS:-${VOLHOST_CI_CACHE:-$HOME/.cache/volhost-ci}/guest-tools}
python=$tools/componentize-py-$COMPONENTIZE_PY

fail() { printf 'build.sh: %s\n' "$*" >&2; exit 1; }
case $#:${1-} in
2:python | 1:--fetch) ;;
*) fail "usage: build.sh python OUT.wasm" ;;
esac

# Half a folder never counts.
if ! [ -e "$python/done" ]; then
    rm -rf "$python"
    mkdir -p "$tools"
    { python3 -m venv "$python" && "$python/bin/pip" install --quiet --disable-pip-version-check "componentize-py==$COMPONENTIZE_PY"; } >&2 ||
        fail "componentize-py could not be fetched"
    touch "$python/done"
fi
[ "$1" != --fetch ] || exit 0

# The contract, beside the world that names what of it is used.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/wit/deps/volhost-plugin" "$work/app"
cp "$here/python/app.py" "$work/app/"
cp "$here/wit/world.wit" "$work/wit/"
cp "$here"/../../wit/*.wit "$work/wit/deps/volhost-plugin/"
"$python/bin/componentize-py" --quiet --wit-path "$work/wit" --world scratch \
    componentize --python-path "$work/app" app -o "$work/out.wasm" >&2
mkdir -p "$(dirname "$2")"
# Whole or not at all: a host may watch the folder.
mv "$work/out.wasm" "$2"
