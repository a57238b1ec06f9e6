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
//! | [`executor`], [`running`], [`lane`], [`operation`], [`sink`] | operations on threads that may block |
//! | `attaching`, `devices`, `mounting`, `sub_paths`, `block`, `expansion`, `sharers` | what each operation does |
//! | [`records`], [`device_records`], [`recovery`], [`layout`], [`layout_version`] | the records on disk, and what a restart learns from them |
//! | [`orphans`], `sweep` | folders of pods that nobody knows |
//! | [`helpers`] | programs that serve file systems, and have ended |
//! | [`standing`], `vanished`, [`forced`] | mounts that go without an operation |
//! | [`sizes`] | volumes that are measured, for nothing limits them |
//! | [`handle`], [`requests`], [`manifest_text`] | how others ask |

mod accounts;
mod answers;
mod attaching;
mod block;
mod claims;
pub mod clock;
pub mod controller_reports;
mod csi_drivers;
pub mod device_records;
mod devices;
mod elsewhere;
pub mod event_log;
pub mod executor;
mod expansion;
pub mod forced;
pub mod handle;
pub mod helpers;
mod keeping;
mod kept;
pub mod lane;
pub mod layout;
pub mod layout_version;
pub mod manifest_text;
mod mounting;
pub mod operation;
pub mod orphans;
mod periodic;
pub mod provisioning;
mod record_sweep;
pub mod records;
pub mod recovery;
mod recovery_devices;
pub mod requests;
pub mod running;
pub mod serve;
mod sharers;
pub mod sink;
pub mod sizes;
pub mod sources;
pub mod standing;
mod sub_paths;
mod sweep;
mod turns;
mod vanished;
pub mod volume_sizes;
pub mod world;

pub use handle::EngineHandle;
