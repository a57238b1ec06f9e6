//! The failures of steps on a unit.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A step on a unit failed.
#[derive(Debug, Error)]
pub enum ScsiError {
    /// A file of sysfs.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The device did not appear, or did not go.
    #[error("the device of {0} did not {1} in time")]
    Device(String, &'static str),
    /// The unit is used.
    #[error("{} is in use: it is mounted, or open exclusively", .0.display())]
    InUse(PathBuf),
    /// What multipathd's maps need is not installed.
    #[error(
        "neither multipath nor dmsetup is on this node, and the unit's device is a multipath map; install multipath-tools (device-mapper-multipath)"
    )]
    NoMultipath,
    /// A program could not be run.
    #[error("{0} cannot be run: {1}")]
    Run(&'static str, #[source] io::Error),
    /// A program failed to change a map.
    #[error("{program} cannot change the multipath map {map:?}: {words}")]
    Map {
        /// The program.
        program: &'static str,
        /// The map's name.
        map: String,
        /// Its messages and exit code.
        words: String,
    },
}
