//! External drivers of the double: a test plays the driver.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::devices::BlockDevice;
use super::mount::TestMount;
use super::target::{MountTarget, TargetContent, TestFolder};
use super::world::{Shared, current};
use crate::driver_mounts::{Found, Leaf};
use crate::error::{Error, Result};

/// The folder of targets on the double's host.
const TARGETS: &str = "/volhost/targets";
/// The folder of device places on the double's host.
const DEVICES: &str = "/volhost/devices";

/// The state of drivers on the double's host.
#[derive(Debug, Default)]
pub(crate) struct Driven {
    /// The content of device places, by name: the path of a device, or only a folder.
    devices: BTreeMap<String, Option<String>>,
    /// The notes of volumes, by pod uid (empty for a staging target) and name in the pod's folder.
    notes: BTreeMap<(String, String), String>,
    /// The volumes for which a folder at the staging target is enough.
    folders: BTreeSet<String>,
    /// `attached-as` of the volume of a call.
    attached_as: Option<String>,
    /// The attachment metadata of that volume.
    metadata: BTreeMap<String, String>,
    /// Calls refresh published volumes.
    is_refresh: bool,
}

/// The actions of a driver, played by a test on this thread's [`TestHost`](super::TestHost), with
/// the paths that a plugin passes to a driver.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// use volhost_plugin_sdk::driver_mounts::Leaf;
/// use volhost_plugin_sdk::testing::{TestDriver, TestHost, TestMount};
///
/// let host = TestHost::new();
/// host.block_device("/dev/sdb");
/// TestDriver::attached_as("disk-7");
/// TestDriver::attachment_metadata("lun", "3");
/// assert_eq!(driver_mounts::attachment_metadata()["lun"], "3");
/// TestDriver::refreshes(true);
/// assert!(driver_mounts::is_refresh());
/// let target = host.target("data");
/// let place = driver_mounts::prepare(&target.handle(), Leaf::Folder)?;
/// assert!(TestDriver::mount(&place.path(), TestMount::of_type("nfs4")));
/// place.take_over()?;
/// assert!(TestDriver::unmount(&place.path()));
/// assert!(!TestDriver::takes_folder("data"));
///
/// driver_mounts::keep_note(&target.handle(), "volume-1")?;
/// let uid = target.handle().pod_uid();
/// assert_eq!(TestDriver::note(&uid, "data").as_deref(), Some("volume-1"));
/// TestDriver::lose_note(&uid, "data");
/// assert!(!TestDriver::show_device("/no/place", "/dev/sdb"));
/// assert!(!TestDriver::fill("/no/place", "data", b"content"));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct TestDriver;

impl TestDriver {
    /// Mounts at a path. False, and nothing done, if it is not a path of a target, or a mount
    /// already.
    pub fn mount(path: &str, mount: TestMount) -> bool {
        let Some(target) = target_at(path).filter(|target| target.mount_here().is_none()) else { return false };
        let point = target.content().unwrap_or_else(|| TargetContent::Folder(TestFolder::default()));
        target.put(Some(TargetContent::Mount(mount, Box::new(point))));
        true
    }

    /// Puts a file into the folder at a path, without a mount. False, and nothing done, if no plain
    /// folder of a target is there.
    pub fn fill(path: &str, name: &str, content: &[u8]) -> bool {
        let Some(target) = target_at(path) else { return false };
        let Some(TargetContent::Folder(mut folder)) = target.content() else { return false };
        folder.files.insert(name.to_owned(), content.to_vec());
        target.put(Some(TargetContent::Folder(folder)));
        true
    }

    /// Unmounts a path, and leaves the mount point. False if nothing is mounted there.
    pub fn unmount(path: &str) -> bool {
        match target_at(path).map(|target| (target.content(), target)) {
            Some((Some(TargetContent::Mount(_, point)), target)) => {
                target.put(Some(*point));
                true
            }
            _ => false,
        }
    }

