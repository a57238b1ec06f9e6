//! The plugin folder: which `.wasm` files are loaded, what serves which volume source, and what becomes of a plugin whose
//! file is replaced or removed.
//!
//! ```text
//!             file appears            file replaced: new operations use the new one,
//!   (nothing) ------------> Ready <-------------------.   running ones end with the old
//!        |                    |  \____________________/
//!        | cannot be loaded   | file removed
//!        v                    v
//!      Failed              Retired: serves tear-downs only, until its last volume is gone
//! ```
//!
//! A plugin that misbehaves with one volume after another is *Quarantined*: it sets nothing up until its file is replaced, or an operator
//! sends SIGHUP. It still takes volumes away.
//!
//! A new version that asks for more than is granted is *Held*: the version before goes on until the operator grants it. Grants are read again
//! when their file changes. A plugin whose grant no longer covers what it imports is retired.
//!
//! A plugin whose name or source is new to the node is *Waiting* until every other file is loaded:
//! another file may claim the same.
//!
//! A plugin whose code is not cached is *Compiling* first, in the background. What the compiler
//! refused is remembered, and tried again on SIGHUP.
//!
//! Names, sources and grants belong to content that was approved, not to whoever is loaded first: [`Approvals`] keeps what was settled.
//!
//! A file that cannot be loaded never takes away the version that was loaded before.
#![forbid(unsafe_code)]

mod admission;
mod approvals;
mod catalog;
mod claims;
mod folder;
mod grant_file;
mod identified;
mod loader;
mod places;
mod quarantine;
mod refusals;
mod registry;
mod source;
mod views;

pub use approvals::{Approvals, ApprovalsError};
pub use folder::watch;
pub use grant_file::GrantFile;
pub use identified::{Answer, Meaning, Question, QuestionKey};
pub use refusals::{APPROVAL, RegistryError};
pub use registry::{PluginChanges, PluginRegistry};
