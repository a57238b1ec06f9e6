//! Multipath maps: devices of the device mapper over several paths to one unit. multipathd makes
//! them; this finds them, lets them grow, and removes them after their last use.

use std::path::{Path, PathBuf};
use std::time::Duration;

use volhost_model::scsi::UnitDevice;
use volhost_process::{Overflow, Program, RunBounds, RunEnd, describe};

use crate::error::ScsiError;
use crate::files::{device_number, names, word};
use crate::program;

/// How the identity of a map that multipathd made begins.
const UUID: &str = "mpath-";
/// The programs that remove a map, the first that exists: multipathd's own tells the daemon.
const REMOVERS: [(&str, &[&str]); 2] = [("multipath", &["-f"]), ("dmsetup", &["remove"])];
/// The program that asks the daemon to read the paths' sizes again.
const DAEMON: &str = "multipathd";
/// How long a program may take: the kernel waits for the paths that it asks.
const DEADLINE: Duration = Duration::from_secs(30);
/// How much of each output is kept, in bytes.
const KEPT_BYTES: usize = 4 << 10;
/// How much of its messages a text shows, in characters.
const SHOWN_CHARS: usize = 300;

/// A multipath map over the paths to a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    /// Its name in the device mapper.
    name: String,
    device: UnitDevice,
}

/// Returns the map that the disk with this folder in sysfs is a path of; none if it is no path.
pub(crate) fn map_over(disk: &Path, devices: &Path) -> Option<Map> {
    let holders = disk.join("holders");
    names(&holders).ok()?.into_iter().find_map(|holder| {
        let folder = holders.join(&holder);
        word(&folder.join("dm/uuid")).filter(|uuid| uuid.starts_with(UUID))?;
        let name = word(&folder.join("dm/name"))?;
        Some(Map { name, device: UnitDevice { path: devices.join(&holder), number: device_number(&folder)? } })
    })
}

impl Map {
    /// Returns its device.
    #[must_use]
    pub fn device(&self) -> &UnitDevice {
        &self.device
    }

    /// Removes the map with a program in these folders; its paths stay. It is gone already: done.
    ///
    /// # Errors
    /// [`ScsiError::NoMultipath`], [`ScsiError::Run`], [`ScsiError::Map`].
    pub fn remove(&self, programs: &[PathBuf]) -> Result<(), ScsiError> {
        let found = REMOVERS.iter().find_map(|(name, words)| Some((program(programs, name)?, name, words)));
        let (path, name, words) = found.ok_or(ScsiError::NoMultipath)?;
        let removed = self.run(&path, name, words);
        // Another program may have been faster.
        if removed.is_err() && !self.device.path.exists() { Ok(()) } else { removed }
    }

    /// Lets the map have the size of its paths.
    ///
    /// # Errors
    /// As [`Map::remove`].
    pub fn grow(&self, programs: &[PathBuf]) -> Result<(), ScsiError> {
        let path = program(programs, DAEMON).ok_or(ScsiError::NoMultipath)?;
        self.run(&path, DAEMON, &["resize", "map"])
    }

    fn run(&self, path: &Path, program: &'static str, words: &[&str]) -> Result<(), ScsiError> {
        let arguments = [words, &[self.name.as_str()]].concat();
        let program_run = Program::new(path).with_arguments(&arguments).with_variable("LC_ALL", "C");
        let ran = program_run
            .run(RunBounds::new(DEADLINE, Overflow::Dropped { after: KEPT_BYTES }))
            .map_err(|error| ScsiError::Run(program, error.into()))?;
        let map = || self.name.clone();
        let RunEnd::Exited(status) = ran.end else {
            let words = format!("it did not end within {} s, and was killed", DEADLINE.as_secs());
            return Err(ScsiError::Map { program, map: map(), words });
        };
        // multipathd reports a failure in its answer, and ends well.
        let said = [ran.stdout.as_slice(), ran.stderr.as_slice()].concat();
        let said = String::from_utf8_lossy(&said);
        if status.success() && !said.starts_with("fail") {
            return Ok(());
        }
        let plain = said.chars().map(|c| if c.is_control() { ' ' } else { c });
        let words: String = plain.take(SHOWN_CHARS).collect();
        Err(ScsiError::Map { program, map: map(), words: format!("{} ({})", words.trim(), describe(status)) })
    }
}
