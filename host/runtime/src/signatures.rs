//! Whose plugins are taken: detached signatures beside plugin files, as minisign makes them
//! (Ed25519 over the file or its BLAKE2b), checked against the keys that the operator trusts.
//!
//! ```text
//! plugins/archive.wasm            the plugin
//! plugins/archive.wasm.minisig    its signature
//! trusted-keys/vendor.pub         a key, as `minisign -G` writes it
//! ```
//!
//! A signature that is there must be good, whether or not one is required: a plugin whose file and
//! signature do not fit was not meant to be.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use minisign_verify::{PublicKey, Signature};
use thiserror::Error;
use volhost_model::PluginName;

use crate::grants::{is_reserved, vendor};

/// The suffix of a signature's file beside its plugin's.
const EXTENSION: &str = ".minisig";
/// The suffix of a key's file.
const KEY_EXTENSION: &str = "pub";
/// How the line of a key's file begins that names the vendors whose plugins the key may sign.
const VENDORS_LINE: &str = "vendors:";
/// The largest key or signature that is read, in bytes: they have some hundred.
const FILE_BYTES: u64 = 8 << 10;

/// Why a plugin's signature was not accepted.
#[derive(Debug, Error)]
pub enum SignatureError {
    /// There is none, and one is required.
    #[error(
        "it is not signed: {signature} is not there, and signatures are required; put it there, or pin the plugin's content by `sha256` in \
         its grant"
    )]
    Missing {
        /// Where it was looked for.
        signature: PathBuf,
    },
    /// It cannot be read.
    #[error("its signature {signature} cannot be read")]
    Read {
        /// The file.
        signature: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is something else.
    #[error("its signature {signature} is none of minisign's: {reason}")]
    Malformed {
        /// The file.
        signature: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No trusted key has made it.
    #[error(
        "its signature {signature} was made by none of the {keys} trusted keys; if its maker is to be trusted, put the key into the folder of \
         trusted keys"
    )]
    Untrusted {
        /// The file.
        signature: PathBuf,
        /// How many are trusted.
        keys: usize,
    },
    /// A trusted key has made it, whose owner may not sign for this vendor.
    #[error(
        "it calls itself {plugin}, and the key {key} that signed it may sign plugins of {allowed}; if it may sign this one too, add the vendor to \
         the line `{VENDORS_LINE}` of that file"
    )]
    OtherVendor {
        /// The plugin.
        plugin: PluginName,
        /// The key's file.
        key: PathBuf,
        /// The vendors that the key may sign for.
        allowed: String,
    },
    /// A trusted key has made it, for other content.
    #[error(
        "its signature {signature} does not fit its content, which the owner of {key} has not signed: get both files again"
    )]
    Forged {
        /// The file.
        signature: PathBuf,
        /// The key that it names.
        key: PathBuf,
    },
}

/// A problem of the folder of trusted keys.
#[derive(Debug, Error)]
pub enum TrustedKeysError {
    /// It cannot be read, or a file in it cannot.
    #[error("the trusted keys in {path} cannot be read")]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file in it is no key.
    #[error("{path} is no public key as minisign writes them: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Others may write to it: they could make their plugins trusted.
    #[error("{path} is not safe: others than its owner may write to it (mode {mode:o}); chmod go-w it")]
    WritableByOthers {
        /// The folder or file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Signatures are required, and no signer is trusted.
    #[error(
        "signatures are required, and there is no trusted key; put one into the folder of trusted keys, or name the folder"
    )]
    NoKeys,
}

/// The keys that are trusted, and whether a plugin must be signed by one.
#[derive(Debug, Clone, Default)]
pub struct Signatures {
    keys: Vec<TrustedKey>,
    required: bool,
}

#[derive(Debug, Clone)]
struct TrustedKey {
    key: PublicKey,
    signer: KeyOwner,
}

/// The owner of a trusted key, and for whom the owner may sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyOwner {
    /// The key's file.
    file: PathBuf,
    /// The vendors; none for every vendor that is not reserved.
    vendors: Option<BTreeSet<String>>,
}

