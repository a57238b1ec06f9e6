//! Image files, loop devices and file systems of the double.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::world::Shared;
use crate::error::{Error, Result};

/// An image file or a disk, the storage of a device.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// use volhost_plugin_sdk::testing::{TestDisk, TestHost};
///
/// let host = TestHost::new();
/// host.grant_images("/srv/images").image("/srv/images/a.img", 1 << 20).contents("/srv/images/a.img", "ext4");
/// host.disk_device("/dev/sdb", 1 << 30).grant_devices("/dev/sdb").use_device("/dev/sdb", true).lock_device("/dev/sdb");
/// let device = block_devices::open("/dev/sdb")?;
/// assert!(device.is_in_use()? && device.is_read_only()?);
///
/// host.damage("/srv/images/a.img");
/// let disk: TestDisk = host.disk("/srv/images/a.img").expect("it is there");
/// assert_eq!((disk.contents.as_deref(), disk.fs_size, disk.damaged), (Some("ext4"), 1 << 20, true));
/// assert!(disk.format_options.is_empty(), "no plugin has formatted it");
/// assert_eq!(host.loop_over("/srv/images/a.img"), None);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestDisk {
    /// Its size in bytes.
    pub size: u64,
    /// Its content: a file system's type, `partitions`; none when blank.
    pub contents: Option<String>,
    /// The size of the file system on it, in bytes.
    pub fs_size: u64,
    /// The file system is beyond repair.
    pub damaged: bool,
    /// The bytes of the host's disk that are reserved for it.
    pub reserved: u64,
    /// The options that it was formatted with, by the names of the contract's `format-options`:
    /// `label`, `block-size`, `keep-room`, `feature quota`.
    pub format_options: BTreeMap<String, String>,
}

/// A device of the double, by its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    /// The disk behind it.
    pub(crate) backing: String,
    pub(crate) read_only: bool,
    /// It is in use.
    pub(crate) busy: bool,
}

/// Every disk, by the path of its image or device, and every device.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    pub(crate) disks: BTreeMap<String, TestDisk>,
    pub(crate) devices: BTreeMap<String, Device>,
    /// Folders in which images may be made.
    pub(crate) folders: Vec<String>,
    /// Devices that may be opened, by the beginnings of their paths.
    pub(crate) granted: Vec<String>,
}

impl Devices {
    /// The loop device over an image.
    pub(crate) fn loop_over(&self, image: &str) -> Option<(&String, &Device)> {
        self.devices.iter().find(|(path, device)| device.backing == image && path.starts_with("/dev/loop"))
    }

    fn disk_of(&mut self, device: &str) -> Result<(&mut TestDisk, bool)> {
        let gone = || Error::not_found(format!("{device}: no such device"));
        let found = self.devices.get(device).ok_or_else(gone)?;
        Ok((self.disks.get_mut(&found.backing).ok_or_else(gone)?, found.read_only))
    }
}

/// A device's handle.
#[derive(Debug, Clone)]
pub(crate) struct BlockDevice {
    pub(crate) world: Shared,
    pub(crate) path: String,
}

impl BlockDevice {
    pub(crate) fn open(world: &Shared, path: &str) -> Result<Self> {
        if world.borrow().devices.devices.contains_key(path) {
            return Ok(Self { world: Rc::clone(world), path: path.to_owned() });
        }
        Err(Error::not_found(format!("open {path}: No such file or directory")))
    }

    pub(crate) fn path(&self) -> String {
        self.path.clone()
    }

    pub(crate) fn size(&self) -> Result<u64> {
        self.disk(|disk, _| Ok(disk.size))
    }

    pub(crate) fn read_only(&self) -> Result<bool> {
        self.disk(|_, read_only| Ok(read_only))
    }

    pub(crate) fn in_use(&self) -> Result<bool> {
        Ok(self.world.borrow().devices.devices.get(&self.path).is_some_and(|device| device.busy))
    }

    fn disk<T>(&self, with: impl FnOnce(&mut TestDisk, bool) -> Result<T>) -> Result<T> {
        let mut world = self.world.borrow_mut();
        let (disk, read_only) = world.devices.disk_of(&self.path)?;
        with(disk, read_only)
    }
}

