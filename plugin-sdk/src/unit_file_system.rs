//! The file system on a unit that another machine serves: what plugins of such units have in common.

use crate::devices::BlockDevice;
use crate::error::{Context, Error, Result};
use crate::mount_options::MountOptions;
use crate::mounts::{DetachedMount, MountTarget};
use crate::{filesystems, log, node};

/// The volume is one file system, without the mounts below it.
const RECURSIVE: bool = false;

/// The file system on a unit of a storage target: staged once on a node, and bound for each pod.
///
/// ```
/// use volhost_plugin_sdk::fc_devices::FcUnit;
/// use volhost_plugin_sdk::prelude::*;
/// use volhost_plugin_sdk::{MountOptions, UnitFileSystem};
/// # let host = volhost_plugin_sdk::testing::TestHost::new();
/// # host.fc_unit("50060e801049cfd1", 0, 1 << 30);
/// # let volume = Volume::builder("fc");
/// # let volume = &volume.handle();
/// # let target = host.target("unit");
/// # let target = &target.handle();
/// let unit = FcUnit::at_ports(["50060e801049cfd1"], 0);
/// let options = MountOptions::read(volume);
/// let file_system = UnitFileSystem { kind: "fc", unit: "unit 0".to_owned(), fs_type: "ext4", options: &options, read_only: false };
/// // In `stage`:
/// target.attach(file_system.mount(&unit.connect()?)?)?;
/// // In `expand`:
/// assert_eq!(file_system.expand(&unit.rescan()?, Some(target), 1 << 20)?, 1 << 30);
///
/// /// In `publish`.
/// fn publish(file_system: &UnitFileSystem, target: &MountTarget) -> Result<()> {
///     target.attach(file_system.bind(target)?)
/// }
/// # let _ = publish;
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct UnitFileSystem<'a> {
    /// The kind of the volume, at the beginning of messages: `fc`.
    pub kind: &'a str,
    /// The unit, in messages.
    pub unit: String,
    /// The type of a new file system, and of the one that is mounted.
    pub fs_type: &'a str,
    /// The volume's mount options: those of the file system are the staging mount's, the others
    /// each pod's.
    pub options: &'a MountOptions,
    /// Whether the volume must not be written to.
    pub read_only: bool,
}

impl UnitFileSystem<'_> {
    /// Mounts the device's file system, for the staging target; a blank device is formatted first.
    ///
    /// # Errors
    /// [`Busy`](Error::Busy) for a device in use, [`Precondition`](Error::Precondition) for a blank
    /// one that is read-only; else as [`filesystems::format`] and [`filesystems::mount`].
    pub fn mount(&self, device: &BlockDevice) -> Result<DetachedMount> {
        let Self { kind, unit, fs_type, .. } = self;
        // For a file system that is mounted at another path, the kernel would return the same instance
        // again, with that one's options.
        if device.is_in_use()? {
            return Err(Error::busy(format!(
                "{kind}: the device of {unit} is in use on node {}: by a volume that names the way to it otherwise, \
                 or by another program",
                node::name()
            )));
        }
        let read_only = self.read_only || device.is_read_only()?;
        if filesystems::probe(device).with_context(|| format!("looking at {unit}"))?.is_none() {
            if read_only {
                return Err(Error::precondition(format!(
                    "{kind}: {unit} is blank, and being read-only can't be formatted"
                )));
            }
            log::info(format_args!("formatting {unit} with {fs_type}"));
            filesystems::format(device, fs_type, &filesystems::FormatOptions::new())
                .with_context(|| format!("formatting {unit}"))?;
        }
        filesystems::mount(device, fs_type, &self.options.borrowed(), read_only)
            .with_context(|| format!("mounting {unit}"))
    }

    /// Binds the staging mount for a pod, with the options of the pod's mount.
    ///
    /// # Errors
    /// [`Precondition`](Error::Precondition) when the volume is not staged; else the kernel's error.
    pub fn bind(&self, target: &MountTarget<'_>) -> Result<DetachedMount> {
        let Some(staged) = target.staging_mount()? else {
            return Err(Error::precondition(format!("{}: {} is not staged on this node yet", self.kind, self.unit)));
        };
        let mount = staged.bind(RECURSIVE).with_context(|| format!("binding the mount of {}", self.unit))?;
        let mut options: Vec<&str> = self.options.of_mount.iter().map(String::as_str).collect();
        if self.read_only && !options.contains(&"ro") {
            options.push("ro");
        }
        mount.set_options(&options, RECURSIVE).context("spec.mountOptions")?;
        Ok(mount)
    }

    /// Lets the file system grow to the size that the target has given the unit, and returns that;
    /// a volume that is used as a device has no mount.
    ///
    /// # Errors
    /// [`Retryable`](Error::Retryable) while the unit is smaller than `to`: its target may be
    /// enlarged while a pod uses the volume. Else as [`filesystems::grow`].
    pub fn expand(&self, device: &BlockDevice, mounted: Option<&MountTarget<'_>>, to: u64) -> Result<u64> {
        let Self { kind, unit, .. } = self;
        let size = device.size()?;
        if size < to {
            return Err(Error::retryable(format!(
                "{kind}: {unit} has {size} bytes, and spec.capacity.storage requests {to}; enlarge it on the target first"
            )));
        }
        if let Some(target) = mounted {
            filesystems::grow(device, target).with_context(|| format!("growing {unit}"))?;
        }
        Ok(size)
    }
}
