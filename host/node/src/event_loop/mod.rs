//! The event loop around the state machine: inputs in, operations out, views and waiters.
//!
//! ```text
//!  requests ---\                                                  .--> executor --> worker: operation --.
//!  manifests --->     run     --> node_state --> Core::step --commands-+--> waiting callers              |
//!  plugins ----/       ^                                          '--> event log                        |
//!                      '----------------------------- reports ------------------------------------------'
//! ```
//!
//! | module | its job |
//! |---|---|
//! | `run` | one input after another, until the node stops |
//! | `node_state` | the parts of the node, and what each input does with them |
//! | `world` | the state machine, its clock, its waiting callers, its events |
//! | `executor`, `running_operation`, `sink`, `volume_accounts` | operations on worker threads |
//! | `reports` | what worker threads report |
//! | `sources` | objects to desired pods |
//! | `object_requests`, `object_files`, [`manifest_text`] | objects that are added by request, and their files |
//! | `comparison` | what adding objects would change |
//! | `plans` | what would be mounted and unmounted |
//! | `controller_reports` | controllers' reports of attachments |
//! | `plugins`, `drivers` | plugins and external drivers that appear, change or go |
//! | `provisioning` | volumes for claims |
//! | `orphans`, `orphan_search` | cleanup of the folders of unknown pods |
//! | `fuse_servers`, `vanished`, `forced` | mounts that go without an operation |
//! | `drains`, `expected_pods`, `schedule` | callers that wait, and work at intervals |
//! | [`handle`](NodeHandle), [`requests`], `lookup`, `queries`, `claims` | what callers ask, and the answers |
//! | `event_log`, `operation_history` | what happened lately |
//! | `free_memory` | memory that a burst of operations leaves |
//! | `turns` | how long the loop was busy with one input |
//! | `watchdog` | signs of life for a service manager |

mod claims;
mod comparison;
mod controller_reports;
mod drains;
mod drivers;
mod event_log;
pub(crate) mod executor;
mod expected_pods;
mod forced;
mod free_memory;
pub(crate) mod fuse_servers;
mod handle;
mod lookup;
pub mod manifest_text;
pub(crate) mod node_state;
pub(crate) mod object_files;
mod object_requests;
mod operation_history;
mod orphan_search;
mod orphans;
mod plans;
mod plugins;
pub(crate) mod provisioning;
mod queries;
mod reply;
pub(crate) mod reports;
pub mod requests;
pub(crate) mod run;
mod running_operation;
mod schedule;
mod sink;
pub(crate) mod sources;
mod turns;
pub(crate) mod vanished;
mod volume_accounts;
mod watchdog;
pub(crate) mod world;

pub use executor::Bounds;
pub use handle::NodeHandle;
pub use watchdog::Watchdog;