impl KeyOwner {
    /// Checks that the owner of the key may sign plugins of this vendor.
    pub(crate) fn check_vendor(&self, plugin: &PluginName) -> Result<(), SignatureError> {
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

impl Signatures {
    /// Reads the keys of a folder: every `*.pub` in it. Without a folder no key is trusted.
    ///
    /// # Errors
    /// [`TrustedKeysError`]: one key that cannot be used stops the start, for its plugins would silently not be taken.
    pub fn of_folder(folder: Option<&Path>, required: bool) -> Result<Self, TrustedKeysError> {
        let mut keys = Vec::new();
        if let Some(folder) = folder {
            check_writers(folder)?;
            let failed = |source| TrustedKeysError::Read { path: folder.to_owned(), source };
            for entry in fs::read_dir(folder).map_err(failed)? {
                let path = entry.map_err(failed)?.path();
                if path.extension().is_some_and(|extension| extension == KEY_EXTENSION) {
                    check_writers(&path)?;
                    keys.push(read_key(path)?);
                }
            }
            keys.sort_by(|one, other| one.signer.file.cmp(&other.signer.file));
        }
        if required && keys.is_empty() {
            return Err(TrustedKeysError::NoKeys);
        }
        Ok(Self { keys, required })
    }

    /// Checks a plugin's content against the signature beside its file. `known` says whether the
    /// content needs none: the operator has named it, or it comes with volhost. Returns who has
    /// signed it.
    pub(crate) fn check(
        &self,
        file: &Path,
        content: &[u8],
        known: impl Fn() -> bool,
    ) -> Result<Option<KeyOwner>, SignatureError> {
        // Without keys nothing can be said of a signature.
        if self.keys.is_empty() {
            return Ok(None);
        }
        let signature = signature_file(file);
        let text = match read_bounded(&signature) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return if !self.required || known() { Ok(None) } else { Err(SignatureError::Missing { signature }) };
            }
            Err(source) => return Err(SignatureError::Read { signature, source }),
        };
        let decoded = match Signature::decode(&text) {
            Ok(decoded) => decoded,
            Err(error) => return Err(SignatureError::Malformed { signature, reason: error.to_string() }),
        };
        let mut named = None;
        for TrustedKey { key, signer } in &self.keys {
            match key.verify(content, &decoded, true) {
                Ok(()) => return Ok(Some(signer.clone())),
                Err(minisign_verify::Error::UnexpectedKeyId) => {}
                Err(_) => named = Some(signer.file.clone()),
            }
        }
        Err(match named {
            Some(key) => SignatureError::Forged { signature, key },
            None => SignatureError::Untrusted { signature, keys: self.keys.len() },
        })
    }
}

/// The path of the signature of a plugin's file.
#[must_use]
pub fn signature_file(plugin: &Path) -> PathBuf {
    let mut signature = plugin.as_os_str().to_owned();
    signature.push(EXTENSION);
    PathBuf::from(signature)
}

/// Reads a key's file: minisign's comment and key, and then, if the key is not for every vendor, a
/// line of ours with the vendors.
fn read_key(path: PathBuf) -> Result<TrustedKey, TrustedKeysError> {
    let text = read_bounded(&path).map_err(|source| TrustedKeysError::Read { path: path.clone(), source })?;
    let (ours, of_minisign): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with(VENDORS_LINE));
    let malformed = |reason: String| TrustedKeysError::Malformed { path: path.clone(), reason };
    let key = PublicKey::decode(&of_minisign.join("\n")).map_err(|error| malformed(error.to_string()))?;
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
    Ok(TrustedKey { key, signer: KeyOwner { file: path, vendors } })
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

fn read_bounded(path: &Path) -> io::Result<String> {
    use std::os::unix::fs::OpenOptionsExt;
    // Non-blocking: a named pipe must not block the host.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    file.take(FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
