//! Bindings that exist only because the claim had the volume before: of a claim that has grown
//! beyond its volume's capacity, for example. They cannot be decided again from the objects, so a
//! run hands them to the next.

use std::collections::BTreeMap;

use thiserror::Error;
use volhost_model::names::{NameError, check_dns_label, check_dns_subdomain};

use super::key::{Kind, ObjectKey};

/// Bindings that cannot be read.
#[derive(Debug, Error)]
pub enum RetainedBindingsError {
    /// The text is no map of names.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// A value is not `namespace/name`.
    #[error("{0:?} is not the namespace and name of a claim")]
    NotAClaim(String),
    /// A name that no object has.
    #[error("{0}")]
    Name(#[from] NameError),
}

/// The claims by the names of their volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetainedBindings(BTreeMap<String, ObjectKey>);

impl RetainedBindings {
    /// Whether the claim has the volume.
    pub(super) fn has(&self, volume: &str, claim: &ObjectKey) -> bool {
        self.0.get(volume) == Some(claim)
    }

    pub(super) fn insert(&mut self, volume: String, claim: ObjectKey) {
        self.0.insert(volume, claim);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &ObjectKey)> {
        self.0.iter()
    }

    /// Returns the text to store; none when there are no bindings.
    pub fn write(&self) -> Option<Vec<u8>> {
        let names: BTreeMap<&String, String> = self.iter().map(|(volume, claim)| (volume, claim.full_name())).collect();
        if names.is_empty() { None } else { serde_json::to_vec_pretty(&names).ok() }
    }

    /// Reads the stored text.
    ///
    /// # Errors
    /// [`RetainedBindingsError`].
    pub fn read(bytes: &[u8]) -> Result<Self, RetainedBindingsError> {
        let names: BTreeMap<String, String> = serde_json::from_slice(bytes)?;
        let mut bindings = Self::default();
        for (volume, claim) in names {
            let parts = claim.split_once('/');
            let (namespace, name) = parts.ok_or_else(|| RetainedBindingsError::NotAClaim(claim.clone()))?;
            check_dns_subdomain("PersistentVolume name", &volume)?;
            check_dns_label("namespace", namespace)?;
            check_dns_subdomain("PersistentVolumeClaim name", name)?;
            bindings.insert(volume, ObjectKey::new(Kind::PersistentVolumeClaim, namespace, name));
        }
        Ok(bindings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_object_has_are_refused() {
        let error = |text: &str| RetainedBindings::read(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error(r#"{"pv": "/data"}"#), "namespace is empty");
        assert_eq!(error(r#"{"pv": "default/"}"#), "PersistentVolumeClaim name is empty");
        assert_eq!(error(r#"{"": "default/data"}"#), "PersistentVolume name is empty");
        assert_eq!(error(r#"{"pv": "data"}"#), "\"data\" is not the namespace and name of a claim");
        assert!(error(r#"{"pv": "default/a/b"}"#).contains("PersistentVolumeClaim name"));
    }
}
