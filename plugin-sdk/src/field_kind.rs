//! The type of a field of a volume's source.

use std::fmt;

/// The type of a field of a volume's source, as [`Volume::kind`](crate::Volume::kind) returns it:
/// one of JSON's. Its text is the word that messages use: `text`, `number`, `boolean`, `list` or
/// `map`.
///
/// ```
/// # use volhost_plugin_sdk::prelude::*;
/// let volume = Volume::builder("shares").field("size", 10);
/// assert_eq!(volume.handle().kind("size"), Some(FieldKind::Number));
/// let words = [FieldKind::Text, FieldKind::Number, FieldKind::Boolean, FieldKind::List, FieldKind::Map].map(|kind| kind.to_string());
/// assert_eq!(words, ["text", "number", "boolean", "list", "map"]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A string.
    Text,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list.
    List,
    /// A map.
    Map,
}

impl FieldKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::List => "list",
            Self::Map => "map",
        }
    }
}

impl fmt::Display for FieldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The kind's word, or `absent` for a field that is missing.
pub(crate) fn word_or(kind: Option<FieldKind>, absent: &'static str) -> &'static str {
    kind.map_or(absent, FieldKind::word)
}
