//! Payloads: a set of files that is published whole, as the kubelet publishes config maps, secrets
//! and tokens.
//!
//! ```text
//!  VOLUME/
//!    ..2026_11_21_06_01_57.123456789/   the files, in a folder of their own
//!    ..data -> ..2026_11_21_06_01_57.123456789
//!    app.conf -> ..data/app.conf        what the pod opens
//!    certs -> ..data/certs
//! ```
//!
//! A new set is written beside the old one with its modes and owners; then `..data` changes in one
//! `rename`, so a reader that goes through it sees the old set or the new one, never a mix. What
//! carries the protocol out is the same code for every kernel.

pub(crate) mod plan;
pub(crate) mod protocol;
pub(crate) mod stamp;

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

use crate::error::Result;
use crate::handle::Directory;

/// A file of a payload.
#[derive(Clone, PartialEq, Eq)]
pub struct PayloadFile {
    /// Where it lies in the volume: relative, of plain names; folders on the way are made.
    pub path: PathBuf,
    /// What it contains.
    pub bytes: Vec<u8>,
    /// Its exact mode (permissions, setuid, setgid, sticky), whatever the umask.
    pub mode: u32,
    /// Who owns it, if not [`Payload::owner`].
    pub owner: Option<u32>,
}

impl PayloadFile {
    /// A file that the payload's owner owns.
    pub fn new(path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>, mode: u32) -> Self {
        Self { path: path.into(), bytes: bytes.into(), mode, owner: None }
    }
}

impl fmt::Debug for PayloadFile {
    /// Without the content: it may be a secret (rule R10).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("PayloadFile");
        shown.field("path", &self.path).field("len", &self.bytes.len());
        shown.field("mode", &format_args!("{:o}", self.mode)).field("owner", &self.owner).finish()
    }
}

/// A whole set of files, with the ownership of what is made for them. Modes are exact: who wants an
/// fsGroup to read the files sets `group` and gives files 0440 and folders 02550 beside their own
/// bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The files, in any order. Empty is allowed: then the volume shows nothing.
    pub files: Vec<PayloadFile>,
    /// The user that owns files, folders and links; none: the host's own.
    pub owner: Option<u32>,
    /// Their group; none: the host's own.
    pub group: Option<u32>,
    /// The exact mode of the folders of the files. The volume's root folder is not touched.
    pub folder_mode: u32,
}

impl Default for Payload {
    /// No file, the host's ownership, folders 0755.
    fn default() -> Self {
        Self { files: Vec::new(), owner: None, group: None, folder_mode: 0o755 }
    }
}

/// The result of publishing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishResult {
    /// Whether readers see anything new: content, modes, owners, or a link that was missing. False:
    /// nothing was written.
    pub changed: bool,
}

/// Publishing of payloads.
pub trait Payloads {
    /// Makes the volume at this name, a plain folder or a mount, show exactly these files.
    ///
    /// # Guarantees
    /// - A reader that opens `..data` sees one whole set. Files have their modes and owners before
    ///   they are visible.
    /// - The same set again writes nothing. Another mode or owner alone is published like another
    ///   content.
    /// - An error before the switch leaves the old set as it was; after it, the new set is there. A
    ///   crash at any point: the next call goes on from what it finds, puts missing links right and
    ///   clears what is left over.
    /// - No symbolic link is followed, whatever a pod put into the volume, and nothing outside of
    ///   it is touched.
    /// - Removed are only folders named as the protocol names them, `..data_tmp`, and links that
    ///   lead to `..data/` and their own name. What else lies in the volume stays; a plain file or
    ///   folder where a link should be stays too and hides that file.
    ///
    /// # Errors
    /// `InvalidPath` naming the file: not relative, empty, with `..` or NUL, a first component that
    /// begins with `..`, a component over 255 or a path over 4096 bytes, the same path twice, a
    /// file where another file's folder is, a mode beyond 07777. `SymbolicLink`, `WrongType` for
    /// what is at the protocol's own names; `MountInside`; `Failed`.
    fn publish_payload(&self, directory: &Directory, name: &OsStr, payload: &Payload) -> Result<PublishResult>;
}