/// The state of an attached volume; [`TestAttachment::new`] begins one.
///
/// ```
/// use volhost_plugin_sdk::testing::TestAttachment;
///
/// // The report of a controller that attached a volume.
/// let attached = TestAttachment::new("disk-7").with_metadata("lun", "3").with_device_path("/dev/sdb");
/// # let _ = attached;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestAttachment {
    attached_as: String,
    metadata: BTreeMap<String, String>,
    device_path: Option<String>,
}

impl TestAttachment {
    /// An attachment with this answer of `attach`, before its device was found.
    #[must_use]
    pub fn new(attached_as: &str) -> Self {
        Self { attached_as: attached_as.to_owned(), ..Self::default() }
    }

    /// Adds an entry of the controller's attachment metadata.
    #[must_use]
    pub fn with_metadata(mut self, key: &str, value: &str) -> Self {
        self.metadata.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets the path at which its device was found.
    #[must_use]
    pub fn with_device_path(mut self, device_path: &str) -> Self {
        self.device_path = Some(device_path.to_owned());
        self
    }

    pub(crate) fn handle(&self, world: &Shared) -> Attachment {
        Attachment { world: Rc::clone(world), known: self.clone() }
    }
}

/// An attachment's handle.
#[derive(Debug)]
pub(crate) struct Attachment {
    world: Shared,
    known: TestAttachment,
}

impl Attachment {
    pub(crate) fn attached_as(&self) -> String {
        self.known.attached_as.clone()
    }

    pub(crate) fn metadata(&self) -> Vec<(String, String)> {
        self.known.metadata.clone().into_iter().collect()
    }

    pub(crate) fn device_path(&self) -> Option<String> {
        self.known.device_path.clone()
    }

    pub(crate) fn open(&self) -> Result<BlockDevice> {
        self.world.borrow_mut().called("attachment.open")?;
        match &self.known.device_path {
            Some(path) => BlockDevice::open(&self.world, path),
            None => Err(Error::precondition("the volume's device has not been found yet")),
        }
    }
}

pub(crate) mod block_devices {
    use super::BlockDevice;
    use crate::error::{Error, Result};
    use crate::testing::tree::Node;
    use crate::testing::world::current;

    pub(crate) fn open(path: &str) -> Result<BlockDevice> {
        let world = current();
        world.borrow_mut().called("block-devices.open")?;
        let (real, node) = world.borrow().tree.resolve(path)?;
        if !world.borrow().devices.granted.iter().any(|granted| real.starts_with(granted.as_str())) {
            return Err(Error::permission_denied(format!("{real} is not granted to this plugin")));
        }
        if node != Node::BlockDevice {
            return Err(Error::conflict(format!("{path}: expected a block device, found a {}", node.word())));
        }
        BlockDevice::open(&world, &real)
    }
}

pub(crate) mod loop_devices {
    use super::{BlockDevice, Device, TestDisk};
    use crate::error::{Error, Result};
    use crate::testing::tree::parent_of;
    use crate::testing::world::{Shared, current};

    /// When every image was changed last, in seconds since 1970.
    const MADE: u64 = 1_700_000_000;
    /// The free space of the double's disk, in bytes.
    const FREE_BYTES: u64 = 1 << 40;

    pub(crate) fn folders() -> Vec<String> {
        current().borrow().devices.folders.clone()
    }

    pub(crate) fn ensure_image(path: &str, size: u64) -> Result<u64> {
        let world = entered("loop-devices.ensure-image", path)?;
        let mut world = world.borrow_mut();
        if !world.devices.disks.contains_key(path) {
            world.tree.resolve(parent_of(path))?;
            world.devices.disks.insert(path.to_owned(), TestDisk { size, ..TestDisk::default() });
        }
        let disk = world.devices.disks.entry(path.to_owned()).or_default();
        disk.size = disk.size.max(size);
        Ok(disk.size)
    }

