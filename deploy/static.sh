#!/bin/sh
# Builds volhost's programs for an image, linked with musl's C library and with no other, and prints
# the folder that has them. `make image` runs it.
#
#   deploy/static.sh [PROFILE]
#
# PROFILE  cargo's [default: release]
#
# Where rustc has no standard library for musl and rustup can't fetch it, it builds them with this
# machine's C library, and says so; deploy/image.sh adds to an image what its programs need.
set -eu

profile=${1:-release}
cd "$(dirname "$0")/.."

machine=$(uname -m)
target=$machine-unknown-linux-musl
out=${CARGO_TARGET_DIR:-target}
folder=$profile
[ "$profile" != dev ] || folder=debug

# Seconds. A closed network often does not answer.
RUSTUP_DEADLINE=20
present() { ls "$(rustc --print target-libdir --target "$target")"/libstd-*.rlib >/dev/null 2>&1; }
present || timeout $RUSTUP_DEADLINE rustup target add "$target" </dev/null >/dev/null 2>&1 || true

# A test that runs this has what cargo says of the test's package. Build scripts that read it, such as
# that of `ring`, would run again, and whatever needs these packages would be compiled again.
for name in $(env | sed -n 's/^\(CARGO_\(MANIFEST\|PKG\)_[A-Z_]*\)=.*/\1/p'); do
    unset "$name"
done

set -- cargo build --locked --profile "$profile" -p volhost -p volhostd -p volhost-controller -p volhost-kubectl
if ! present; then
    echo "static: rustc has no standard library for $target, and rustup could not add it: the programs need this machine's C library" >&2
    "$@" >&2
    echo "$out/$folder"
elif ! command -v "$machine-linux-musl-gcc" >/dev/null; then
    echo "static: there is no $machine-linux-musl-gcc, the compiler for musl: apt-get install musl-tools" >&2
    exit 1
else
    "$@" --target "$target" >&2
    echo "$out/$target/$folder"
fi
