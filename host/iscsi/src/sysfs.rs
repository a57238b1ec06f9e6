//! Sessions, units and their devices, as the kernel has them.

use std::fs::{self, OpenOptions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use volhost_model::iscsi::UnitDevice;

use crate::error::PortalError;
use crate::multipath::{Map, map_over};

/// The state of a session whose connection exists.
const LOGGED_IN: &str = "LOGGED_IN";
/// The kernel's word for a text that was not given.
const NULL: &str = "(null)";

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    /// Its number.
    pub(crate) id: u32,
    /// The target's name.
    pub(crate) target: String,
    /// The portal that was logged in to.
    pub(crate) portal: SocketAddr,
    /// The initiator interface.
    pub(crate) interface: String,
    /// The kernel's word for its state.
    pub(crate) state: String,
    /// Its folder among the devices.
    folder: PathBuf,
}

/// A logical unit of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Its folder.
    folder: PathBuf,
    /// Its number.
    pub(crate) lun: u32,
}

/// Returns all sessions of the node.
pub(crate) fn sessions(sysfs: &Path) -> Result<Vec<Session>, PortalError> {
    let class = sysfs.join("class/iscsi_session");
    let mut found = Vec::new();
    for name in names(&class)? {
        let Some(id) = name.strip_prefix("session").and_then(|id| id.parse().ok()) else { continue };
        // One that ends meanwhile is none.
        found.extend(session(sysfs, &class.join(&name), id));
    }
    Ok(found)
}

fn session(sysfs: &Path, folder: &Path, id: u32) -> Option<Session> {
    let connection = sysfs.join(format!("class/iscsi_connection/connection{id}:0"));
    let address: IpAddr = word(&connection.join("persistent_address"))?.parse().ok()?;
    let port = word(&connection.join("persistent_port"))?.parse().ok()?;
    Some(Session {
        id,
        target: word(&folder.join("targetname"))?,
        portal: SocketAddr::new(address, port),
        interface: word(&folder.join("ifacename")).unwrap_or_default(),
        state: word(&folder.join("state")).unwrap_or_default(),
        folder: fs::canonicalize(folder.join("device")).ok()?,
    })
}

impl Session {
    /// Returns whether its connection exists.
    pub(crate) fn is_logged_in(&self) -> bool {
        self.state == LOGGED_IN
    }

    /// Returns its units.
    pub(crate) fn units(&self) -> Result<Vec<Unit>, PortalError> {
        let mut units = Vec::new();
        for target in names(&self.folder)?.iter().filter(|name| name.starts_with("target")) {
            let folder = self.folder.join(target);
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

    /// Returns the unit of this number.
    pub(crate) fn unit(&self, lun: u32) -> Result<Option<Unit>, PortalError> {
        Ok(self.units()?.into_iter().find(|unit| unit.lun == lun))
    }

    /// Looks whether the target has this unit, and makes its device if so. No other unit appears.
    pub(crate) fn scan(&self, lun: u32) -> Result<(), PortalError> {
        let lacks = || PortalError::Sysfs { path: self.folder.clone(), what: "SCSI host" };
        let host = self.folder.parent().ok_or_else(lacks)?;
        let name = host.file_name().ok_or_else(lacks)?;
        // Channel, target and unit.
        order(&host.join("scsi_host").join(name).join("scan"), &format!("0 0 {lun}"))
    }
}

impl Unit {
    /// Returns its device; none if it has none yet.
    pub(crate) fn device(&self, devices: &Path) -> Option<UnitDevice> {
        let disk = self.disk()?;
        // sysfs writes a slash in a name as an exclamation mark.
        let name = disk.file_name()?.to_str()?.replace('!', "/");
        Some(UnitDevice { path: devices.join(name), number: device_number(&disk)? })
    }

    /// Returns the folder of its disk; none if it has none yet.
    fn disk(&self) -> Option<PathBuf> {
        let folder = self.folder.join("block");
        let name = names(&folder).ok()?.into_iter().next()?;
        Some(folder.join(name))
    }

    /// Returns the multipath map that its disk is a path of.
    pub(crate) fn map(&self, devices: &Path) -> Option<Map> {
        map_over(&self.disk()?, devices)
    }

    /// Asks the target for its size.
    pub(crate) fn rescan(&self) -> Result<(), PortalError> {
        order(&self.folder.join("rescan"), "1")
    }

    /// Removes its device. It may have gone.
    pub(crate) fn delete(&self) -> Result<(), PortalError> {
        match order(&self.folder.join("delete"), "1") {
            Err(PortalError::File { source, .. }) if is_gone(&source) => Ok(()),
            deleted => deleted,
        }
    }

    /// Returns whether it exists.
    pub(crate) fn exists(&self) -> bool {
        self.folder.exists()
    }

    /// The name that messages show.
    pub(crate) fn name(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Returns whether the device is open exclusively, as by a mount. One that answers no more is not.
pub(crate) fn is_in_use(device: &UnitDevice) -> bool {
    let flags = (OFlags::EXCL | OFlags::NONBLOCK).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(&device.path);
    opened.is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::BUSY))
}

/// The number of the device with this folder.
pub(crate) fn device_number(folder: &Path) -> Option<(u32, u32)> {
    let number = word(&folder.join("dev"))?;
    let (major, minor) = number.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The names in a folder, sorted; none if it does not exist.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, PortalError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        entries => entries.map_err(PortalError::file(folder))?,
    };
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// A file's only word; none if it is empty or not given.
pub(crate) fn word(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let word = text.trim();
    (!word.is_empty() && word != NULL).then(|| word.to_owned())
}

/// Writes to a file that the kernel made.
fn order(file: &Path, text: &str) -> Result<(), PortalError> {
    let opened = OpenOptions::new().write(true).open(file);
    opened.and_then(|mut opened| io::Write::write_all(&mut opened, text.as_bytes())).map_err(PortalError::file(file))
}

fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NODEV | Errno::NXIO))
}
