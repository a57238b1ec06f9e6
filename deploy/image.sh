#!/bin/sh
# Makes a container image of what was built, and prints its path: an archive that docker, podman and
# containerd load. `make image` runs it.
#
#   deploy/image.sh [--from DIR] [--out DIR] [--fast]
#
# --from DIR  where cargo put the programs [default: target/release]
# --out DIR   the folder of the archive, volhost-image.tar [default: target]
# --fast      compress little
#
# SIGNING_KEY and SIGNING_PASSWORD_FILE sign the plugins: see deploy/install.sh.
#
# The image has what `make install` installs and the programs that volhost runs (blkid, mkfs, fsck
# and so on), from Debian packages; no shell and no package manager. These are unpacked once, to
# volhost-image-root-NUMBER.tar beside the archive: delete that file to have newer ones.
set -eu

from=target/release
out=target
level=6

fail() { echo "image: $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
    case $1 in
    --fast) level=1; shift; continue ;;
    --from | --out) [ $# -ge 2 ] || fail "$1 needs a folder" ;;
    *) fail "unknown option $1; see the head of deploy/image.sh" ;;
    esac
    case $1 in
    --from) from=$2 ;;
    --out) out=$2 ;;
    esac
    shift 2
done
command -v mmdebstrap >/dev/null || fail "there is no mmdebstrap: apt-get install mmdebstrap"
[ "$(id -u)" = 0 ] || fail "only root can make the files of an image"

from=$(realpath -m "$from")
mkdir -p "$out"
out=$(realpath "$out")
# Paths are meant from where this was called.
[ -z "${SIGNING_KEY-}" ] || { SIGNING_KEY=$(realpath -m "$SIGNING_KEY"); export SIGNING_KEY; }
[ -z "${SIGNING_PASSWORD_FILE-}" ] || { SIGNING_PASSWORD_FILE=$(realpath -m "$SIGNING_PASSWORD_FILE"); export SIGNING_PASSWORD_FILE; }
cd "$(dirname "$0")/.."

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[ -n "$version" ] || fail "Cargo.toml has no version of the workspace"
# As long as the source and the packages are the same, the image is.
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date -r Cargo.toml +%s)}

work=$(mktemp -d "$out/image.XXXXXX")
trap 'rm -rf "$work"' EXIT
umask 022

# What volhost runs, and the library that its programs need.
packages=util-linux,mount,e2fsprogs,xfsprogs,btrfs-progs,fuse3,libgcc-s1,ca-certificates
# Another list is another file.
root=$out/volhost-image-root-$(echo $packages | cksum | cut -d' ' -f1).tar
if [ ! -e "$root" ]; then
    set --
    for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
        [ ! -s "$file" ] || set -- "$@" "$file"
    done
    mmdebstrap --quiet --mode=root --variant=extract --include=$packages bookworm "$work/root.tar" "$@" ||
        fail "the packages could not be unpacked"
    mv "$work/root.tar" "$root"
fi

mkdir "$work/root"
tar -C "$work/root" -xf "$root"
# Manuals; and what only xfs_scrub needs, which volhost does not run.
for part in share/doc share/man share/locale share/bash-completion share/i18n lib/python3* lib/*/libicu* sbin/xfs_scrub; do
    # Unquoted: patterns.
    rm -rf "$work/root/usr"/$part
done
rm -rf "$work/root/var/lib/apt" "$work/root/var/cache" "$work/root/var/log" "$work/root/dev"
mkdir -p "$work/root/dev" "$work/root/proc" "$work/root/sys" "$work/root/run" "$work/root/var/log" "$work/root/var/cache"
deploy/install.sh --from "$from" --destdir "$work/root"
# Nor does kubectl run there.
rm -rf "$work/root/usr/local/share" "$work/root/usr/local/bin/kubectl-volhost"

SOURCE_DATE_EPOCH=$epoch deploy/oci-archive.sh "$work/root" "$out/volhost-image.tar" "volhost:$version" \
    '{"Entrypoint": ["/usr/local/bin/volhostd"], "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}' $level
echo "$out/volhost-image.tar"
