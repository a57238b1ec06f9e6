//! What is installed on a node, and its name.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// The digits of a revision's name: enough that the revisions of one plugin never share one.
const NAME_BYTES: usize = 6;

/// A plugin's content with what it may do: everything that makes a node load it anew.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Revision {
    /// The plugin's own name: `vendor/name`.
    pub plugin: String,
    /// The OCI reference of its repository, perhaps with a tag.
    pub image: String,
    /// The digest of its manifest: `sha256:...`.
    pub digest: String,
    /// Its grants, with the keys of a table of `[grants]` in the configuration file. The node's
    /// daemon alone interprets them.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub grants: Map<String, Value>,
    /// Its settings, as a table of `[settings]`. The node's daemon alone interprets them.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
}

impl Revision {
    /// The revision's name, of 12 hexadecimal digits. Equal revisions have the same name, whatever
    /// the order of their keys.
    #[must_use]
    pub fn name(&self) -> String {
        let Self { plugin, image, digest, grants, settings } = self;
        let parts = [
            Value::from(plugin.as_str()),
            Value::from(image.as_str()),
            Value::from(digest.as_str()),
            Value::Object(grants.clone()),
            Value::Object(settings.clone()),
        ];
        let mut text = String::new();
        parts.iter().for_each(|part| write_canonical(part, &mut text));
        let hash = Sha256::digest(text.as_bytes());
        hash.iter().take(NAME_BYTES).fold(String::new(), |mut name, byte| {
            // A string takes any text.
            let _ = write!(name, "{byte:02x}");
            name
        })
    }

    /// The digest, short enough for a column.
    #[must_use]
    pub fn short_digest(&self) -> String {
        self.digest.strip_prefix("sha256:").unwrap_or(&self.digest).chars().take(12).collect()
    }
}

/// Writes JSON with sorted keys.
fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<(&String, &Value)> = fields.iter().collect();
            keys.sort_by_key(|(key, _)| *key);
            text.push('{');
            for (key, value) in keys {
                let _ = write!(text, "{}:", Value::from(key.as_str()));
                write_canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        other => {
            let _ = write!(text, "{other};");
        }
    }
}

/// A revision with its name, as a status keeps it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StoredRevision {
    /// Its name.
    pub revision: String,
    /// What it is.
    #[serde(flatten)]
    pub content: Revision,
}

impl From<Revision> for StoredRevision {
    fn from(content: Revision) -> Self {
        Self { revision: content.name(), content }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn revision(grants: Value) -> Revision {
        serde_json::from_value(json!({
            "plugin": "example.com/archive", "image": "r.example/archive", "digest": "sha256:00", "grants": grants,
        }))
        .unwrap()
    }

    #[test]
    fn the_name_depends_on_the_content_and_not_on_the_order_of_keys() {
        let one = revision(json!({ "host-paths": ["/srv"], "memory": "64Mi" }));
        let same = revision(json!({ "memory": "64Mi", "host-paths": ["/srv"] }));
        assert_eq!(one.name(), same.name());
        assert_eq!(one.name().len(), 12);
        for other in
            [json!({}), json!({ "host-paths": ["/srv"] }), json!({ "host-paths": ["/srv", "/b"], "memory": "64Mi" })]
        {
            assert_ne!(one.name(), revision(other).name());
        }
        assert_ne!(one.name(), Revision { digest: "sha256:01".into(), ..one.clone() }.name());
        assert_ne!(one.name(), Revision { settings: one.grants.clone(), grants: Map::new(), ..one.clone() }.name());
    }

    #[test]
    fn a_stored_revision_is_written_beside_its_name() {
        let stored = StoredRevision::from(revision(json!({})));
        let text = serde_json::to_value(&stored).unwrap();
        assert_eq!(text["plugin"], "example.com/archive");
        assert_eq!(text["revision"], stored.content.name());
        assert_eq!(serde_json::from_value::<StoredRevision>(text).unwrap(), stored);
    }
}
