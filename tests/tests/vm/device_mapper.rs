//! Devices of the device mapper as `local` volumes: logical volumes, encrypted devices, and devices
//! that fail or hang.

use volhost_tests::manifests::{device_pod, pod};
use volhost_tests::vm::Guest;

use crate::kit::{Daemon, claimed};

const LOCAL: &str = "kubernetes.io~local-volume";
/// The guest has no udev: the tools make the device nodes themselves.
const NO_UDEV: &str = "export DM_DISABLE_UDEV=1 LVM_SUPPRESS_FD_WARNINGS=1";
const LVM: &str = "--config 'activation { udev_sync = 0 udev_rules = 0 } devices { obtain_device_list_from_udev = 0 \
                   use_devicesfile = 0 filter = [ \"a|^/dev/loop|\", \"r|.*|\" ] }'";

/// A guest with devices of one test.
struct Devices {
    guest: Guest,
    /// Those that may hang.
    names: &'static [&'static str],
}

impl Devices {
    fn new(names: &'static [&'static str]) -> Self {
        let guest = Guest::borrow();
        guest.run("modprobe dm_mod; mkdir -p /disk/devices /run/lock /run/cryptsetup");
        Self { guest, names }
    }

    fn run(&self, script: &str) -> String {
        self.guest.run(&format!("{NO_UDEV}\n{script}"))
    }

    /// Makes a disk: an empty file as a loop device. Returns its path.
    fn disk(&self, name: &str, size: &str) -> String {
        let image = format!("/disk/devices/{name}");
        self.run(&format!("truncate -s {size} {image}; losetup --show -f {image}")).trim().to_owned()
    }

    /// Makes a device of this name that leads to a disk of 16 MiB: all of a blank device is
    /// read, and the guest computes slowly.
    fn linear(&self, name: &str) {
        let disk = self.disk(name, "16M");
        self.run(&format!("dmsetup create {name} --table \"0 $(blockdev --getsz {disk}) linear {disk} 0\""));
    }

    /// Lets each read and write of the device fail from now on.
    fn fail(&self, name: &str) {
        self.run(&format!(
            "dmsetup reload {name} --table \"0 $(blockdev --getsz /dev/mapper/{name}) error\"
             dmsetup suspend --noflush --nolockfs {name}; dmsetup resume {name}"
        ));
    }

    /// Removes the device and its disk: nothing may use it.
    fn remove(&self, name: &str) {
        self.run(&format!("dmsetup remove {name}; losetup -d $(losetup -nO NAME -j /disk/devices/{name})"));
    }
}

impl Drop for Devices {
    /// A device that hangs would keep the guest's next test waiting.
    fn drop(&mut self) {
        for name in self.names {
            let _ = self.guest.try_run(&format!("{NO_UDEV}\ndmsetup resume {name}"));
        }
    }
}

/// A PersistentVolume of a device, its claim, and a pod that uses it, all of this name.
fn user(name: &str, size: &str, device: &str) -> String {
    format!("{}{}", volume(name, size, "Filesystem", device), pod(name, &format!("uid-{name}"), &[&of_claim(name)]))
}

fn of_claim(name: &str) -> String {
    format!("name: {name}, persistentVolumeClaim: {{ claimName: {name} }}")
}

fn volume(name: &str, size: &str, mode: &str, device: &str) -> String {
    let fields = format!(
        "local: {{ path: {device} }}
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions:
            - {{ key: kubernetes.io/hostname, operator: In, values: [guest] }}"
    );
    claimed(name, size, mode, &fields)
}

/// The folder of a pod's volume of the same name.
fn place(daemon: &Daemon<'_>, name: &str) -> String {
    format!("{}/root/pods/uid-{name}/volumes/{LOCAL}/{name}", daemon.folder())
}

