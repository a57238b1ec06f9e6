//! Adapters, and the ports that they see.

use std::fs;
use std::path::{Path, PathBuf};

use volhost_model::fc::port_name;
use volhost_scsi::{ScsiError, Unit, names, order, units_below, word};

/// The state of a port that answers.
const ONLINE: &str = "Online";

/// A port of the fabric, as one adapter sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Port {
    /// Its name: 16 hexadecimal digits.
    pub(crate) name: String,
    /// The kernel's words for its state.
    pub(crate) state: String,
    /// Its folder among the devices.
    folder: PathBuf,
}

/// Returns the ports that the node's adapters see.
pub(crate) fn ports(sysfs: &Path) -> Result<Vec<Port>, ScsiError> {
    let class = sysfs.join("class/fc_remote_ports");
    // One that goes meanwhile is none.
    Ok(names(&class)?.iter().filter_map(|name| port(&class.join(name))).collect())
}

fn port(folder: &Path) -> Option<Port> {
    Some(Port {
        name: port_name(&word(&folder.join("port_name"))?)?,
        state: word(&folder.join("port_state")).unwrap_or_default(),
        folder: fs::canonicalize(folder.join("device")).ok()?,
    })
}

impl Port {
    /// Returns whether it answers.
    pub(crate) fn is_online(&self) -> bool {
        self.state == ONLINE
    }

    /// Returns the units that the node has of the target behind it.
    pub(crate) fn units(&self) -> Result<Vec<Unit>, ScsiError> {
        units_below(&self.folder)
    }
}

/// Returns the names of the node's adapters, such as `host3`.
pub(crate) fn adapters(sysfs: &Path) -> Result<Vec<String>, ScsiError> {
    names(&sysfs.join("class/fc_host"))
}

/// Lets an adapter look for the unit of this number at each port, or for every unit.
pub(crate) fn scan(sysfs: &Path, adapter: &str, lun: Option<u32>) -> Result<(), ScsiError> {
    let lun = lun.map_or_else(|| "-".to_owned(), |lun| lun.to_string());
    // Channel, target and unit.
    order(&sysfs.join("class/scsi_host").join(adapter).join("scan"), &format!("- - {lun}"))
}
