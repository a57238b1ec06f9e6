//! The conformance suite: checks any volume plugin against the contract, on the real kernel.
//! `volhost conformance` runs it, and so do tests.
//!
//! A *case* checks the plugin against one sentence of the contract (`docs/contract.md`, see
//! [`contract`]), with the volume that a [`Subject`] names. Each case runs on a node of its own: a
//! thread in a mount namespace of its own, with a scratch file system in memory that contains the
//! host's root folder and the volume's storage. Nothing of it is left when the case has ended.
//!
//! ```text
//!  Subject ── plugin, volume, grants ──► Suite::run ── for each case ──► Scratch ──► TestNode ── bring_up, end, repeat, undo, look ──► Outcome
//!                                                                                     │                                          │
//!                                                                    volhost-runtime ─┘ every host call watched                  ▼
//!                                                                                                                          Report
//! ```
//!
//! The test node takes the same steps as the daemon and the CSI driver
//! ([`volhost_volume_ops::steps`]): it brings a volume up step by step (attach, stage, publish; or
//! attach, stage and map as a device) and down again. Most cases apply to every step.
//!
//! | module | its job |
//! |---|---|
//! | [`subject`] | what is tested: the plugin, its volume, what surrounds it |
//! | [`contract`] | the sentences, read from their page |
//! | [`suite`] | which cases there are, and running them |
//! | [`report`] | what came of it, as text, JSON and JUnit |
//! | `cases` | the cases, one file a group |
//! | `case_file`, `case_error` | a case file, read; what can be wrong with it |
//! | `test_node` | a node on which the steps of a volume and their undos run |
//! | `verdict` | how a case, or a step of it, goes |
//! | `lifecycle` | the steps |
//! | `watch` | the host calls of one call: recorded, ended, made to fail |
//! | `look` | what is at a target, and what exists on the node |
//! | `scratch` | the namespace and its file system |
//! | `storage` | the volume's storage there |
//! | `objects` | the objects that the volume names |
#![forbid(unsafe_code)]

mod case_error;
mod case_file;
mod cases;
pub mod contract;
mod lifecycle;
mod look;
mod objects;
pub mod report;
mod scratch;
mod storage;
pub mod subject;
pub mod suite;
mod test_node;
mod verdict;
mod watch;

pub use case_error::CaseError;
pub use report::{CaseOutcome, CaseReport, Report};
pub use subject::{HostServices, Subject, SubjectError};
pub use suite::{Suite, SuiteError, case_names};
