//! Logical units and their devices, as the kernel has them.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use volhost_model::scsi::UnitDevice;

use crate::error::ScsiError;
use crate::files::{device_number, is_gone, names, order, word};
use crate::multipath::{Map, map_over};

/// How long the kernel may take until a unit has a device, or has none any more.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is looked at meanwhile: sysfs reports no change.
const DEVICE_PERIOD: Duration = Duration::from_millis(10);
/// The kernel's word for a unit that takes commands.
const RUNNING: &str = "running";

/// A logical unit, by one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its folder in sysfs.
    folder: PathBuf,
    lun: u32,
}

/// Returns the units of the targets below a folder of sysfs: a session's, a port's.
///
/// # Errors
/// [`ScsiError::File`].
pub fn units_below(folder: &Path) -> Result<Vec<Unit>, ScsiError> {
    let mut units = Vec::new();
    for target in names(folder)?.iter().filter(|name| name.starts_with("target")) {
        let folder = folder.join(target);
        for name in names(&folder)? {
            // HOST:CHANNEL:TARGET:LUN
            let parts: Vec<&str> = name.split(':').collect();
            if let [_, _, _, lun] = parts.as_slice()
                && let Ok(lun) = lun.parse()
            {
                units.push(Unit { folder: folder.join(&name), lun });
            }
        }
    }
    Ok(units)
}

impl Unit {
    /// Returns its number in its target.
    #[must_use]
    pub fn lun(&self) -> u32 {
        self.lun
    }

    /// Returns its device in the folder of device nodes; none if it has none yet.
    #[must_use]
    pub fn device(&self, devices: &Path) -> Option<UnitDevice> {
        let disk = self.disk()?;
        // sysfs writes a slash in a name as an exclamation mark.
        let name = disk.file_name()?.to_str()?.replace('!', "/");
        Some(UnitDevice { path: devices.join(name), number: device_number(&disk)? })
    }

    /// Returns its device, which the kernel makes in the background.
    ///
    /// # Errors
    /// [`ScsiError::Device`] if it does not appear.
    pub fn wait_for_device(&self, devices: &Path) -> Result<UnitDevice, ScsiError> {
        let device = within(|| self.device(devices).filter(|device| device.path.exists()));
        device.ok_or_else(|| ScsiError::Device(self.name(), "appear"))
    }

    /// The folder of its disk; none if it has none yet.
    fn disk(&self) -> Option<PathBuf> {
        let folder = self.folder.join("block");
        let name = names(&folder).ok()?.into_iter().next()?;
        Some(folder.join(name))
    }

    /// Returns the multipath map that its disk is a path of.
    #[must_use]
    pub fn map(&self, devices: &Path) -> Option<Map> {
        map_over(&self.disk()?, devices)
    }

    /// Returns whether it takes commands, as far as the kernel knows.
    #[must_use]
    pub fn is_running(&self) -> bool {
        word(&self.folder.join("state")).is_some_and(|state| state == RUNNING)
    }

    /// Returns the name that the unit gives itself, such as `naa.600508b400105e21`; none if it
    /// gives none.
    #[must_use]
    pub fn identity(&self) -> Option<String> {
        word(&self.folder.join("wwid"))
    }

    /// Asks the target for its size.
    ///
    /// # Errors
    /// [`ScsiError::File`].
    pub fn rescan(&self) -> Result<(), ScsiError> {
        order(&self.folder.join("rescan"), "1")
    }

    /// Removes its device, and waits until it is gone. It may have gone.
    ///
    /// # Errors
    /// [`ScsiError::File`]; [`ScsiError::Device`] if it stays.
    pub fn remove(&self) -> Result<(), ScsiError> {
        match order(&self.folder.join("delete"), "1") {
            Err(ScsiError::File { source, .. }) if is_gone(&source) => {}
            deleted => deleted?,
        }
        within(|| (!self.folder.exists()).then_some(())).ok_or_else(|| ScsiError::Device(self.name(), "go"))
    }

    /// Returns the name that messages show.
    #[must_use]
    pub fn name(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Returns whether the device is open exclusively, as by a mount. One that answers no more is not.
#[must_use]
pub fn is_in_use(device: &UnitDevice) -> bool {
    let flags = (OFlags::EXCL | OFlags::NONBLOCK).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(&device.path);
    opened.is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::BUSY))
}

/// Waits until there is something, at most for [`DEVICE_TIMEOUT`].
fn within<T>(look: impl Fn() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + DEVICE_TIMEOUT;
    loop {
        let found = look();
        if found.is_some() || Instant::now() >= deadline {
            return found;
        }
        thread::sleep(DEVICE_PERIOD);
    }
}
