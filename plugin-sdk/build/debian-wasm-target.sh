#!/bin/sh
# Gives Debian's own rustc the target wasm32-unknown-unknown.
#
# Debian ships a recent rustc (rustc-web) and the sources of its standard library, but no standard library
# for this target. This script installs the packages, builds the library once (about a minute on two cores;
# its dependencies come from crates.io) and lays it where that rustc looks for it. Needs root.
#
# Run it as often as you like: when the installed rustc already has the library built for it, nothing happens.
# rustup's toolchains are not touched. To undo it, remove the folder and the link named in the last lines.
set -eu

TARGET=wasm32-unknown-unknown
# The oldest rustc that compiles the plugins: `rust-version` in Cargo.toml.
NEEDED=1.95
RUSTLIB=/usr/lib/rustlib
LIBDIR=$RUSTLIB/$TARGET/lib
STAMP=$LIBDIR/.volhost-built-for

say() { echo "debian-wasm-target: $*"; }
fail() { echo "debian-wasm-target: $*" >&2; exit 1; }

# The library's stamp: the whole identity of the compiler it was built for, since it fits no other.
identity() { /usr/bin/rustc -vV 2>/dev/null; }
linker_package() { /usr/bin/rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/lld-\1/p'; }
host_triple() { /usr/bin/rustc -vV | sed -n 's/^host: //p'; }
linker_link() { echo "$RUSTLIB/$(host_triple)/bin/rust-lld"; }

is_ready() {
    [ -x /usr/bin/rustc ] && [ -x /usr/bin/cargo ] &&
        [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(identity)" ] && [ -x "$(linker_link)" ]
}

new_enough() {
    have=$(/usr/bin/rustc -V 2>/dev/null | cut -d' ' -f2)
    [ -n "$have" ] && [ "$(printf '%s\n' "$NEEDED" "$have" | sort -V | head -n1)" = "$NEEDED" ]
}

# --no-remove: another rustc from Debian stays; the user decides whether it may go.
install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-remove --no-install-recommends "$@" </dev/null >>"$LOG" 2>&1
}

case "${1-}" in
--check)
    # For callers that only want to know: exit status, no output, no root needed.
    is_ready
    exit
    ;;
'') ;;
*) fail "unknown argument $1 (the only one is --check, whose exit status reports whether there is work to do)" ;;
esac

is_ready && exit 0
[ "$(id -u)" = 0 ] || fail "needs root to install packages and to write $LIBDIR"
command -v apt-get >/dev/null || fail "this machine has no apt-get; use 'rustup target add $TARGET' instead"

# Two runs at once would build the same thing twice and copy over each other.
exec 9>/run/lock/volhost-wasm-target
flock 9
is_ready && exit 0

WORK=$(mktemp -d)
LOG=$WORK/log
trap 'rm -rf "$WORK"' EXIT
trap 'exit 130' INT TERM

say "installing rustc-web, cargo-web and rust-web-src (Debian packages, about 150 MB)"
if ! { install rustc-web cargo-web rust-web-src && new_enough; }; then
    # The package lists may be missing or from before the security update that brought the newer compiler.
    say "refreshing the package lists and trying again"
    apt-get update -q </dev/null >>"$LOG" 2>&1 || say "apt-get update failed; going on with the lists that are there"
    install rustc-web cargo-web rust-web-src || { tail -n 20 "$LOG" >&2; fail "apt-get could not install the packages (its last words are above)"; }
    new_enough || fail "Debian's $(/usr/bin/rustc -V) is older than $NEEDED, which the plugins need; is the security archive (bookworm-security) in /etc/apt/sources.list?"
fi
LINKER=$(linker_package)
say "installing $LINKER (the WebAssembly linker, of the same LLVM as that rustc)"
install "$LINKER" || { tail -n 20 "$LOG" >&2; fail "apt-get could not install $LINKER (its last words are above)"; }

say "building the standard library for $TARGET (about a minute)"
# RUSTC_BOOTSTRAP: the library uses unstable features of its own compiler, by design.
# embed-bitcode: plugins are linked with lto, which needs the bitcode.
# force-unstable-if-unmarked: what the compiler's own build passes, so that std's private crates stay private.
env -u CARGO_ENCODED_RUSTFLAGS -u CARGO_BUILD_RUSTFLAGS -u RUSTC_WRAPPER -u RUSTC_WORKSPACE_WRAPPER -u RUSTUP_TOOLCHAIN \
    RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zforce-unstable-if-unmarked -Cembed-bitcode=yes" \
    /usr/bin/cargo build --quiet --release --locked \
    --manifest-path "$RUSTLIB/src/rust/library/sysroot/Cargo.toml" -p sysroot \
    --target "$TARGET" --target-dir "$WORK/target" </dev/null >>"$LOG" 2>&1 ||
    { tail -n 20 "$LOG" >&2; fail "building the standard library failed (cargo's last words are above)"; }

# The new library is complete beside the old one before it takes its place.
rm -rf "$LIBDIR.new"
mkdir -p "$LIBDIR.new"
cp "$WORK/target/$TARGET"/release/deps/*.rlib "$LIBDIR.new/"
identity >"$LIBDIR.new/${STAMP##*/}"
rm -rf "$LIBDIR"
mv "$LIBDIR.new" "$LIBDIR"

LINK=$(linker_link)
mkdir -p "${LINK%/*}"
ln -sfn "/usr/lib/llvm-${LINKER#lld-}/bin/lld" "$LINK"

say "library: $LIBDIR"
say "linker:  $LINK -> $(readlink "$LINK")"
