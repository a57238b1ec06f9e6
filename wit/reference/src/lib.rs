//! The contract `volhost:plugin`, looked at as a whole: the page that documents it, and whether
//! plugins that were built for a release of it still fit.
//!
//! | module | holds |
//! |---|---|
//! | [`contract`] | the contract, read |
//! | [`surface`] | what of it a plugin can rely on, item by item |
//! | [`compatibility`] | two surfaces side by side |
//! | [`grants`] | what the operator writes to grant an interface |
//! | [`page`] | the reference page |
//! | `words` | types and functions as they are written |
#![forbid(unsafe_code)]

pub mod compatibility;
pub mod contract;
pub mod grants;
pub mod page;
pub mod surface;
mod words;
