//! Parts of the documents that tests run as they are.

use crate::artifacts::workspace;

/// The first block of TOML on the page of a plugin: its grant.
///
/// # Panics
/// When the page has none.
pub fn grant(plugin: &str) -> String {
    let page = workspace().join("plugins").join(plugin).join("README.md");
    let page = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let (_, rest) = page.split_once("```toml\n").expect("a block of TOML");
    rest.split_once("```").expect("its end").0.to_owned()
}

/// A text with a part replaced that must be in it.
///
/// # Panics
/// When it is not.
pub fn with(text: &str, part: &str, other: &str) -> String {
    assert!(text.contains(part), "{part:?} is not in {text}");
    text.replace(part, other)
}
