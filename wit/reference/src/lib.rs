//! Tools for the contract `volhost:plugin`: its reference page, and the check that it is compatible
//! with plugins that were built for a release of it.
//!
//! | module | content |
//! |---|---|
//! | [`contract`] | the parsed contract |
//! | [`surface`] | the items that a plugin can rely on |
//! | [`compatibility`] | the comparison of two surfaces |
//! | [`grants`] | the configuration that grants an interface |
//! | [`page`] | the reference page |
//! | `words` | types and functions in WIT |
#![forbid(unsafe_code)]

pub mod compatibility;
pub mod contract;
pub mod grants;
pub mod page;
pub mod surface;
mod words;
