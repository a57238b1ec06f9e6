//! Devices of SCSI units.

use std::path::PathBuf;

/// The device of a logical unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitDevice {
    /// The device node.
    pub path: PathBuf,
    /// The device's number, which the node must have.
    pub number: (u32, u32),
}
