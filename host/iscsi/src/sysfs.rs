//! Sessions, as the kernel has them.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use volhost_scsi::{Unit, names, order, units_below, word};

use crate::error::PortalError;

/// The state of a session whose connection exists.
const LOGGED_IN: &str = "LOGGED_IN";

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
        Ok(units_below(&self.folder)?)
    }

    /// Returns the unit of this number.
    pub(crate) fn unit(&self, lun: u32) -> Result<Option<Unit>, PortalError> {
        Ok(self.units()?.into_iter().find(|unit| unit.lun() == lun))
    }

    /// Looks whether the target has this unit, and makes its device if so. No other unit appears.
    pub(crate) fn scan(&self, lun: u32) -> Result<(), PortalError> {
        let lacks = || PortalError::Sysfs { path: self.folder.clone(), what: "SCSI host" };
        let host = self.folder.parent().ok_or_else(lacks)?;
        let name = host.file_name().ok_or_else(lacks)?;
        // Channel, target and unit.
        Ok(order(&host.join("scsi_host").join(name).join("scan"), &format!("0 0 {lun}"))?)
    }
}
