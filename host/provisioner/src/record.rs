//! The record of a volume. It contains the names of secrets, never a secret.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Time;
use crate::terms::Terms;

/// Bumped when a field changes its meaning.
const VERSION: u32 = 1;
/// The longest name of a volume, in bytes: CSI's limit for a text.
const NAME_BYTES: usize = 128;

/// A claim, by name; another of the name has another uid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl ClaimName {
    /// `namespace/name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The initial content of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum InitialContent {
    /// The content of this volume, by its handle.
    Volume(String),
    /// The content of this snapshot, by its handle.
    Snapshot(String),
}

/// The claim's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// At least so many bytes.
    pub bytes: u64,
    /// At most so many.
    pub limit: Option<u64>,
    /// As a device.
    pub as_device: bool,
    /// In Kubernetes' spelling.
    pub access_modes: Vec<String>,
    /// Its initial content.
    pub source: Option<InitialContent>,
}

/// A claim for which a volume is to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingClaim {
    /// The claim.
    pub claim: ClaimName,
    /// By which terms.
    pub terms: Terms,
    /// What it asks for.
    pub wanted: ClaimRequest,
    /// It comes from a manifest, not from a request.
    pub in_manifest: bool,
}

/// The storage's description of a volume that it has created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreatedStorage {
    /// Its handle.
    pub id: String,
    /// Its size in bytes.
    pub capacity: u64,
    /// The attributes for mounting it.
    pub attributes: BTreeMap<String, String>,
    /// The labels of nodes that it can be reached from, place by place; none: from everywhere.
    pub reachable_from: Vec<BTreeMap<String, String>>,
}

/// The phase of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// The storage was asked for it; it may exist.
    Asked,
    /// It exists, and belongs to the claim.
    Made(CreatedStorage),
    /// It exists but does not match the request: it is deleted again.
    Undoing(CreatedStorage),
    /// Its claim is gone. It is never given to another.
    Released(CreatedStorage),
    /// It was forgotten by request; its name is not used again.
    Forgotten,
}

/// The record of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProvisionRecord {
    version: u32,
    /// Its name, in requests to the storage and of the PersistentVolume.
    pub name: String,
    /// The claim for which it was created.
    pub claim: ClaimName,
    /// The parameters of its class.
    pub terms: Terms,
    /// The request.
    pub wanted: ClaimRequest,
    /// The claim came from a manifest: without any manifest, it is not known to be gone.
    #[serde(default)]
    pub in_manifest: bool,
    /// Since when the claim is missing, if it is and its deletion was not stated.
    #[serde(default)]
    pub missing_since: Option<Time>,
    /// For how long volhost saw that the claim is missing, in microseconds.
    #[serde(default)]
    pub missing_for: Time,
    /// The claim's deletion was stated, and it was not seen since.
    #[serde(default)]
    pub deletion_stated: bool,
    /// How far it is.
    pub phase: Phase,
}

/// Why a file is no usable record.
#[derive(Debug, Error)]
pub enum RecordContentError {
    /// It cannot be parsed.
    #[error("it is no record of a volume: {0}")]
    Form(#[from] serde_json::Error),
    /// Another version.
    #[error("it is a record of version {0}, and this volhost knows version {VERSION}")]
    Version(u32),
    /// It is another volume's.
    #[error("it is the record of {0:?}")]
    Name(String),
    /// A field has an impossible value.
    #[error("{0} has an impossible value")]
    Field(&'static str),
}

impl ProvisionRecord {
    /// A record of a volume that the storage was not asked for yet.
    #[must_use]
    pub fn new(name: String, want: PendingClaim) -> Self {
        let PendingClaim { claim, terms, wanted, in_manifest } = want;
        Self {
            version: VERSION,
            name,
            claim,
            terms,
            wanted,
            in_manifest,
            missing_since: None,
            missing_for: 0,
            deletion_stated: false,
            phase: Phase::Asked,
        }
    }

    /// The storage's description, if the volume is known to exist.
    #[must_use]
    pub fn made(&self) -> Option<&CreatedStorage> {
        match &self.phase {
            Phase::Made(made) | Phase::Undoing(made) | Phase::Released(made) => Some(made),
            Phase::Asked | Phase::Forgotten => None,
        }
    }

    /// Encodes the record.
    ///
    /// # Errors
    /// The encoder's.
    pub fn write(&self) -> Result<Vec<u8>, RecordContentError> {
        Ok(serde_json::to_vec_pretty(self)?)
    }

    /// Reads the record of the volume of this name.
    ///
    /// # Errors
    /// [`RecordContentError`].
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, RecordContentError> {
        let record: Self = serde_json::from_slice(bytes)?;
        if record.version != VERSION {
            return Err(RecordContentError::Version(record.version));
        }
        if record.name != name {
            return Err(RecordContentError::Name(record.name));
        }
        if name.is_empty() || name.len() > NAME_BYTES {
            return Err(RecordContentError::Field("name"));
        }
        if record.terms.provisioner.is_empty() {
            return Err(RecordContentError::Field("terms.provisioner"));
        }
        if record.made().is_some_and(|made| made.id.is_empty()) {
            return Err(RecordContentError::Field("id"));
        }
        Ok(record)
    }
}
