//! Whose plugins are taken: detached signatures beside plugin files, checked against the keys that
//! the operator trusts.
//!
//! ```text
//! plugins/archive.wasm                the plugin
//! plugins/archive.wasm.minisig        its signature by minisign: Ed25519 over the file or its BLAKE2b
//! plugins/archive.wasm.sig            its signature by `cosign sign-blob`: ECDSA on P-256
//! plugins/archive.wasm.cosign.json    those by `cosign sign` in a registry, with what they sign
//! trusted-keys/vendor.pub             a key, as `minisign -G` or `cosign generate-key-pair` writes it
//! ```
//!
//! A signature that is there must be good, whether or not one is required: a plugin whose file and
//! signature do not fit was not meant to be. Of several signatures one by a trusted key is enough,
//! unless another one names a trusted key and does not fit. Those of a tool of which no key is
//! trusted say nothing.
//!
//! | module | its job |
//! |---|---|
//! | `keys` | the folder of trusted keys |
//! | [`cosign`] | keys and signatures of cosign |

pub(crate) mod cosign;
mod keys;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use minisign_verify::Signature;
use thiserror::Error;
use volhost_model::PluginName;

use cosign::{ArtifactSignatures, CosignKey};
use keys::{Key, KeyOwner, TrustedKey, VENDORS_LINE};

/// The suffixes of signatures' files beside their plugin's.
const MINISIGN: &str = ".minisig";
const COSIGN_BLOB: &str = ".sig";
const COSIGN_ARTIFACT: &str = ".cosign.json";
/// The largest key or signature that is read, in bytes: they have some hundred.
const FILE_BYTES: u64 = 8 << 10;
/// The largest file of signatures from a registry, in bytes: with the manifest that they are for.
const ARTIFACT_BYTES: u64 = 256 << 10;

