//! The status page of a node: one HTML file, and the data that it asks for.
//!
//! The page has its script and its style in it, and asks for nothing else than its data. Its
//! Content-Security-Policy names both by their digests, so that no other script runs, whatever a
//! manifest contains. The script shows every text as text.
#![forbid(unsafe_code)]

mod document;
mod policy;
mod query;

pub use document::NodeState;
pub use policy::policy;
pub use query::PageQuery;

/// The page.
pub const PAGE: &str = include_str!("page.html");