    pub(crate) fn create(path: &str, read_only: bool) -> Result<BlockDevice> {
        let world = entered("loop-devices.create", path)?;
        let found = world.borrow().devices.loop_over(path).map(|(path, device)| (path.clone(), device.read_only));
        match found {
            Some((at, same)) if same == read_only => return BlockDevice::open(&world, &at),
            Some((at, _)) => return Err(Error::conflict(format!("{path}: {at} over it differs in being read-only"))),
            None => {}
        }
        if !world.borrow().devices.disks.contains_key(path) {
            return Err(Error::not_found(format!("open {path}: No such file or directory")));
        }
        let at = {
            let mut world = world.borrow_mut();
            let free = (0..).map(|n: u32| format!("/dev/loop{n}"));
            let at = free.into_iter().find(|at| !world.devices.devices.contains_key(at)).unwrap_or_default();
            let device = Device { backing: path.to_owned(), read_only, busy: false };
            world.devices.devices.insert(at.clone(), device);
            at
        };
        BlockDevice::open(&world, &at)
    }

    pub(crate) fn find(path: &str) -> Result<Option<BlockDevice>> {
        let world = entered("loop-devices.find", path)?;
        let found = world.borrow().devices.loop_over(path).map(|(path, _)| path.clone());
        found.map(|at| BlockDevice::open(&world, &at)).transpose()
    }

