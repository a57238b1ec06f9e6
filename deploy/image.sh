#!/bin/sh
# Makes a container image of what was built, and prints its path: an archive that docker, podman and
# containerd load. `make image` runs it.
#
#   deploy/image.sh [--from DIR] [--out DIR] [--fast]
#
# --from DIR  where cargo put the programs: see deploy/static.sh [default: target/release]
# --out DIR   the folder of the archive, volhost-image.tar [default: target]
# --fast      compress little
#
# SIGNING_KEY and SIGNING_PASSWORD_FILE sign the plugins: see deploy/install.sh.
#
# The image has volhost's programs and plugins, the programs that volhost runs (blkid, mkfs, e2fsck
# and so on), the libraries that these need, certificates, and licences: nothing else. What is
# not volhost's is taken from Debian packages, which are unpacked once, to
# volhost-image-packages-NUMBER.tar beside the archive: delete that file to have newer ones.
set -eu

from=target/release
out=target
level=6

# What volhost runs: the tools of host/kernel.
programs="blkid wipefs e2fsck resize2fs mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs"
# What the programs read, and the library that the C library opens when a thread is cancelled, which
# no program names.
more="etc/mke2fs.conf lib/$(uname -m)-linux-gnu/libgcc_s.so.1"
# Their packages, and that of the licences' texts.
packages=util-linux,e2fsprogs,xfsprogs,btrfs-progs,libgcc-s1,ca-certificates,base-files

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
command -v readelf >/dev/null || fail "there is no readelf: apt-get install binutils"
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
root=$work/root
mkdir "$root" "$work/unpacked"

# --- volhost ---

deploy/install.sh --from "$from" --destdir "$work/installed"
mkdir -p "$root/etc" "$root/usr/local/bin" "$root/usr/local/lib" "$root/usr/share/doc/volhost"
for program in volhost volhostd volhost-controller; do
    mv "$work/installed/usr/local/bin/$program" "$root/usr/local/bin/$program"
done
mv "$work/installed/usr/local/lib/volhost" "$root/usr/local/lib/"
mv "$work/installed/etc/volhost" "$root/etc/volhost"
cp deploy/package/copyright "$root/usr/share/doc/volhost/copyright"
deploy/notices.sh "$root/usr/share/doc/volhost"

# --- what is not volhost's ---

# For each package: which files it has, and what it says of itself.
lists='for deb in "$1"/var/cache/apt/archives/*.deb; do
    package=$(dpkg-deb --field "$deb" Package)
    dpkg-deb --fsys-tarfile "$deb" | tar -t | sed "s,^\./,," >"$1/var/lib/dpkg/info/$package.list"
    dpkg-deb --field "$deb" >"$1/var/lib/dpkg/info/$package.control"
done'
# Another list is another file.
archive=$out/volhost-image-packages-$(echo "$packages $lists" | cksum | cut -d' ' -f1).tar
if [ ! -e "$archive" ]; then
    set --
    for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
        [ ! -s "$file" ] || set -- "$@" "$file"
    done
    mmdebstrap --quiet --mode=root --variant=extract --include=$packages --extract-hook="$lists" \
        bookworm "$work/packages.tar" "$@" || fail "the packages could not be unpacked"
    mv "$work/packages.tar" "$archive"
fi
tar -C "$work/unpacked" -xf "$archive"

# Prints the path of the file of this name in the first of these folders that has it. Where none has,
# the path of the last one, which then cannot be copied.
find_in() { # NAME FOLDER...
    name=$1
    shift
    for folder in "$@"; do
        [ -e "$work/unpacked/$folder/$name" ] || [ -L "$work/unpacked/$folder/$name" ] || continue
        break
    done
    echo "$folder/$name"
}
# Prints what a file names as needed: the target of a symbolic link, or libraries and their loader.
needs() { # FOLDER PATH
    file=$1/$2
    if [ -L "$file" ]; then
        target=$(readlink "$file")
        case $target in
        /*) echo "${target#/}" ;;
        *) echo "$(dirname "$2")/$target" ;;
        esac
        return
    fi
    readelf -dW "$file" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | while read -r library; do
        find_in "$library" "lib/$(uname -m)-linux-gnu" "usr/lib/$(uname -m)-linux-gnu" lib64 lib
    done
    readelf -lW "$file" 2>/dev/null | sed -n 's,.*interpreter: /\(.*\)\].*,\1,p'
}

wanted=$more
for program in volhost volhostd volhost-controller; do
    wanted="$wanted $(needs "$root" "usr/local/bin/$program" | tr '\n' ' ')"
done
for program in $programs; do
    wanted="$wanted $(find_in "$program" usr/sbin usr/bin sbin bin)"
done
: >"$work/taken"
while [ -n "$wanted" ]; do
    next=
    for path in $wanted; do
        ! grep -qxF "$path" "$work/taken" || continue
        echo "$path" >>"$work/taken"
        mkdir -p "$root/$(dirname "$path")"
        cp -P --preserve=mode "$work/unpacked/$path" "$root/$path"
        next="$next $(needs "$work/unpacked" "$path" | tr '\n' ' ')"
    done
    wanted=$(echo "$next" | xargs)
done

# As update-ca-certificates does.
mkdir -p "$root/etc/ssl/certs"
find "$work/unpacked/usr/share/ca-certificates" -name '*.crt' -print0 | LC_ALL=C sort -z |
    xargs -0 cat >"$root/etc/ssl/certs/ca-certificates.crt"

# Licences, and the packages where scanners of images look for them.
mkdir -p "$root/var/lib/dpkg/status.d" "$root/usr/share/common-licenses"
info=$work/unpacked/var/lib/dpkg/info
for list in "$info"/*.list; do
    package=$(basename "$list" .list)
    [ "$package" = ca-certificates ] || grep -qxFf "$work/taken" "$list" || continue
    mkdir -p "$root/usr/share/doc/$package"
    cp "$work/unpacked/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
    cp "$info/$package.control" "$root/var/lib/dpkg/status.d/$package"
done
grep -rhoE 'common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$root/usr/share/doc" | sort -u | while read -r text; do
    cp "$work/unpacked/usr/share/$text" "$root/usr/share/$text"
done

# --- where kernel, kubelet and programs put something ---

mkdir -p "$root/dev" "$root/proc" "$root/sys" "$root/run" "$root/var/cache" "$root/var/log"
mkdir -m 1777 "$root/tmp"

SOURCE_DATE_EPOCH=$epoch deploy/oci-archive.sh "$root" "$out/volhost-image.tar" "volhost:$version" \
    '{"Entrypoint": ["/usr/local/bin/volhostd"], "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}' $level
echo "$out/volhost-image.tar"
