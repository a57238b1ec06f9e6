#!/bin/sh
# Makes a Debian package of what was built, and prints its path. `make deb` runs it.
#
#   deploy/deb.sh [--from DIR] [--out DIR] [--fast]
#
# --from DIR  where cargo put the programs [default: target/release]
# --out DIR   the folder of the package [default: target]
# --fast      compress little
#
# SIGNING_KEY and SIGNING_PASSWORD_FILE sign the plugins: see deploy/install.sh.
set -eu

from=target/release
out=target
compression='-Zxz'

fail() { echo "deb: $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
    case $1 in
    --fast) compression='-Zgzip -z1'; shift; continue ;;
    --from | --out) [ $# -ge 2 ] || fail "$1 needs a folder" ;;
    *) fail "unknown option $1; see the head of deploy/deb.sh" ;;
    esac
    case $1 in
    --from) from=$2 ;;
    --out) out=$2 ;;
    esac
    shift 2
done
for tool in dpkg-deb dpkg-shlibdeps; do
    command -v $tool >/dev/null || fail "there is no $tool: apt-get install dpkg-dev"
done

from=$(realpath -m "$from")
mkdir -p "$out"
out=$(realpath "$out")
# Paths are meant from where this was called.
[ -z "${SIGNING_KEY-}" ] || { SIGNING_KEY=$(realpath -m "$SIGNING_KEY"); export SIGNING_KEY; }
[ -z "${SIGNING_PASSWORD_FILE-}" ] || { SIGNING_PASSWORD_FILE=$(realpath -m "$SIGNING_PASSWORD_FILE"); export SIGNING_PASSWORD_FILE; }
cd "$(dirname "$0")/.."

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[ -n "$version" ] || fail "Cargo.toml has no version of the workspace"
architecture=$(dpkg --print-architecture)
# As long as the source is the same, the package is; signatures differ each time.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date -r Cargo.toml +%s)}
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
umask 022
mkdir "$root"
deploy/install.sh --from "$from" --destdir "$root" --prefix /usr
# Where Debian 12 and its tools expect units.
mkdir "$root/lib"
mv "$root/usr/lib/systemd" "$root/lib/systemd"

doc=$root/usr/share/doc/volhost
mkdir -p "$doc"
cp deploy/package/copyright "$doc/copyright"
deploy/notices.sh "$doc"
{
    echo "volhost ($version) unstable; urgency=medium"
    echo
    echo "  * See https://github.com/volhost/volhost/blob/main/CHANGELOG.md"
    echo
    echo " -- The volhost authors <volhost@users.noreply.github.com>  $(date -R -u -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$doc/changelog.gz"

mkdir "$work/debian" "$root/DEBIAN"
printf 'Source: volhost\n\nPackage: volhost\nArchitecture: any\n' >"$work/debian/control"
# It warns of what only a whole source package has.
depends=$(cd "$work" && dpkg-shlibdeps -O -e root/usr/bin/volhost -e root/usr/bin/volhostd -e root/usr/bin/volhost-controller -e root/usr/bin/kubectl-volhost 2>"$work/shlibdeps" |
    sed -n 's/^shlibs:Depends=//p') || true
[ -n "$depends" ] || { cat "$work/shlibdeps" >&2; fail "dpkg-shlibdeps does not say which libraries the programs need"; }
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@DEPENDS@/$depends/" \
    -e "s/@SIZE@/$(du -sk "$root" | cut -f1)/" deploy/package/control >"$root/DEBIAN/control"
(cd "$root" && find etc -type f -printf '/%p\n' | LC_ALL=C sort) >"$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 0755 "deploy/package/$script" "$root/DEBIAN/$script"
done
(cd "$root" && find lib usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"

package=$out/volhost_${version}_$architecture.deb
# shellcheck disable=SC2086 # a list of options
dpkg-deb --root-owner-group $compression --build "$root" "$package" >/dev/null
echo "$package"
