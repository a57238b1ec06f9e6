#!/usr/bin/env bash
# Builds the guest of the VM tests, once: Debian's kernel, an initramfs and a root file system, from
# Debian packages.
#
#   tests/vm/build.sh            builds it if it is missing: a minute, 600 MB of disk
#   tests/vm/build.sh --where    prints the folder of the result, and builds nothing
#
# The result does not depend on the checkout. It is kept in VOLHOST_CI_CACHE (~/.cache/volhost-ci):
#   kernel        Debian 12's kernel for virtual machines
#   initramfs     loads the disk's driver and changes to the root file system
#   kernel-fc, initramfs-fc
#                 Debian 12's kernel for any machine: it has Fibre Channel, over Ethernet
#   root.img      ext4: a minimal Debian with the programs of PACKAGES, and init
set -euo pipefail
cd "$(dirname "$0")"

# qemu-guest-agent runs the tests' commands. The others are storage that the machine of the tests lacks.
PACKAGES=qemu-guest-agent,kmod,util-linux,iproute2,e2fsprogs,xfsprogs,btrfs-progs,fuse3,nfs-common,nfs-kernel-server,samba,open-iscsi,cryptsetup-bin,dmsetup,lvm2,quota,secilc
# The modules that reach the root file system, and those that the guest loads before a test asks: no
# kernel loads them by itself. Each more costs every boot a second and more of an emulated processor.
EARLY_MODULES="virtio_pci virtio_blk ext4"
LATE_MODULES="virtio_console loop fuse"
# The modules of the kernel with Fibre Channel beside those: the others of it are left out.
FC_MODULES="crc32c_generic veth libfc libfcoe fcoe tcm_fc target_core_file scsi_transport_fc sd_mod dm_multipath dm_round_robin"

RECIPE=$(cat build.sh init early-init | sha256sum | cut -c1-12)
CACHE=${VOLHOST_CI_CACHE:-$HOME/.cache/volhost-ci}
RESULT=$CACHE/vm-$RECIPE

if [ "${1-}" = --where ]; then
    echo "$RESULT"
    exit
fi
mkdir -p "$RESULT"
# Two that build at once would build it twice.
exec 9>"$RESULT/lock"
flock 9
[ ! -e "$RESULT/complete" ] || exit 0

say() { echo "vm: $*"; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# apt's own user has to write there.
chmod 755 "$work"
mkdir -m 777 "$work/packages"

say "unpacking the kernel"
newest_kernel() {
    { apt-cache depends "$1" 2>/dev/null || true; } | sed -n 's/^ *Depends: \(linux-image-.*-amd64\)$/\1/p' | head -n 1
}
# The package lists of a fresh machine are often empty.
[ -n "$(newest_kernel linux-image-cloud-amd64)" ] || apt-get update -q >/dev/null
kernel=$(newest_kernel linux-image-cloud-amd64)
fc_kernel=$(newest_kernel linux-image-amd64)
[ -n "$kernel" ] || { say "apt has no package linux-image-cloud-amd64" >&2; exit 1; }
[ -n "$fc_kernel" ] || { say "apt has no package linux-image-amd64" >&2; exit 1; }
(cd "$work/packages" && apt-get download -q "$kernel" "$fc_kernel" busybox-static >/dev/null)
for package in "$work"/packages/*.deb; do dpkg -x "$package" "$work/unpacked"; done
version=${kernel#linux-image-}
fc_version=${fc_kernel#linux-image-}
install -m 644 "$work/unpacked/boot/vmlinuz-$version" "$RESULT/kernel"
install -m 644 "$work/unpacked/boot/vmlinuz-$fc_version" "$RESULT/kernel-fc"

say "making the root file system"
sources=()
for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    if [ -s "$file" ]; then sources+=("$file"); fi
done
mmdebstrap --quiet --mode=root --variant=minbase --include="$PACKAGES" --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    bookworm "$work/root" "${sources[@]}"
install init "$work/root/sbin/volhost-test-init"
echo "$LATE_MODULES" >"$work/root/etc/volhost-test-modules"
mkdir -p "$work/root/lib/modules" "$work/root/payload" "$work/root/disk"
cp -a "$work/unpacked/lib/modules/$version" "$work/root/lib/modules/"
chroot "$work/root" depmod "$version"

# The files of these modules of a kernel, in the order of their dependencies; what the kernel contains
# is left out, and what it lacks.
files_of() {
    local version=$1 module
    shift
    for module in "$@"; do
        chroot "$work/root" modprobe -S "$version" --show-depends "$module" 2>/dev/null || true
    done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++'
}
# All of its modules would not fit on the disk.
cp -a "$work/unpacked/lib/modules/$fc_version" "$work/root/lib/modules/"
chroot "$work/root" depmod "$fc_version"
# shellcheck disable=SC2086 # Lists of words.
files_of "$fc_version" $EARLY_MODULES $LATE_MODULES $FC_MODULES >"$work/fc-modules"
find "$work/root/lib/modules/$fc_version/kernel" -name '*.ko' | while read -r file; do
    grep -qxF "${file#"$work/root"}" "$work/fc-modules" || rm "$file"
done
chroot "$work/root" depmod "$fc_version"

# VERSION NAME MODULE...
make_initramfs() {
    local version=$1 name=$2 folder=$work/$2 number=100 file
    shift 2
    mkdir -p "$folder/bin" "$folder/modules" "$folder/root"
    install "$work/unpacked/bin/busybox" "$folder/bin/busybox"
    install early-init "$folder/init"
    files_of "$version" "$@" | while read -r file; do
        install -m 644 "$work/root$file" "$folder/modules/$number-$(basename "$file")"
        number=$((number + 1))
    done
    (cd "$folder" && find . | cpio --quiet -o -H newc | gzip -1) >"$RESULT/$name"
}
say "making the initramfs of each kernel"
# shellcheck disable=SC2086 # A list of words.
make_initramfs "$version" initramfs $EARLY_MODULES
# shellcheck disable=SC2086 # A list of words. Its ext4 has the checksum in a module that it does not name.
make_initramfs "$fc_version" initramfs-fc crc32c_generic $EARLY_MODULES

say "making the disk"
truncate -s 1500M "$work/root.img"
mke2fs -q -t ext4 -d "$work/root" "$work/root.img"
mv "$work/root.img" "$RESULT/root.img"

touch "$RESULT/complete"
say "complete: $RESULT"
