//! The folder of trusted keys.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use minisign_verify::PublicKey;
use volhost_model::PluginName;

use super::cosign::{CosignKey, PEM_BEGIN};
use super::{FILE_BYTES, SignatureError, TrustedKeysError, read_bounded};
use crate::grants::{is_reserved, vendor};

/// The suffix of a key's file.
const KEY_EXTENSION: &str = "pub";
/// How the line of a key's file begins that names the vendors whose plugins the key may sign.
pub(super) const VENDORS_LINE: &str = "vendors:";

/// A trusted key.
#[derive(Debug, Clone)]
pub(super) struct TrustedKey {
    pub(super) key: Key,
    pub(super) owner: KeyOwner,
}

/// A key of either tool.
#[derive(Debug, Clone)]
pub(super) enum Key {
    /// Of minisign.
    Minisign(PublicKey),
    /// Of cosign.
    Cosign(CosignKey),
}

/// The owner of a trusted key, and for whom the owner may sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyOwner {
    /// The key's file.
    pub(super) file: PathBuf,
    /// The vendors; none for every vendor that is not reserved.
    vendors: Option<BTreeSet<String>>,
}

impl KeyOwner {
    /// Checks that the owner of the key may sign plugins of this vendor.
    pub(super) fn check_vendor(&self, plugin: &PluginName) -> Result<(), SignatureError> {
        let vendor = vendor(plugin);
        let allowed = match &self.vendors {
            Some(vendors) if vendors.contains(vendor) => return Ok(()),
            Some(vendors) => vendors.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
            None if !is_reserved(vendor) => return Ok(()),
            None => "every vendor but those that volhost reserves".to_owned(),
        };
        Err(SignatureError::OtherVendor { plugin: plugin.clone(), key: self.file.clone(), allowed })
    }
}

/// Reads every `*.pub` of a folder, in the order of their names.
pub(super) fn read_folder(folder: &Path) -> Result<Vec<TrustedKey>, TrustedKeysError> {
    check_writers(folder)?;
    let failed = |source| TrustedKeysError::Read { path: folder.to_owned(), source };
    let mut keys = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == KEY_EXTENSION) {
            check_writers(&path)?;
            keys.push(read_key(path)?);
        }
    }
    keys.sort_by(|one, other| one.owner.file.cmp(&other.owner.file));
    Ok(keys)
}

/// Reads a key's file: minisign's comment and key or cosign's PEM, and then, if the key is not for
/// every vendor, a line of ours with the vendors.
fn read_key(path: PathBuf) -> Result<TrustedKey, TrustedKeysError> {
    let text =
        read_bounded(&path, FILE_BYTES).map_err(|source| TrustedKeysError::Read { path: path.clone(), source })?;
    let (ours, of_tool): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with(VENDORS_LINE));
    let malformed = |reason: String| TrustedKeysError::Malformed { path: path.clone(), reason };
    let of_tool = of_tool.join("\n");
    let key = if of_tool.trim_start().starts_with(PEM_BEGIN) {
        Key::Cosign(CosignKey::decode(&of_tool).map_err(malformed)?)
    } else {
        Key::Minisign(PublicKey::decode(&of_tool).map_err(|error| malformed(error.to_string()))?)
    };
    let mut vendors: Option<BTreeSet<String>> = None;
    for word in ours.iter().flat_map(|line| line.trim_start_matches(VENDORS_LINE).split([' ', ',', '\t'])) {
        let vendors = vendors.get_or_insert_default();
        if !word.is_empty() {
            vendors.insert(word.to_owned());
        }
    }
    if vendors.as_ref().is_some_and(BTreeSet::is_empty) {
        return Err(malformed(format!("the line `{VENDORS_LINE}` names no vendor")));
    }
    Ok(TrustedKey { key, owner: KeyOwner { file: path, vendors } })
}

fn check_writers(path: &Path) -> Result<(), TrustedKeysError> {
    use std::os::unix::fs::PermissionsExt;
    const OTHERS_WRITE: u32 = 0o022;
    let failed = |source| TrustedKeysError::Read { path: path.to_owned(), source };
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode() & 0o7777;
    if mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(TrustedKeysError::WritableByOthers { path: path.to_owned(), mode })
}