    /// Sets `attached-as` for the volumes of the following calls.
    pub fn attached_as(word: &str) {
        current().borrow_mut().driven.attached_as = Some(word.to_owned());
    }

    /// Adds an entry of attachment metadata for them.
    pub fn attachment_metadata(key: &str, value: &str) {
        current().borrow_mut().driven.metadata.insert(key.to_owned(), value.to_owned());
    }

    /// Sets whether the following calls of `publish` refresh a volume that the host knows to be
    /// published.
    pub fn refreshes(refreshes: bool) {
        current().borrow_mut().driven.is_refresh = refreshes;
    }

    /// The note of a pod's volume; with an empty uid, of the staging target.
    #[must_use]
    pub fn note(pod_uid: &str, spec_name: &str) -> Option<String> {
        current().borrow().driven.notes.get(&(pod_uid.to_owned(), spec_name.to_owned())).cloned()
    }

    /// Whether the plugin accepts a folder at the staging target of a volume.
    #[must_use]
    pub fn takes_folder(spec_name: &str) -> bool {
        current().borrow().driven.folders.contains(spec_name)
    }

    /// Loses the note of a pod's volume.
    pub fn lose_note(pod_uid: &str, spec_name: &str) {
        current().borrow_mut().driven.notes.remove(&(pod_uid.to_owned(), spec_name.to_owned()));
    }

    /// Makes a device of the host appear at a path. False if it is not a path of a device place.
    pub fn show_device(path: &str, device: &str) -> bool {
        let Some(name) = path.strip_prefix(DEVICES).and_then(|rest| rest.strip_prefix('/')) else { return false };
        let world = current();
        world.borrow_mut().driven.devices.insert(name.to_owned(), Some(device.to_owned()));
        true
    }
}

fn target_at(path: &str) -> Option<MountTarget> {
    let (pod, name) = path.strip_prefix(TARGETS)?.strip_prefix('/')?.split_once('/')?;
    let pod = if pod == "node" { "" } else { pod };
    Some(MountTarget::new(&current(), pod, name))
}

/// A place for a driver's mount.
#[derive(Debug)]
pub(crate) struct DriverPlace {
    world: Shared,
    target: MountTarget,
    mounted_before: bool,
}

impl DriverPlace {
    pub(crate) fn path(&self) -> String {
        let pod = match self.target.pod_uid() {
            pod if pod.is_empty() => "node".to_owned(),
            pod => pod,
        };
        format!("{TARGETS}/{pod}/{}", self.target.spec_name())
    }

    pub(crate) fn may_be_folder(&self) {
        self.world.borrow_mut().driven.folders.insert(self.target.spec_name());
    }

    fn is_filled(&self) -> bool {
        let may_be = self.world.borrow().driven.folders.contains(&self.target.spec_name());
        may_be && matches!(self.target.content(), Some(TargetContent::Folder(folder)) if !folder.files.is_empty())
    }

    pub(crate) fn take_over(&self) -> Result<Found> {
        self.world.borrow_mut().called("driver-place.take-over")?;
        match (self.target.mount_here(), self.mounted_before) {
            (Some(_), true) => Ok(Found::SameMount),
            (Some(_), false) => Ok(Found::NewMount),
            (None, _) if self.is_filled() => Ok(Found::FilledFolder),
            (None, _) => Err(Error::not_found(format!("the driver has mounted nothing at {}", self.path()))),
        }
    }
}

/// A place for a driver's device.
#[derive(Debug)]
pub(crate) struct DevicePlace {
    world: Shared,
    name: String,
}

impl DevicePlace {
    pub(crate) fn path(&self) -> String {
        format!("{DEVICES}/{}", self.name)
    }

    pub(crate) fn device(&self) -> Result<Option<BlockDevice>> {
        self.world.borrow_mut().called("device-place.device")?;
        let shown = self.world.borrow().driven.devices.get(&self.name).cloned();
        match shown {
            None => Ok(None),
            Some(None) => Err(Error::conflict(format!("{}: it is a folder", self.path()))),
            Some(Some(device)) => BlockDevice::open(&self.world, &device).map(Some),
        }
    }

