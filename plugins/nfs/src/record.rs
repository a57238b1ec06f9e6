//! The record of a made volume: a small file on its share, one `KEY=VALUE` a line.

use core::fmt;

use volhost_plugin_sdk::prelude::*;

use crate::folder::Folder;
use crate::parameters::OnDelete;

const FOLDER: &str = "folder";
const BYTES: &str = "bytes";
const ON_DELETE: &str = "onDelete";
const STATE: &str = "state";
const MADE: &str = "made";
const BEGUN: &str = "begun";

/// What is known of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) folder: Folder,
    /// Its size. The server enforces none.
    pub(crate) bytes: u64,
    pub(crate) on_delete: OnDelete,
    /// The folder is the volume's. Without, its creation was only begun.
    pub(crate) made: bool,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.made { MADE } else { BEGUN };
        let on_delete = self.on_delete.word();
        write!(f, "{FOLDER}={}\n{BYTES}={}\n{ON_DELETE}={on_delete}\n{STATE}={state}\n", self.folder, self.bytes)
    }
}

impl Record {
    /// Reads a record. `shown` is its path in the message.
    ///
    /// # Errors
    /// `corrupt` when it is none.
    pub(crate) fn read(text: &str, shown: &str) -> Result<Self> {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let read = || {
            Some(Self {
                folder: Folder::read(value(FOLDER)?).ok()?,
                bytes: value(BYTES)?.parse().ok()?,
                on_delete: OnDelete::read(value(ON_DELETE)?)?,
                made: match value(STATE)? {
                    MADE => true,
                    BEGUN => false,
                    _ => return None,
                },
            })
        };
        read().ok_or_else(|| Error::corrupt(format!("{shown} is no record of a volume; restore it from a backup")))
    }
}