/// Why a plugin's signature was not accepted.
#[derive(Debug, Error)]
pub enum SignatureError {
    /// There is none, and one is required.
    #[error(
        "it is not signed: {} is not there, and signatures are required; put it there, or pin the plugin's content by `sha256` in its grant",
        either(.signatures)
    )]
    Missing {
        /// Where it was looked for: each of them would do.
        signatures: Vec<PathBuf>,
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
    #[error("its signature {signature} is none of {tool}'s: {reason}")]
    Malformed {
        /// The file.
        signature: PathBuf,
        /// Whose signature it should be.
        tool: &'static str,
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
    /// A signature of cosign, which does not say whose it is, was made by no trusted key, or for
    /// something else.
    #[error(
        "its signature {signature} fits none of the trusted keys of cosign ({}): another key has made it, or the content has changed since; get \
         both files again, or put its maker's key into the folder of trusted keys",
        either(.keys)
    )]
    NoKeyFits {
        /// The file.
        signature: PathBuf,
        /// The keys' files.
        keys: Vec<PathBuf>,
    },
    /// A trusted key has signed another artifact.
    #[error("its signature {signature}, made by the owner of {key}, is for something else: {reason}")]
    OtherArtifact {
        /// The file.
        signature: PathBuf,
        /// The key.
        key: PathBuf,
        /// What does not match.
        reason: String,
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
    #[error("{path} is no public key as minisign or cosign write them: {reason}")]
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

/// The owners of the trusted keys that have signed a plugin; empty if none has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signers(Vec<KeyOwner>);

impl Signers {
    /// Checks that one of them may sign plugins of this vendor. Without signers every vendor is
    /// good.
    pub(crate) fn check_vendor(&self, plugin: &PluginName) -> Result<(), SignatureError> {
        let mut refusal = None;
        for owner in &self.0 {
            match owner.check_vendor(plugin) {
                Ok(()) => return Ok(()),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        refusal.map_or(Ok(()), Err)
    }
}

impl Signatures {
    /// Reads the keys of a folder: every `*.pub` in it. Without a folder no key is trusted.
    ///
    /// # Errors
    /// [`TrustedKeysError`]: one key that cannot be used stops the start, for its plugins would silently not be taken.
    pub fn of_folder(folder: Option<&Path>, required: bool) -> Result<Self, TrustedKeysError> {
        let keys = folder.map(keys::read_folder).transpose()?.unwrap_or_default();
        if required && keys.is_empty() {
            return Err(TrustedKeysError::NoKeys);
        }
        Ok(Self { keys, required })
    }

    /// Checks a plugin's content against the signatures beside its file. `known` says whether the
    /// content needs none: the operator has named it, or it comes with volhost. Returns who has
    /// signed it.
    pub(crate) fn check(
        &self,
        file: &Path,
        content: &[u8],
        known: impl Fn() -> bool,
    ) -> Result<Signers, SignatureError> {
        let mut signers = Vec::new();
        let mut refusal = None;
        let mut looked_for = Vec::new();
        for kind in KINDS {
            // Without keys nothing can be said of a signature.
            if !self.keys.iter().any(|trusted| kind.is_of(&trusted.key)) {
                continue;
            }
            let signature = beside(file, kind.suffix());
            let text = match read_bounded(&signature, kind.bytes()) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    looked_for.push(signature);
                    continue;
                }
                Err(source) => return Err(SignatureError::Read { signature, source }),
            };
            match self.verify(kind, signature, &text, content) {
                Ok(owner) => signers.push(owner),
                Err(error @ (SignatureError::Forged { .. } | SignatureError::OtherArtifact { .. })) => {
                    return Err(error);
                }
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        match refusal {
            _ if !signers.is_empty() => Ok(Signers(signers)),
            Some(refusal) => Err(refusal),
            None if !self.required || known() => Ok(Signers::default()),
            None => Err(SignatureError::Missing { signatures: looked_for }),
        }
    }

    fn verify(
        &self,
        kind: SignatureKind,
        signature: PathBuf,
        text: &str,
        content: &[u8],
    ) -> Result<KeyOwner, SignatureError> {
        match kind {
            SignatureKind::Minisign => self.verify_minisign(signature, text, content),
            SignatureKind::CosignBlob => match cosign::blob_signature(text) {
                Ok(made) => match self.cosign_signer(content, &made) {
                    Some(owner) => Ok(owner.clone()),
                    None => Err(self.no_key_fits(signature)),
                },
                Err(reason) => Err(SignatureError::Malformed { signature, tool: "cosign", reason }),
            },
            SignatureKind::CosignArtifact => self.verify_artifact(signature, text, content),
        }
    }

    fn verify_minisign(&self, signature: PathBuf, text: &str, content: &[u8]) -> Result<KeyOwner, SignatureError> {
        let decoded = match Signature::decode(text) {
            Ok(decoded) => decoded,
            Err(error) => {
                return Err(SignatureError::Malformed { signature, tool: "minisign", reason: error.to_string() });
            }
        };
        let mut named = None;
        let mut keys = 0;
        for trusted in &self.keys {
            let Key::Minisign(key) = &trusted.key else { continue };
            keys += 1;
            match key.verify(content, &decoded, true) {
                Ok(()) => return Ok(trusted.owner.clone()),
                Err(minisign_verify::Error::UnexpectedKeyId) => {}
                Err(_) => named = Some(trusted.owner.file.clone()),
            }
        }
        Err(match named {
            Some(key) => SignatureError::Forged { signature, key },
            None => SignatureError::Untrusted { signature, keys },
        })
    }

    fn verify_artifact(&self, signature: PathBuf, text: &str, content: &[u8]) -> Result<KeyOwner, SignatureError> {
        let read = ArtifactSignatures::decode(text).and_then(|all| Ok((all.payloads()?, all)));
        let (payloads, artifact) = match read {
            Ok(read) => read,
            Err(reason) => return Err(SignatureError::Malformed { signature, tool: "cosign", reason }),
        };
        let mut refusal = None;
        for one in payloads {
            let Some(owner) = self.cosign_signer(&one.payload, &one.signature) else { continue };
            // Only what a trusted key has signed is looked into.
            match artifact.check_chain(&one.payload, content) {
                Ok(()) => return Ok(owner.clone()),
                Err(reason) => refusal = refusal.or(Some((owner.file.clone(), reason))),
            }
        }
        Err(match refusal {
            Some((key, reason)) => SignatureError::OtherArtifact { signature, key, reason },
            None => self.no_key_fits(signature),
        })
    }

    /// The owner of the trusted key of cosign that has signed this.
    fn cosign_signer(&self, signed: &[u8], signature: &[u8]) -> Option<&KeyOwner> {
        let mut keys = self.cosign_keys();
        keys.find(|(key, _)| key.has_signed(signed, signature)).map(|(_, owner)| owner)
    }

    fn cosign_keys(&self) -> impl Iterator<Item = (&CosignKey, &KeyOwner)> {
        self.keys.iter().filter_map(|trusted| match &trusted.key {
            Key::Cosign(key) => Some((key, &trusted.owner)),
            Key::Minisign(_) => None,
        })
    }

    fn no_key_fits(&self, signature: PathBuf) -> SignatureError {
        let keys = self.cosign_keys().map(|(_, owner)| owner.file.clone()).collect();
        SignatureError::NoKeyFits { signature, keys }
    }
}

/// The kinds of signatures, in the order in which they are checked.
const KINDS: [SignatureKind; 3] = [SignatureKind::Minisign, SignatureKind::CosignBlob, SignatureKind::CosignArtifact];

/// A kind of signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignatureKind {
    /// Of minisign, for the file.
    Minisign,
    /// Of cosign, for the file.
    CosignBlob,
    /// Of cosign, for the artifact in a registry.
    CosignArtifact,
}

impl SignatureKind {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Minisign => MINISIGN,
            Self::CosignBlob => COSIGN_BLOB,
            Self::CosignArtifact => COSIGN_ARTIFACT,
        }
    }

    const fn bytes(self) -> u64 {
        match self {
            Self::Minisign | Self::CosignBlob => FILE_BYTES,
            Self::CosignArtifact => ARTIFACT_BYTES,
        }
    }

    /// Whether keys of this kind make such signatures.
    const fn is_of(self, key: &Key) -> bool {
        matches!(key, Key::Minisign(_)) == matches!(self, Self::Minisign)
    }
}

/// The paths of the signatures that a plugin's file may have: by minisign, by `cosign sign-blob`,
/// and by `cosign sign` with what it has signed.
#[must_use]
pub fn signature_files(plugin: &Path) -> [PathBuf; 3] {
    KINDS.map(|kind| beside(plugin, kind.suffix()))
}

fn beside(plugin: &Path, suffix: &str) -> PathBuf {
    let mut signature = plugin.as_os_str().to_owned();
    signature.push(suffix);
    PathBuf::from(signature)
}

/// Names files of which one is enough.
fn either(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" or ")
}

/// Reads at most `bytes` of a file.
fn read_bounded(path: &Path, bytes: u64) -> io::Result<String> {
    use std::os::unix::fs::OpenOptionsExt;
    // Non-blocking: a named pipe must not block the host.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    file.take(bytes).read_to_string(&mut text)?;
    Ok(text)
}
