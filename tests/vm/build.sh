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
#   root.img      ext4: a minimal Debian with the programs of PACKAGES, and init
set -euo pipefail
cd "$(dirname "$0")"

# qemu-guest-agent runs the tests' commands. The others are storage that the machine of the tests lacks.
PACKAGES=qemu-guest-agent,kmod,util-linux,iproute2,e2fsprogs,xfsprogs,btrfs-progs,fuse3,nfs-common,nfs-kernel-server,samba,open-iscsi,cryptsetup-bin,dmsetup,lvm2,quota,secilc
# The modules that reach the root file system, and those that the guest loads before a test asks.
EARLY_MODULES="virtio_pci virtio_blk ext4"
LATE_MODULES="virtio_console loop overlay fuse xfs btrfs nfs nfsd quota_v2 configfs target_core_mod target_core_file iscsi_target_mod iscsi_tcp sd_mod dm_mod"

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
    { apt-cache depends linux-image-cloud-amd64 2>/dev/null || true; } | sed -n 's/^ *Depends: \(linux-image-.*-cloud-amd64\)$/\1/p' | head -n 1
}
kernel=$(newest_kernel)
# The package lists of a fresh machine are often empty.
[ -n "$kernel" ] || { apt-get update -q >/dev/null && kernel=$(newest_kernel); }
[ -n "$kernel" ] || { say "apt has no package linux-image-cloud-amd64" >&2; exit 1; }
(cd "$work/packages" && apt-get download -q "$kernel" busybox-static >/dev/null)
for package in "$work"/packages/*.deb; do dpkg -x "$package" "$work/unpacked"; done
version=${kernel#linux-image-}
install -m 644 "$work/unpacked/boot/vmlinuz-$version" "$RESULT/kernel"

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

say "making the initramfs"
mkdir -p "$work/initramfs/bin" "$work/initramfs/modules" "$work/initramfs/root"
install "$work/unpacked/bin/busybox" "$work/initramfs/bin/busybox"
install early-init "$work/initramfs/init"
# In the order of their dependencies; what the kernel contains is left out.
number=100
for module in $EARLY_MODULES; do
    chroot "$work/root" modprobe -S "$version" --show-depends "$module"
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r file; do
    install -m 644 "$work/root$file" "$work/initramfs/modules/$number-$(basename "$file")"
    number=$((number + 1))
done
(cd "$work/initramfs" && find . | cpio --quiet -o -H newc | gzip -1) >"$RESULT/initramfs"

say "making the disk"
truncate -s 1500M "$work/root.img"
mke2fs -q -t ext4 -d "$work/root" "$work/root.img"
mv "$work/root.img" "$RESULT/root.img"

touch "$RESULT/complete"
say "complete: $RESULT"
