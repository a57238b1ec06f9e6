//! What the author of a plugin uses: the templates and commands, the registries, and
//! languages other than Rust.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod cosign;
mod dev;
mod index;
mod other_languages;
mod plugin_author;
mod registry;
mod sign;
mod wit_packages;
