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
//! | [`sources`] | objects to desired pods |
//! | [`executor`], [`operation`], [`sink`] | operations on threads that may block |
//! | [`records`], [`recovery`], [`layout`] | what stands on disk, and what is known of it after a restart |
//! | [`handle`], [`requests`], [`manifest_text`] | how others ask |

mod answers;
pub mod clock;
pub mod event_log;
pub mod executor;
pub mod handle;
pub mod layout;
pub mod manifest_text;
pub mod operation;
pub mod records;
pub mod recovery;
pub mod requests;
pub mod serve;
pub mod sink;
pub mod sources;
pub mod world;

pub use handle::EngineHandle;
