//! Where sysfs, device nodes and programs are.

use std::path::PathBuf;

use volhost_scsi::PROGRAM_FOLDERS;

/// Places of a machine.
#[derive(Debug, Clone)]
pub struct Places {
    /// sysfs.
    pub sysfs: PathBuf,
    /// Device nodes.
    pub devices: PathBuf,
    /// The folders in which multipathd's programs are looked for.
    pub programs: Vec<PathBuf>,
}

impl Default for Places {
    /// Those of this machine.
    fn default() -> Self {
        Self {
            sysfs: PathBuf::from("/sys"),
            devices: PathBuf::from("/dev"),
            programs: PROGRAM_FOLDERS.iter().map(PathBuf::from).collect(),
        }
    }
}
