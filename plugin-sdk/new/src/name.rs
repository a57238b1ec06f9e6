//! The name of a plugin.

use std::fmt;
use std::str::FromStr;

/// The vendor of a plugin whose author names none.
const VENDOR: &str = "example.com";
/// The most that a name may have, in bytes; it is a part of folder names on every node.
const NAME_BYTES: usize = 63;
/// Crates of these names hide crates that Rust brings along.
const TAKEN: [&str; 5] = ["alloc", "core", "proc-macro", "std", "test"];

/// `VENDOR/NAME` of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    vendor: String,
    name: String,
}

/// The reasons for which a text is not a valid plugin name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The part behind the slash, or all of it.
    #[error(
        "\"{0}\" can't be a plugin's name: it has lower-case letters, digits and dashes, begins with a letter, does not end with a dash, and has at most {NAME_BYTES} bytes"
    )]
    Name(String),
    /// The part before the slash.
    #[error("\"{0}\" can't be a vendor: write a domain of yours in lower case, such as example.com")]
    Vendor(String),
    /// A crate of that name would hide one of Rust's own.
    #[error("\"{0}\" is the name of a crate that comes with Rust; take another, such as {0}-volume")]
    Taken(String),
}

impl FromStr for Name {
    type Err = NameError;

    /// Reads `NAME`, or `VENDOR/NAME`.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let (vendor, name) = text.split_once('/').unwrap_or((VENDOR, text));
        if !is_label(name) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
            return Err(NameError::Name(name.to_owned()));
        }
        if vendor.len() > NAME_BYTES || !vendor.split('.').all(is_label) {
            return Err(NameError::Vendor(vendor.to_owned()));
        }
        if TAKEN.contains(&name) {
            return Err(NameError::Taken(name.to_owned()));
        }
        Ok(Self { vendor: vendor.to_owned(), name: name.to_owned() })
    }
}

/// Whether it is a label of a domain name, in lower case.
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=NAME_BYTES).contains(&text.len())
        && text.bytes().all(|byte| inner(byte) || byte == b'-')
        && text.bytes().next().is_some_and(inner)
        && text.bytes().last().is_some_and(inner)
}

impl Name {
    /// The crate's name, and its folder's.
    #[must_use]
    pub fn crate_name(&self) -> &str {
        &self.name
    }

    /// The vendor's domain.
    #[must_use]
    pub fn vendor(&self) -> &str {
        &self.vendor
    }

    /// The type that the plugin is, in Rust: `block-store` is `BlockStoreVolumes`.
    #[must_use]
    pub fn type_name(&self) -> String {
        let mut text: String = self.name.split('-').map(capitalised).collect();
        text.push_str("Volumes");
        text
    }

    /// The field of a pod's volume that selects the plugin: `block-store` is `blockStore`.
    #[must_use]
    pub fn field(&self) -> String {
        let mut words = self.name.split('-');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |text, word| text + &capitalised(word))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.vendor, self.name)
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_follows_from_one_name() {
        let name: Name = "acme.org/block-store2".parse().unwrap();
        assert_eq!(name.to_string(), "acme.org/block-store2");
        assert_eq!((name.crate_name(), name.vendor()), ("block-store2", "acme.org"));
        assert_eq!((name.type_name().as_str(), name.field().as_str()), ("BlockStore2Volumes", "blockStore2"));
        assert_eq!("scratch".parse::<Name>().unwrap().to_string(), "example.com/scratch");
    }

    #[test]
    fn an_invalid_name_is_refused_by_its_part() {
        for text in ["", "Scratch", "2nd", "a_b", "a b", "-a", "a-", "a/b/c", "x\n", &"x".repeat(64)] {
            assert!(matches!(text.parse::<Name>(), Err(NameError::Name(_))), "{text}");
        }
        for text in ["/x", "../x", "Acme/x", "a..b/x", "a_b/x", "-/x"] {
            assert!(matches!(text.parse::<Name>(), Err(NameError::Vendor(_))), "{text}");
        }
        assert_eq!("core".parse::<Name>(), Err(NameError::Taken("core".to_owned())));
    }
}
