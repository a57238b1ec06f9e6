//! Bindings that exist only because the claim had the volume before: of a claim that has grown beyond its volume's capacity, for
//! example. They cannot be decided again from the objects, so a run hands them to the next.

use std::collections::BTreeMap;

use super::object::{Kind, ObjectKey};

/// The claims by the names of their volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldBindings(BTreeMap<String, ObjectKey>);

impl HeldBindings {
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

    /// As they are written; none when there are none.
    pub fn write(&self) -> Option<Vec<u8>> {
        let names: BTreeMap<&String, String> = self.iter().map(|(volume, claim)| (volume, claim.full_name())).collect();
        if names.is_empty() { None } else { serde_json::to_vec_pretty(&names).ok() }
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let names: BTreeMap<String, String> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let mut held = Self::default();
        for (volume, claim) in names {
            let (namespace, name) = claim.split_once('/').ok_or_else(|| format!("{claim:?} is no claim's name"))?;
            held.insert(volume, ObjectKey::new(Kind::PersistentVolumeClaim, namespace, name));
        }
        Ok(held)
    }
}
