//! What an index says of a plugin.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use volhost_model::names::PluginName;
use volhost_registry::Reference;

/// A plugin in an index. Fields that this version does not know are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexEntry {
    /// `vendor/name`, as the plugin calls itself.
    pub(super) name: String,
    /// Its version.
    pub(super) version: String,
    /// What it does, in one line.
    #[serde(default)]
    pub(super) description: String,
    /// The volume sources that it serves.
    #[serde(default)]
    pub(super) sources: Vec<String>,
    /// The interfaces that it asks for.
    #[serde(default)]
    pub(super) interfaces: Vec<String>,
    /// The version of the contract that it was built for.
    #[serde(default)]
    pub(super) contract: String,
    /// Where it is: `HOST/NAME:TAG@sha256:...`.
    pub(super) reference: String,
}

/// Why an entry cannot be used.
#[derive(Debug, Error)]
pub(super) enum EntryError {
    /// It has another form.
    #[error("{0}")]
    Form(#[from] serde_json::Error),
    /// The name is none.
    #[error("name: {0}")]
    Name(String),
    /// The reference is none.
    #[error("reference: {0}")]
    Reference(String),
    /// The reference may lead to another plugin tomorrow.
    #[error("reference: {0} has no digest; `volhost plugin publish` prints one that has")]
    Unpinned(String),
}

impl IndexEntry {
    /// Reads an entry and checks it.
    ///
    /// # Errors
    /// [`EntryError`] names the field.
    pub(super) fn from_json(value: Value) -> Result<Self, EntryError> {
        let entry: Self = serde_json::from_value(value)?;
        entry.check()?;
        Ok(entry)
    }

    /// Checks the name and the reference.
    ///
    /// # Errors
    /// [`EntryError`] names the field.
    pub(super) fn check(&self) -> Result<(), EntryError> {
        PluginName::new(&self.name).map_err(|error| EntryError::Name(error.to_string()))?;
        let reference: Reference = self.reference.parse().map_err(|error| EntryError::Reference(format!("{error}")))?;
        match reference.digest() {
            Some(_) => Ok(()),
            None => Err(EntryError::Unpinned(self.reference.clone())),
        }
    }

    /// Whether each of these words is in what it says, whatever the case.
    pub(super) fn matches(&self, words: &[String]) -> bool {
        let texts = [&self.name, &self.description].into_iter().chain(&self.sources);
        let texts: Vec<String> = texts.map(|text| text.to_lowercase()).collect();
        words.iter().all(|word| {
            let word = word.to_lowercase();
            texts.iter().any(|text| text.contains(&word))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(changed: &str, value: &str) -> Result<IndexEntry, EntryError> {
        let mut all = json!({
            "name": "acme.org/archive",
            "version": "1.0.0",
            "description": "Folders of an archive",
            "sources": ["csi:archive.acme.org"],
            "reference": format!("registry.example.com/acme/archive:1.0@sha256:{}", "0".repeat(64)),
            "homepage": "of a later version",
        });
        all[changed] = value.into();
        IndexEntry::from_json(all)
    }

    #[test]
    fn a_plugin_is_found_by_all_words_in_any_field() {
        let entry = entry("version", "2").unwrap();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(entry.matches(&[]) && entry.matches(&words("FOLDERS acme")) && entry.matches(&words("csi:")));
        assert!(!entry.matches(&words("folders nfs")));
    }

    #[test]
    fn what_cannot_be_pulled_or_named_is_refused_with_the_field() {
        assert!(entry("name", "../x").unwrap_err().to_string().starts_with("name: "));
        assert!(matches!(entry("reference", "registry.example.com/acme/archive:1.0"), Err(EntryError::Unpinned(_))));
        assert!(matches!(entry("reference", "-"), Err(EntryError::Reference(_))));
        assert!(IndexEntry::from_json(json!({"name": "a/b"})).unwrap_err().to_string().contains("version"));
    }
}
