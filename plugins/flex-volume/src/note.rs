//! The note beside a mount: which driver has it, and what the driver has confirmed. A mount that no
//! driver has confirmed is what a call of uncertain end has left: it may be anything, and never
//! counts as the volume (rule R1).

use volhost_plugin_sdk::prelude::*;

/// What follows the driver's name once it has answered that it has mounted.
const MOUNTED: &str = "mounted";
/// What follows the driver's name once it has filled the folder without a mount.
const FILLED: &str = "filled";

/// What a driver has confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmed {
    /// Nothing: its call runs, has failed, or has ended for uncertain.
    Nothing,
    /// A mount.
    Mount,
    /// Files in the folder.
    Folder,
}

/// What is noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    /// The driver's name.
    pub(crate) driver: String,
    /// What it has confirmed.
    pub(crate) confirmed: Confirmed,
}

impl Note {
    /// The note beside the target, if there is one.
    ///
    /// # Errors
    /// As the host says.
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

    /// Notes whose volume it is before the driver does anything, whatever ends the call.
    ///
    /// # Errors
    /// As the host says.
    pub(crate) fn begin(target: &MountTarget, driver: &str) -> Result<()> {
        driver_mounts::keep_note(target, driver)
    }

    /// Notes what the driver has confirmed.
    ///
    /// # Errors
    /// `uncertain`: the volume is mounted by now.
    pub(crate) fn confirm(target: &MountTarget, driver: &str, what: Confirmed) -> Result<()> {
        let text = match what {
            Confirmed::Nothing => driver.to_owned(),
            Confirmed::Mount => format!("{driver}\n{MOUNTED}"),
            Confirmed::Folder => format!("{driver}\n{FILLED}"),
        };
        driver_mounts::keep_note(target, &text).map_err(|error| Error::uncertain(error.message().to_owned()))
    }
}
