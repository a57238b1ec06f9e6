//! Folders of volumes on a share.

use core::fmt;

use volhost_plugin_sdk::prelude::*;

/// The folder of this plugin's records on a share. No volume lies in it.
pub(crate) const RECORDS: &str = ".volhost";
/// Linux's limit for a file name, in bytes: that of the folder's mark.
const MARK_BYTES: usize = 255;
/// The prefix of folders whose volume is deleted.
const ARCHIVED: &str = "archived-";

/// A folder's path on its share: plain names with slashes between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder(String);

impl Folder {
    /// Reads a path.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn read(path: &str) -> core::result::Result<Self, String> {
        let wrong = |why: &str| Err(format!("the folder {} {why}", quoted(path)));
        if path.chars().any(char::is_control) {
            return wrong("has a control character");
        }
        if path.split('/').any(|name| matches!(name, "" | "." | "..")) {
            return wrong("must be relative to the share, with single slashes and without `.` and `..`");
        }
        if path.split('/').next() == Some(RECORDS) {
            return wrong("is where the plugin keeps its records");
        }
        let folder = Self(path.to_owned());
        if folder.mark().len() > MARK_BYTES {
            return wrong("is too long: 255 bytes at most, of which each `/` and `%` takes three");
        }
        Ok(folder)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the folder's mark, which says whose it is.
    pub(crate) fn mark(&self) -> String {
        self.0.replace('%', "%25").replace('/', "%2F")
    }

    /// Whether one of the two lies in the other, by the name of the other's mark.
    pub(crate) fn overlaps(&self, other_mark: &str) -> bool {
        let own = self.mark();
        let lies_in = |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with("%2F"));
        lies_in(&own, other_mark) || lies_in(other_mark, &own)
    }

    /// The path that the folder of a deleted volume gets.
    pub(crate) fn archived(&self, volume: &str) -> String {
        let (parent, name) = self.0.rsplit_once('/').map_or(("", self.0.as_str()), |(parent, name)| (parent, name));
        let slash = if parent.is_empty() { "" } else { "/" };
        // Each volume has a name of its own, so that no archive is in the way of another.
        let own = if name.ends_with(volume) { String::new() } else { format!("-{volume}") };
        format!("{parent}{slash}{ARCHIVED}{name}{own}")
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
