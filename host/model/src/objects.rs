//! What a call may ask of the objects that its volume names: config maps, secrets, tokens, trust
//! bundles. Who runs the calls implements it over whatever knows the objects.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;

use crate::Pod;
use thiserror::Error;

/// The content of one key of an object. Shared: an object of a thousand pods is in memory once.
pub type Bytes = Arc<[u8]>;

/// A config map or a secret, as it is at one moment. Its debug text shows no value.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KeyedObject(Arc<BTreeMap<String, Bytes>>);

impl KeyedObject {
    /// An object with these keys.
    #[must_use]
    pub fn new(entries: BTreeMap<String, Bytes>) -> Self {
        Self(Arc::new(entries))
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// The content of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Bytes> {
        self.0.get(key)
    }
}

impl Debug for KeyedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// An object that cannot be read. The text is for the person who reads the pod's events, and
/// contains no value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ObjectError {
    /// It is known not to exist.
    #[error("{0}")]
    NotFound(String),
    /// It is not known now whether it exists.
    #[error("{0}")]
    Unknown(String),
    /// It exists, or could, and cannot be used as it is; a person must change something.
    #[error("{0}")]
    Unusable(String),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
}

/// A token that a volume asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenRequest {
    /// Who it is for; none for the issuer's own audience.
    pub audience: Option<String>,
    /// How long it is to be valid, in seconds.
    pub expiration_seconds: u64,
}

/// The objects of all sources. Called from threads that run calls, many at once; answers from
/// memory.
pub trait Objects: Send + Sync + Debug {
    /// The config map's `data` and `binaryData`.
    ///
    /// # Errors
    /// [`ObjectError`]
    fn config_map(&self, namespace: &str, name: &str) -> Result<KeyedObject, ObjectError>;
    /// The secret's `data`.
    ///
    /// # Errors
    /// [`ObjectError`]
    fn secret(&self, namespace: &str, name: &str) -> Result<KeyedObject, ObjectError>;
    /// The secret's type and its `data`.
    ///
    /// # Errors
    /// [`ObjectError`]
    fn typed_secret(&self, namespace: &str, name: &str) -> Result<(String, KeyedObject), ObjectError> {
        Ok((String::new(), self.secret(namespace, name)?))
    }
    /// A token of the pod's service account, bound to the pod. The same one again while most of its
    /// time is left; the pod's volumes are set up again in time for the next.
    ///
    /// # Errors
    /// [`ObjectError`]
    fn token(&self, pod: &Pod, request: &TokenRequest) -> Result<Bytes, ObjectError>;
    /// The certificates of a bundle, in PEM.
    ///
    /// # Errors
    /// [`ObjectError`]
    fn trust_bundle(&self, name: &str) -> Result<Bytes, ObjectError>;
    /// The certificates of the signer's bundles whose labels match the selector (JSON of a
    /// LabelSelector; none matches nothing), in PEM.
    ///
    /// # Errors
    /// [`ObjectError`]
    fn trust_bundles(&self, signer: &str, label_selector: Option<&str>) -> Result<Bytes, ObjectError>;
    /// `spec` of the CSIDriver of this name, as JSON; none when it is known not to exist.
    ///
    /// # Errors
    /// [`ObjectError`]
    fn csi_driver(&self, name: &str) -> Result<Option<String>, ObjectError>;
    /// A number that changes whenever what [`Objects::csi_driver`] answers may have changed.
    fn revision(&self) -> u64 {
        0
    }
}

/// No objects: for calls about no volume.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObjects;

impl NoObjects {
    fn none<T>(what: &str) -> Result<T, ObjectError> {
        Err(ObjectError::NotFound(format!("there is no {what} here")))
    }
}

impl Objects for NoObjects {
    fn config_map(&self, _: &str, _: &str) -> Result<KeyedObject, ObjectError> {
        Self::none("config map")
    }

    fn secret(&self, _: &str, _: &str) -> Result<KeyedObject, ObjectError> {
        Self::none("secret")
    }

    fn token(&self, _: &Pod, _: &TokenRequest) -> Result<Bytes, ObjectError> {
        Self::none("token")
    }

    fn trust_bundle(&self, _: &str) -> Result<Bytes, ObjectError> {
        Self::none("trust bundle")
    }

    fn trust_bundles(&self, _: &str, _: Option<&str>) -> Result<Bytes, ObjectError> {
        Self::none("trust bundle")
    }

    fn csi_driver(&self, _: &str) -> Result<Option<String>, ObjectError> {
        Ok(None)
    }
}