    pub(crate) fn remove(path: &str) -> Result<()> {
        let world = entered("loop-devices.remove", path)?;
        let found = world.borrow().devices.loop_over(path).map(|(path, device)| (path.clone(), device.busy));
        match found {
            Some((at, true)) => Err(Error::busy(format!("{at}: Device or resource busy"))),
            Some((at, false)) => {
                world.borrow_mut().devices.devices.remove(&at);
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(crate) fn names(folder: &str, after: &str, most: u32) -> Result<Vec<String>> {
        let world = folder_entered("loop-devices.names", folder)?;
        let world = world.borrow();
        let begin = format!("{}/", folder.trim_end_matches('/'));
        let names = world.devices.disks.keys().filter_map(|path| path.strip_prefix(&begin));
        let names = names.filter(|name| !name.contains('/') && *name > after);
        Ok(names.take(usize::try_from(most).unwrap_or(usize::MAX)).map(str::to_owned).collect())
    }

    pub(crate) fn facts(path: &str) -> Result<(u64, u64)> {
        let world = entered("loop-devices.facts", path)?;
        let found = world.borrow().devices.disks.get(path).map(|disk| (disk.size, MADE));
        found.ok_or_else(|| Error::not_found(format!("open {path}: No such file or directory")))
    }

    pub(crate) fn copy(image: &str, to: &str) -> Result<u64> {
        entered("loop-devices.copy", image)?;
        let world = entered("loop-devices.copy", to)?;
        let mut world = world.borrow_mut();
        let Some(disk) = world.devices.disks.get(image).cloned() else {
            return Err(Error::not_found(format!("open {image}: No such file or directory")));
        };
        if world.devices.disks.contains_key(to) {
            return Err(Error::conflict(format!("copying to {to}: File exists")));
        }
        if world.devices.loop_over(image).is_some() {
            return Err(Error::busy(format!("copying {image}: it has a loop device")));
        }
        let size = disk.size;
        world.devices.disks.insert(to.to_owned(), TestDisk { reserved: 0, ..disk });
        Ok(size)
    }

    /// A device over an image counts as one from which a file system is mounted, unless it is busy.
    pub(crate) fn copy_together(copies: &[(String, String)]) -> Result<()> {
        let mut made = Vec::new();
        for (image, to) in copies {
            entered("loop-devices.copy-together", image)?;
            let world = entered("loop-devices.copy-together", to)?;
            let world = world.borrow();
            let Some(disk) = world.devices.disks.get(image) else {
                return Err(Error::not_found(format!("open {image}: No such file or directory")));
            };
            if world.devices.disks.contains_key(to) || made.iter().any(|(made, _)| made == to) {
                return Err(Error::conflict(format!("copying to {to}: File exists")));
            }
            if world.devices.loop_over(image).is_some_and(|(_, device)| device.busy) {
                return Err(Error::busy(format!(
                    "copying {image}: it has a loop device, from which nothing is mounted"
                )));
            }
            made.push((to.clone(), TestDisk { reserved: 0, ..disk.clone() }));
        }
        current().borrow_mut().devices.disks.extend(made);
        Ok(())
    }

    pub(crate) fn reserve(path: &str, size: u64) -> Result<u64> {
        let world = entered("loop-devices.reserve", path)?;
        let mut world = world.borrow_mut();
        let Some(disk) = world.devices.disks.get_mut(path) else {
            return Err(Error::not_found(format!("open {path}: No such file or directory")));
        };
        if size > FREE_BYTES {
            return Err(Error::other("ENOSPC", format!("reserving the space of {path}: No space left on device")));
        }
        disk.size = disk.size.max(size);
        disk.reserved = disk.size;
        Ok(disk.size)
    }

    pub(crate) fn release(path: &str) -> Result<()> {
        let world = entered("loop-devices.release", path)?;
        let mut world = world.borrow_mut();
        if world.devices.loop_over(path).is_some() {
            return Err(Error::busy(format!("releasing the space of {path}: it has a loop device")));
        }
        let Some(disk) = world.devices.disks.get_mut(path) else {
            return Err(Error::not_found(format!("open {path}: No such file or directory")));
        };
        disk.reserved = 0;
        Ok(())
    }

    pub(crate) fn taken(path: &str) -> Result<u64> {
        let world = entered("loop-devices.taken", path)?;
        let found = world.borrow().devices.disks.get(path).map(|disk| disk.reserved);
        found.ok_or_else(|| Error::not_found(format!("open {path}: No such file or directory")))
    }

    pub(crate) fn discard(path: &str) -> Result<()> {
        let world = entered("loop-devices.discard", path)?;
        let mut world = world.borrow_mut();
        if world.devices.loop_over(path).is_some() {
            return Err(Error::busy(format!("removing {path}: it has a loop device")));
        }
        world.devices.disks.remove(path);
        Ok(())
    }

    pub(crate) fn free_space(folder: &str) -> Result<u64> {
        folder_entered("loop-devices.free-space", folder).map(|_| FREE_BYTES)
    }

    /// As [`entered`], of a folder, which may be a granted one itself.
    fn folder_entered(call: &'static str, folder: &str) -> Result<Shared> {
        entered(call, &format!("{}/.", folder.trim_end_matches('/')))
    }

    /// Records the call and checks the path against the grant.
    fn entered(call: &'static str, path: &str) -> Result<Shared> {
        let world = current();
        world.borrow_mut().called(call)?;
        if !path.starts_with('/') || path.split('/').any(|name| name == "..") || path.contains('\0') {
            return Err(Error::invalid_argument(format!("{path:?} must be an absolute path without `..`")));
        }
        let within =
            |root: &String| path.strip_prefix(root.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'));
        let granted = world.borrow().devices.folders.iter().any(within);
        if granted {
            return Ok(world);
        }
        Err(Error::permission_denied(format!("{path} lies outside the folders granted to this plugin")))
    }
}

pub(crate) mod filesystems {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::BlockDevice;
    use crate::error::{Error, Result};
    use crate::testing::mount::{DetachedMount, FsOption, TestMount};
    use crate::testing::target::MountTarget;
    use crate::testing::world::current;

    /// The file systems that the contract allows.
    const TYPES: &[&str] = &["ext2", "ext3", "ext4", "xfs", "btrfs"];

    pub(crate) fn probe(device: &BlockDevice) -> Result<Option<String>> {
        current().borrow_mut().called("probe")?;
        device.disk(|disk, _| Ok(disk.contents.clone()))
    }

    /// The options of a format, as text.
    #[derive(Debug, Default)]
    pub(crate) struct FormatOptions(RefCell<BTreeMap<String, String>>);

    impl FormatOptions {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        fn set(&self, name: &str, value: impl ToString) {
            self.0.borrow_mut().insert(name.to_owned(), value.to_string());
        }

        pub(crate) fn label(&self, label: &str) {
            self.set("label", label);
        }

        pub(crate) fn uuid(&self, uuid: &str) {
            self.set("uuid", uuid);
        }

        pub(crate) fn block_size(&self, bytes: u32) {
            self.set("block-size", bytes);
        }

        pub(crate) fn inode_size(&self, bytes: u32) {
            self.set("inode-size", bytes);
        }

        pub(crate) fn bytes_per_inode(&self, bytes: u32) {
            self.set("bytes-per-inode", bytes);
        }

        pub(crate) fn reserved_percent(&self, percent: u32) {
            self.set("reserved-percent", percent);
        }

        pub(crate) fn feature(&self, name: &str, enabled: bool) {
            self.set(&format!("feature {name}"), enabled);
        }

        pub(crate) fn keep_room(&self) {
            self.set("keep-room", true);
        }
    }

    pub(crate) fn format(device: &BlockDevice, fs_type: &str, options: &FormatOptions) -> Result<()> {
        current().borrow_mut().called("format")?;
        known(fs_type)?;
        device.disk(|disk, read_only| match &disk.contents {
            Some(found) => Err(Error::conflict(format!("{} contains {found}; it is not formatted", device.path))),
            None if read_only => Err(Error::permission_denied(format!("{} is read-only", device.path))),
            None => {
                disk.contents = Some(fs_type.to_owned());
                disk.fs_size = disk.size;
                disk.format_options = options.0.borrow().clone();
                Ok(())
            }
        })
    }

    pub(crate) fn mount(
        device: &BlockDevice,
        fs_type: &str,
        options: &[FsOption],
        read_only: bool,
    ) -> Result<DetachedMount> {
        let world = current();
        world.borrow_mut().called("filesystems.mount")?;
        known(fs_type)?;
        let disk = device.disk(|disk, _| Ok(disk.clone()))?;
        match &disk.contents {
            Some(found) if found == fs_type => {}
            found => {
                let found = found.as_deref().unwrap_or("nothing");
                return Err(Error::conflict(format!("{} contains {found}, not {fs_type}", device.path)));
            }
        }
        if disk.damaged && !read_only {
            return Err(Error::corrupt(format!("{}: fsck found errors that it could not correct", device.path)));
        }
        let mut mount = TestMount::of_type(fs_type);
        mount.source = Some(device.path.clone());
        mount.options = options.iter().map(|option| (option.key.clone(), option.value.clone())).collect();
        if read_only {
            mount.flags.insert("ro".to_owned());
        }
        Ok(DetachedMount::new(&world, mount))
    }

    pub(crate) fn grow_unmounted(device: &BlockDevice, fs_type: &str) -> Result<Option<u64>> {
        current().borrow_mut().called("grow_unmounted")?;
        known(fs_type)?;
        if !fs_type.starts_with("ext") {
            return Ok(None);
        }
        device.disk(|disk, read_only| match &disk.contents {
            _ if read_only => Err(Error::permission_denied(format!("{} is read-only", device.path))),
            Some(found) if found == fs_type => {
                if disk.damaged {
                    return Err(Error::corrupt(format!(
                        "{}: fsck found errors that it could not correct",
                        device.path
                    )));
                }
                disk.fs_size = disk.size;
                Ok(Some(disk.fs_size))
            }
            found => {
                let found = found.as_deref().unwrap_or("nothing");
                Err(Error::conflict(format!("{} contains {found}, not {fs_type}", device.path)))
            }
        })
    }

    pub(crate) fn grow(device: &BlockDevice, target: &MountTarget) -> Result<u64> {
        current().borrow_mut().called("grow")?;
        if target.mount_here().is_none_or(|mount| mount.source.as_deref() != Some(device.path.as_str())) {
            return Err(Error::precondition(format!("{} is not mounted at the target", device.path)));
        }
        device.disk(|disk, _| {
            disk.fs_size = disk.size;
            Ok(disk.fs_size)
        })
    }

    fn known(fs_type: &str) -> Result<()> {
        if TYPES.contains(&fs_type) {
            return Ok(());
        }
        Err(Error::unsupported(format!("file-system type {fs_type} is not known; {}", TYPES.join(", "))))
    }
}
