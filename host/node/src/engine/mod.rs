//! The loop around the state machine: events in, operations out, views and waiters.
//!
//! ```text
//!  requests ---\                                              .--> executor --> thread: operation --.
//!  manifests --->  serve (one task) --> Core::step --commands-+--> waiting callers                  |
//!  plugins ----/          ^                                   '--> event log                        |
//!                         '------------------------- reports ---------------------------------------'
//! ```
//!
//! | module | its job |
//! |---|---|
//! | [`serve`] | the task: one thing after another |
//! | [`world`] | the state machine and what surrounds it |
//! | `turns` | how long the task was busy with one thing |
//! | [`sources`] | objects to desired pods |
//! | `keeping`, `kept` | objects that were added by request, and their files |
//! | [`controller_reports`] | what controllers say of attachments |
//! | [`executor`], [`running`], [`sink`] | operations on the worker threads |
//! | `sweep` | cleanup of the folders of unknown pods |
//! | [`fuse_servers`] | FUSE servers that have ended |
//! | `vanished`, [`forced`] | mounts that go without an operation |
//! | [`handle`], [`requests`], [`manifest_text`] | how others ask |

mod accounts;
mod answers;
mod claims;
pub mod controller_reports;
mod csi_drivers;
pub mod event_log;
pub mod executor;
pub mod forced;
pub mod fuse_servers;
pub mod handle;
mod keeping;
mod kept;
pub mod manifest_text;
mod periodic;
pub mod provisioning;
pub mod requests;
pub mod running;
pub mod serve;
pub mod sink;
pub mod sources;
mod sweep;
mod turns;
mod vanished;
pub mod world;

pub use handle::EngineHandle;
