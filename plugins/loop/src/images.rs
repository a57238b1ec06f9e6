//! The images of volumes and snapshots, by their handles.

use sha2::{Digest, Sha256};
use volhost_plugin_sdk::prelude::*;

use crate::source::is_handle;

/// The longest name that becomes a handle as it is, in bytes. Two of them, a snapshot's and its
/// volume's, fit into CSI's 128.
const OWN_NAME_BYTES: usize = 56;
/// The longest file name that is listed, in bytes: with its token it stays within CSI's 128.
pub(crate) const LISTED_BYTES: usize = 115;
/// How much of a longer name its handle begins with, in bytes.
const BEGINNING_BYTES: usize = 20;
/// How much of a longer name's digest its handle ends with, in bytes.
const DIGEST_BYTES: usize = 16;

/// An existing image file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) path: String,
    pub(crate) folder: String,
    /// In bytes.
    pub(crate) size: u64,
    /// When its content was changed last, in seconds since 1970.
    pub(crate) modified: u64,
}

/// The handle for a name: the name itself, or its beginning and its digest where it is too long or
/// not a plain file name.
pub(crate) fn handle_of(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.len() <= OWN_NAME_BYTES && name.chars().all(plain) && is_handle(name) {
        return name.to_owned();
    }
    let beginning: String = name.chars().filter(char::is_ascii_alphanumeric).take(BEGINNING_BYTES).collect();
    let digest = Sha256::digest(name);
    let digest: String = digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("{beginning}-{digest}")
}

pub(crate) fn path_in(folder: &str, file: &str) -> String {
    format!("{}/{file}", folder.trim_end_matches('/'))
}

/// The image of this file name in one of the granted folders; none when there is none.
///
/// # Errors
/// The host's.
pub(crate) fn find(file: &str) -> Result<Option<Image>> {
    for folder in loop_devices::folders() {
        let path = path_in(&folder, file);
        match loop_devices::facts(&path) {
            Ok((size, modified)) => return Ok(Some(Image { path, folder, size, modified })),
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The image of the volume with this handle.
///
/// # Errors
/// `not-found` when there is none; else the host's.
pub(crate) fn volume(volume_id: &str) -> Result<Image> {
    let found = if is_handle(volume_id) { find(volume_id)? } else { None };
    found.ok_or_else(|| Error::not_found(format!("there is no volume {}", quoted(volume_id))))
}

/// The folder in which something new is made: the one that `parameter` names, or the only one that
/// is granted.
///
/// # Errors
/// `invalid-argument` when one must be named, or the one that is named is not granted;
/// `precondition` when none is granted.
pub(crate) fn folder(parameter: Option<String>) -> Result<String> {
    let granted = loop_devices::folders();
    match (parameter, granted.as_slice()) {
        (Some(named), _) => {
            let named = named.trim_end_matches('/');
            granted.iter().find(|folder| folder.trim_end_matches('/') == named).cloned().ok_or_else(|| {
                Error::invalid_argument(format!(
                    "parameters.folder: {} is not granted; granted: {}",
                    quoted(named),
                    granted.join(", ")
                ))
            })
        }
        (None, [only]) => Ok(only.clone()),
        (None, []) => Err(Error::precondition(
            "no folder for images is granted to this plugin; see `loop-files` under [grants] in the configuration",
        )),
        (None, several) => Err(Error::invalid_argument(format!(
            "parameters.folder: is missing, and several folders are granted; name one of {}",
            several.join(", ")
        ))),
    }
}

/// A position in a list of files over all granted folders: a file of a folder, after which the list
/// continues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) folder: usize,
    pub(crate) after: String,
}

/// The prefix of tokens.
const TOKEN: &str = "after/";

impl Place {
    /// Reads a token of a list of files that all begin with `beginning`; an empty one is the
    /// beginning.
    ///
    /// # Errors
    /// `invalid-argument` for a text that is not a token.
    pub(crate) fn read(token: &str, beginning: &str) -> Result<Self> {
        if token.is_empty() {
            return Ok(Self::default());
        }
        let parts = token.strip_prefix(TOKEN).and_then(|rest| rest.split_once('/'));
        let place = parts.and_then(|(folder, after)| {
            Some(Self { folder: folder.parse().ok()?, after: format!("{beginning}{after}") })
        });
        place.ok_or_else(|| Error::invalid_argument(format!("{} is not a token of a list", quoted(token))))
    }

    /// Its token in a list of files that all begin with `beginning`.
    pub(crate) fn token(&self, beginning: &str) -> String {
        format!("{TOKEN}{}/{}", self.folder, self.after.strip_prefix(beginning).unwrap_or(&self.after))
    }
}

/// How many names are read at once.
const BATCH: u32 = 500;

/// Goes over the files of all granted folders from a place on, in a stable order, until `visit`
/// returns false. It gets each folder, file name, and the place after it.
///
/// # Errors
/// The host's, or those of `visit`.
pub(crate) fn each(mut place: Place, mut visit: impl FnMut(&str, &str, &Place) -> Result<bool>) -> Result<()> {
    let folders = loop_devices::folders();
    while let Some(folder) = folders.get(place.folder) {
        let names = loop_devices::names(folder, &place.after, BATCH)?;
        if names.is_empty() {
            place = Place { folder: place.folder + 1, after: String::new() };
        }
        for name in names {
            place.after.clone_from(&name);
            if !visit(folder, &name, &place)? {
                return Ok(());
            }
        }
    }
    Ok(())
}
