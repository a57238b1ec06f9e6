//! The note of a mount: its driver, and what the driver has confirmed. A mount that no driver has
//! confirmed was left by a call of unknown result: it may be anything, and never counts as the
//! volume (rule R1).

use volhost_plugin_sdk::prelude::*;

/// The suffix of the note once the driver has answered that it has mounted.
const MOUNTED: &str = "mounted";
/// The suffix of the note once the driver has filled the folder without a mount.
const FILLED: &str = "filled";

/// A driver's confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmed {
    /// None: its call runs, has failed, or its result is not known.
    Nothing,
    /// A mount.
    Mount,
    /// Files in the folder.
    Folder,
}

/// The content of a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    /// The driver's name.
    pub(crate) driver: String,
    /// Its confirmation.
    pub(crate) confirmed: Confirmed,
}

impl Note {
    /// The target's note, if there is one.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn read(target: &MountTarget) -> Result<Option<Self>> {
        let Some(text) = driver_mounts::note(target)? else { return Ok(None) };
        let (driver, word) = text.split_once('\n').unwrap_or((&text, ""));
        let confirmed = match word {
            MOUNTED => Confirmed::Mount,
            FILLED => Confirmed::Folder,
            _ => Confirmed::Nothing,
        };
        Ok(Some(Self { driver: driver.to_owned(), confirmed }))
    }

    /// Stores the driver's name before the driver does anything.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn begin(target: &MountTarget, driver: &str) -> Result<()> {
        driver_mounts::keep_note(target, driver)
    }

    /// Stores the driver's confirmation.
    ///
    /// # Errors
    /// `uncertain`: the volume is mounted already.
    pub(crate) fn confirm(target: &MountTarget, driver: &str, what: Confirmed) -> Result<()> {
        let text = match what {
            Confirmed::Nothing => driver.to_owned(),
            Confirmed::Mount => format!("{driver}\n{MOUNTED}"),
            Confirmed::Folder => format!("{driver}\n{FILLED}"),
        };
        driver_mounts::keep_note(target, &text).map_err(|error| Error::uncertain(error.message().to_owned()))
    }
}