#[test]
fn logical_volumes_and_encrypted_devices_are_formatted_grown_adopted_and_let_go() {
    let devices = Devices::new(&[]);
    let disk = devices.disk("lvm", "80M");
    devices.run(&format!(
        "pvcreate -q {LVM} {disk}; vgcreate -q {LVM} vg {disk}
         lvcreate -q {LVM} -y -L 32M -n data vg; lvcreate -q {LVM} -y -L 4M -n raw vg"
    ));
    let encrypted = devices.disk("luks", "6M");
    devices.run(&format!(
        "printf secret >/run/key
         cryptsetup luksFormat -q --type luks2 --luks2-metadata-size 16k --luks2-keyslots-size 256k --pbkdf pbkdf2 --pbkdf-force-iterations 1000 {encrypted} /run/key
         cryptsetup open --key-file /run/key {encrypted} secret; rm /run/key"
    ));
    let daemon = Daemon::start(&devices.guest, "dm", &["empty-dir", "local"]);
    daemon.add("data.yaml", &user("data", "32Mi", "/dev/vg/data"));
    daemon.add("secret.yaml", &user("secret", "4Mi", "/dev/mapper/secret"));
    daemon.add(
        "raw.yaml",
        &format!("{}{}", volume("raw", "4Mi", "Block", "/dev/vg/raw"), device_pod("raw", "uid-raw", "raw")),
    );
    // The disk itself is LVM's.
    daemon.add("disk.yaml", &user("disk", "80Mi", &disk));
    // A new encrypted device reads as noise, which could be data: the operator says that it is none.
    daemon.wait_event(&["FailedMount", "default/secret", "contains data that no tool recognises"]);
    devices.run("blkdiscard --force --zeroout /dev/mapper/secret");
    for name in ["data", "secret", "raw"] {
        daemon.wait_mounted(&format!("default/{name}"));
    }
    daemon.wait_event(&["FailedMount", "default/disk", &disk, "belongs to swap, RAID or LVM"]);
    daemon.remove("disk.yaml");
    for name in ["data", "secret"] {
        devices.run(&format!("echo kept >{0}/word; sync -f {0}", place(&daemon, name)));
    }
    let raw = format!("{}/root/pods/uid-raw/volumeDevices/{LOCAL}/raw", daemon.folder());
    devices.run(&format!("echo kept | dd of={raw} conv=fsync status=none"));

    let before = daemon.mounts();
    daemon.kill();
    daemon.run();
    daemon.wait_mounted("default/data");
    assert_eq!(daemon.mounts(), before, "the same mounts");
    devices.run(&format!("lvextend -q {LVM} -L 48M vg/data"));
    daemon.add("data.yaml", &user("data", "48Mi", "/dev/vg/data"));
    devices.run(&format!(
        "for turn in $(seq 600); do
             [ $(df -B1M --output=size {} | tail -n 1) -ge 36 ] && exit; read -t 0.1 line </dev/zero || true
         done; exit 1",
        place(&daemon, "data")
    ));

    for name in ["data", "secret", "raw"] {
        daemon.remove(&format!("{name}.yaml"));
        daemon.wait_unmounted(&format!("default/{name}"));
    }
    let drained = daemon.volhost("drain");
    assert!(drained.succeeded(), "{drained:?}");
    daemon.assert_clean();
    // The data is there, and nothing uses the devices: they can be removed.
    devices.run(&format!(
        "mkdir -p /run/seen; e2fsck -fn /dev/vg/data; mount -o ro /dev/vg/data /run/seen; grep kept /run/seen/word; umount /run/seen
         grep -q '^kept$' /dev/vg/raw -a -m 1
         cryptsetup close secret; grep -aq ^kept /disk/devices/luks && exit 1
         vgremove -q {LVM} -f vg; pvremove -q {LVM} {disk}; losetup -d {disk}; losetup -d {encrypted}"
    ));
    daemon.kill();
}

