//! Multipath maps: devices of the device mapper over several paths to one unit. multipathd makes
//! them; this finds them, lets them grow, and removes them after their last use.

use std::path::Path;
use std::time::Duration;

use volhost_model::iscsi::UnitDevice;
use volhost_process::{Overflow, Program, RunBounds, RunEnd, describe};

use crate::error::PortalError;
use crate::places::Places;
use crate::sysfs::{device_number, names, word};

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

/// A map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Map {
    /// Its name in the device mapper.
    name: String,
    pub(crate) device: UnitDevice,
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
    /// Removes the map; its paths stay. It is gone already: done.
    pub(crate) fn remove(&self, places: &Places) -> Result<(), PortalError> {
        let found = REMOVERS.iter().find_map(|(program, words)| Some((places.program(program)?, program, words)));
        let (path, program, words) = found.ok_or(PortalError::NoMultipath)?;
        let removed = self.run(&path, program, words);
        // Another program may have been faster.
        if removed.is_err() && !self.device.path.exists() { Ok(()) } else { removed }
    }

    /// Lets the map have the size of its paths.
    pub(crate) fn grow(&self, places: &Places) -> Result<(), PortalError> {
        let path = places.program(DAEMON).ok_or(PortalError::NoMultipath)?;
        self.run(&path, DAEMON, &["resize", "map"])
    }

    fn run(&self, path: &Path, program: &'static str, words: &[&str]) -> Result<(), PortalError> {
        let arguments = [words, &[self.name.as_str()]].concat();
        let program_run = Program::new(path).with_arguments(&arguments).with_variable("LC_ALL", "C");
        let ran = program_run
            .run(RunBounds::new(DEADLINE, Overflow::Dropped { after: KEPT_BYTES }))
            .map_err(|error| PortalError::Run(program, error.into()))?;
        let map = || self.name.clone();
        let RunEnd::Exited(status) = ran.end else {
            let words = format!("it did not end within {} s, and was killed", DEADLINE.as_secs());
            return Err(PortalError::Map { program, map: map(), words });
        };
        // multipathd reports a failure in its answer, and ends well.
        let said = [ran.stdout.as_slice(), ran.stderr.as_slice()].concat();
        let said = String::from_utf8_lossy(&said);
        if status.success() && !said.starts_with("fail") {
            return Ok(());
        }
        let plain = said.chars().map(|c| if c.is_control() { ' ' } else { c });
        let words: String = plain.take(SHOWN_CHARS).collect();
        Err(PortalError::Map { program, map: map(), words: format!("{} ({})", words.trim(), describe(status)) })
    }
}
