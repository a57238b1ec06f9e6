//! Devices of the device mapper that fail or hang, as `local` volumes.

use std::sync::Arc;

use volhost_tests::manifests::pod;
use volhost_tests::vm::Guest;

use crate::kit::{Daemon, claimed};

const LOCAL: &str = "kubernetes.io~local-volume";
/// The guest has no udev: the tools make the device nodes themselves.
const NO_UDEV: &str = "export DM_DISABLE_UDEV=1";
/// A guest with devices of one test.
struct Devices {
    guest: Arc<Guest>,
    /// Those that may hang.
    names: &'static [&'static str],
}

impl Devices {
    fn new(names: &'static [&'static str]) -> Self {
        let guest = Guest::shared();
        guest.run("mkdir -p /disk/devices /run/lock /run/cryptsetup");
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
    /// A device that hangs would keep the guest's other tests waiting.
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