#[test]
fn a_device_that_fails_hurts_its_own_volume_and_its_pod_can_be_removed() {
    let devices = Devices::new(&[]);
    devices.linear("worn");
    devices.linear("dead");
    devices.fail("dead");
    let daemon = Daemon::start(&devices.guest, "dm-error", &["empty-dir", "local"]);
    daemon.add("worn.yaml", &user("worn", "16Mi", "/dev/mapper/worn"));
    daemon.add("dead.yaml", &user("dead", "16Mi", "/dev/mapper/dead"));
    daemon.wait_mounted("default/worn");
    daemon.wait_event(&["FailedMount", "default/dead", "reading block device /dev/mapper/dead", "I/O error"]);

    // It fails while it is used, with data that is not written yet.
    devices.run(&format!("echo lost >{}/word", place(&daemon, "worn")));
    devices.fail("worn");
    let refused =
        devices.guest.try_run(&format!("sync -f {0}; echo more >{0}/more && sync -f {0}", place(&daemon, "worn")));
    assert!(!refused.succeeded(), "{refused:?}");
    daemon.add("other.yaml", &pod("other", "uid-other", &["name: cache, emptyDir: {}"]));
    daemon.wait_mounted("default/other");
    // A restart while the device fails changes nothing.
    daemon.kill();
    daemon.run();
    for name in ["worn", "dead"] {
        daemon.remove(&format!("{name}.yaml"));
        daemon.wait_unmounted(&format!("default/{name}"));
    }
    daemon.remove("other.yaml");
    let drained = daemon.volhost("drain");
    assert!(drained.succeeded(), "{drained:?}");
    daemon.assert_clean();
    devices.remove("worn");
    devices.remove("dead");
    daemon.kill();
}

#[test]
fn a_device_that_hangs_is_named_and_delays_no_other_volume_and_comes_back() {
    let devices = Devices::new(&["slow", "stuck"]);
    devices.linear("slow");
    devices.linear("stuck");
    let daemon = Daemon::start_with(&devices.guest, "dm-hang", &["empty-dir", "local"], "--operation-deadline 5s");
    daemon.add("slow.yaml", &user("slow", "16Mi", "/dev/mapper/slow"));
    daemon.wait_mounted("default/slow");
    devices.run(&format!("echo kept >{}/word", place(&daemon, "slow")));
    // One hangs while it is mounted, and one while it is used.
    devices.run("dmsetup suspend --noflush --nolockfs slow; dmsetup suspend --noflush --nolockfs stuck");
    daemon.add("stuck.yaml", &user("stuck", "16Mi", "/dev/mapper/stuck"));
    daemon.remove("slow.yaml");
    daemon.wait_event(&["VolumeOverdue", "default/stuck", "filesystems.probe"]);
    daemon.wait_event(&["VolumeOverdue", "unmount_device of volume", "slow"]);
    let described = daemon.volhost("describe pod default/stuck");
    assert!(described.output.contains("past its deadline, at: filesystems.probe"), "{described:?}");
    daemon.add("other.yaml", &pod("other", "uid-other", &["name: cache, emptyDir: {}"]));
    daemon.wait_mounted("default/other");
    daemon.remove("other.yaml");
    daemon.wait_unmounted("default/other");

    devices.run("dmsetup resume slow; dmsetup resume stuck");
    daemon.wait_mounted("default/stuck");
    daemon.add("slow.yaml", &user("slow", "16Mi", "/dev/mapper/slow"));
    daemon.wait_mounted("default/slow");
    assert_eq!(devices.run(&format!("cat {}/word", place(&daemon, "slow"))), "kept\n");
    for name in ["slow", "stuck"] {
        daemon.remove(&format!("{name}.yaml"));
        daemon.wait_unmounted(&format!("default/{name}"));
    }
    let drained = daemon.volhost("drain");
    assert!(drained.succeeded(), "{drained:?}");
    daemon.assert_clean();
    devices.remove("slow");
    devices.remove("stuck");
    daemon.kill();
}
