//! The plugin folder: which `.wasm` files are loaded, which plugin serves which volume source, and
//! what happens when a file is replaced or removed.
//!
//! ```text
//!             file appears            file replaced: new operations use the new one,
//!   (nothing) ------------> Ready <-------------------.   running ones end with the old
//!        |                    |  \____________________/
//!        | cannot be loaded   | file removed
//!        v                    v
//!      Failed              Retired: only unpublishes and unstages, until its last volume is gone
//! ```
//!
//! A plugin that misbehaves with one volume after another is *Quarantined*: it publishes nothing
//! until its file is replaced, or an operator sends SIGHUP. It still unpublishes volumes.
//!
//! A new version that asks for more than is granted is *PendingApproval*: the version before keeps
//! running until the operator grants it. Grants are read again when their file changes. A plugin
//! whose grant no longer covers what it imports is retired.
//!
//! A plugin whose name or source is new to the node is *Waiting* until every other file is loaded:
//! another file may claim the same.
//!
//! A plugin whose code is not cached is *Compiling* first, in the background. A refusal of the
//! compiler is remembered, and tried again on SIGHUP.
//!
//! Names, sources and grants belong to content that was approved, not to the plugin that is loaded
//! first: [`Approvals`] keeps what was settled.
//!
//! [`ClusterFolder`] is a second folder, for plugins that a cluster installs.
//!
//! A file that cannot be loaded never removes the version that was loaded before.
#![forbid(unsafe_code)]

mod admission;
mod answers;
mod approvals;
mod catalog;
mod claims;
mod cluster;
mod cluster_install;
mod folder;
mod grant_file;
mod identified;
mod loader;
mod quarantine;
mod refusals;
mod registry;
mod rights;
mod slots;
mod source;
mod views;

pub use answers::{AnswerEffect, IdentifyAnswer, Question, QuestionKey};
pub use approvals::{Approvals, ApprovalsError};
pub use cluster::{ClusterContent, ClusterFolder, ClusterInstall, ClusterPluginError, ClusterRecord};
pub use cluster_install::{InstalledPlugin, InstalledState};
pub use folder::{PluginFolders, watch};
pub use grant_file::GrantFile;
pub use refusals::RegistryError;
pub use registry::{PluginChanges, PluginRegistry};