    pub(crate) fn clear(&self) -> Result<()> {
        let mut world = self.world.borrow_mut();
        world.called("device-place.clear")?;
        world.driven.devices.remove(&self.name);
        Ok(())
    }
}

pub(crate) mod driver_mounts {
    use super::{DevicePlace, DriverPlace, Leaf, MountTarget, Rc, Result, TargetContent, TestFolder, current};
    use crate::error::Error;

    /// The mode of a folder that a driver finds.
    const FOLDER_MODE: u32 = 0o750;

    pub(crate) fn prepare(target: &MountTarget, leaf: Leaf) -> Result<DriverPlace> {
        let world = current();
        world.borrow_mut().called("driver-mounts.prepare")?;
        match (target.content(), leaf) {
            (Some(TargetContent::Mount(..)), _)
            | (None, Leaf::Absent)
            | (Some(TargetContent::Folder(_)), Leaf::Folder) => {}
            (None, Leaf::Folder) => {
                target.put(Some(TargetContent::Folder(TestFolder { mode: FOLDER_MODE, ..TestFolder::default() })));
            }
            (Some(TargetContent::File), Leaf::Folder) => {
                return Err(Error::conflict("driver-mounts.prepare: the target is a file"));
            }
            (Some(TargetContent::Folder(folder)), Leaf::Absent) if !folder.files.is_empty() => {
                return Err(Error::conflict("driver-mounts.prepare: the folder is not empty"));
            }
            (Some(TargetContent::Folder(_) | TargetContent::File), Leaf::Absent) => target.put(None),
        }
        let mounted_before = target.mount_here().is_some();
        Ok(DriverPlace { world: Rc::clone(&world), target: target.clone(), mounted_before })
    }

    pub(crate) fn node_path(target: &MountTarget) -> Result<Option<String>> {
        let world = current();
        world.borrow_mut().called("driver-mounts.node-path")?;
        let node = MountTarget::new(&world, "", &target.spec_name());
        let path = node.content().map(|_| format!("{}/node/{}", super::TARGETS, target.spec_name()));
        Ok(path.filter(|_| !target.pod_uid().is_empty()))
    }

    pub(crate) fn attached_as() -> Option<String> {
        current().borrow().driven.attached_as.clone()
    }

    pub(crate) fn attachment_metadata() -> Vec<(String, String)> {
        current().borrow().driven.metadata.clone().into_iter().collect()
    }

    pub(crate) fn is_refresh() -> bool {
        current().borrow().driven.is_refresh
    }

    pub(crate) fn keep_note(target: &MountTarget, note: &str) -> Result<()> {
        let world = current();
        let mut world = world.borrow_mut();
        world.called("driver-mounts.keep-note")?;
        let key = (target.pod_uid(), target.spec_name());
        match note {
            "" => world.driven.notes.remove(&key),
            note => world.driven.notes.insert(key, note.to_owned()),
        };
        Ok(())
    }

    pub(crate) fn note(target: &MountTarget) -> Result<Option<String>> {
        let world = current();
        let mut world = world.borrow_mut();
        world.called("driver-mounts.note")?;
        Ok(world.driven.notes.get(&(target.pod_uid(), target.spec_name())).cloned())
    }

    pub(crate) fn device_places() -> Result<Vec<String>> {
        Ok(current().borrow().driven.devices.keys().cloned().collect())
    }

    pub(crate) fn prepare_device(name: &str, leaf: Leaf) -> Result<DevicePlace> {
        let world = current();
        {
            let mut inside = world.borrow_mut();
            inside.called("driver-mounts.prepare-device")?;
            if leaf == Leaf::Folder {
                inside.driven.devices.entry(name.to_owned()).or_insert(None);
            }
        }
        Ok(DevicePlace { world, name: name.to_owned() })
    }
}
