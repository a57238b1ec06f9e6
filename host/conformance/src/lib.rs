//! The conformance suite: holds any volume plugin to the contract, on the real kernel. `volhost conformance` runs it, and so do tests.
//!
//! A *case* holds one sentence of the contract (`docs/contract.md`, see [`contract`]) against the plugin, with the volume that a
//! [`Subject`] names. Each case runs on a node of its own: a thread in a mount namespace of its own, with a scratch file system in memory
//! that holds the host's root folder and the volume's storage. Nothing of it is left when the case has ended.
//!
//! ```text
//!  Subject ── plugin, volume, grants ──► Suite::run ── for each case ──► Scratch ──► Bench ── climb, end, repeat, undo, look ──► Outcome
//!                                                                                     │                                          │
//!                                                                    volhost-runtime ─┘ every host call watched                  ▼
//!                                                                                                                          Report
//! ```
//!
//! The bench calls the plugin as the daemon's engine does: a volume is brought up *rung* by rung (attached, mounted for the node, set up for a
//! pod; or attached, made ready as a device, mapped for a pod) and down again. Most cases hold for every rung alike.
//!
//! | module | holds |
//! |---|---|
//! | [`subject`] | what is tested: the plugin, its volume, what surrounds it |
//! | [`contract`] | the sentences, read from their page |
//! | [`suite`] | which cases there are, and running them |
//! | [`report`] | what came of it, as text, JSON and JUnit |
//! | `cases` | the cases, one file a group |
//! | `case_file` | a case file, read |
//! | `bench` | a node on which a volume goes up and down |
//! | `verdict` | how a case, or a step of it, goes |
//! | `ladder` | the rungs |
//! | `watch` | the host calls of one call: recorded, ended, made to fail |
//! | `look` | what stands at a place, and what there is on the node |
//! | `scratch` | the namespace and its file system |
//! | `storage` | the volume's storage there |
//! | `objects` | the objects that the volume names |
#![forbid(unsafe_code)]

mod bench;
mod case_file;
mod cases;
pub mod contract;
mod ladder;
mod look;
mod objects;
pub mod report;
mod scratch;
mod storage;
pub mod subject;
pub mod suite;
mod verdict;
mod watch;

pub use report::{CaseReport, Outcome, Report};
pub use subject::{Subject, SubjectError, Surroundings};
pub use suite::{Suite, SuiteError, case_names};
