//! Where sysfs, device nodes, programs and records are.

use std::path::PathBuf;

use volhost_scsi::{PROGRAM_FOLDERS, program};

use crate::tool::PROGRAM;

/// Places of a machine.
#[derive(Debug, Clone)]
pub struct Places {
    /// sysfs.
    pub sysfs: PathBuf,
    /// Device nodes.
    pub devices: PathBuf,
    /// The folders in which `iscsiadm` is looked for, whatever the environment says.
    pub programs: Vec<PathBuf>,
    /// The folders in which open-iscsi may keep its records: they differ by distribution.
    pub records: Vec<PathBuf>,
}

impl Default for Places {
    /// Those of this machine.
    fn default() -> Self {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        Self {
            sysfs: PathBuf::from("/sys"),
            devices: PathBuf::from("/dev"),
            programs: paths(&PROGRAM_FOLDERS),
            records: paths(&["/etc/iscsi", "/var/lib/iscsi"]),
        }
    }
}

impl Places {
    /// The initiator's program, `iscsiadm`, if it is there.
    pub fn initiator(&self) -> Option<PathBuf> {
        program(&self.programs, PROGRAM)
    }
}
