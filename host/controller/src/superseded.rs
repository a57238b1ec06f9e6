//! Versions of objects that this program has replaced, and that its cache may still show.
//!
//! A watch follows some time after a write. Until then the cache has what was before, and work on
//! it would be done again.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The replaced versions of objects of one kind without a namespace, by name.
#[derive(Debug, Default)]
pub(crate) struct Superseded(Mutex<HashMap<String, BTreeSet<String>>>);

impl Superseded {
    /// Whether this version was replaced. Any other one is newer than all that were.
    pub(crate) fn has(&self, meta: &ObjectMeta) -> bool {
        let (Some(name), Some(version)) = (&meta.name, &meta.resource_version) else { return false };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_replaced = all.get(name).is_some_and(|versions| versions.contains(version));
        if !is_replaced {
            all.remove(name);
        }
        is_replaced
    }

    /// These versions of an object are replaced by the last one that was written.
    pub(crate) fn add<'a>(&self, name: &str, versions: impl IntoIterator<Item = &'a ObjectMeta>) {
        let versions = versions.into_iter().filter_map(|meta| meta.resource_version.clone());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(name.to_owned()).or_default().extend(versions);
    }

    /// The object of this name is gone from the cache.
    pub(crate) fn forget(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: &str) -> ObjectMeta {
        ObjectMeta { name: Some("a".to_owned()), resource_version: Some(number.to_owned()), ..ObjectMeta::default() }
    }

    #[test]
    fn a_version_is_replaced_until_the_cache_shows_another() {
        let superseded = Superseded::default();
        assert!(!superseded.has(&version("1")));
        superseded.add("a", [&version("1"), &version("2")]);
        assert!(superseded.has(&version("1")) && superseded.has(&version("2")));
        assert!(!superseded.has(&version("3")));
        // Forgotten: the cache goes forward only.
        assert!(!superseded.has(&version("1")));
        superseded.add("a", [&version("4")]);
        superseded.forget("a");
        assert!(!superseded.has(&version("4")));
    }
}
