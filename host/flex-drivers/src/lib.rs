//! FlexVolume drivers: programs in a folder of the operator's. They are found, called once for
//! their capabilities, and run for plugins.
//!
//! ```text
//!  DIR/vendor~driver/driver --inotify--> watch --changed--> init --answer--> FlexDrivers <--find, run-- plugins' host calls
//!                                          ^                  |                   |
//!                                          '-- back-off, if it failed             '--> DriverTable, events, pods resolved again
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `drivers` | [`FlexDrivers`]: the drivers of a node, by name |
//! | `folder` | the drivers in a folder, and why the others are none |
//! | `watch` | follows the folder: found, changed, removed; `init` with its back-off |
//! | `init` | `init`: a driver's capabilities |
//! | `probe` | [`probe`]: `init` by hand, without a daemon |
//! | `answer` | the answer in what a driver wrote |
//! | `run` | one run: bounds, sandbox, queue |
//! | `concurrency` | how many runs of a driver there may be at once |
//! | `trust` | the users who could change a driver's program |
//! | `policy` | [`DriverPolicies`]: the operator's bounds and sandbox for a driver |
#![forbid(unsafe_code)]

mod answer;
mod concurrency;
mod drivers;
mod folder;
mod init;
mod policy;
mod probe;
mod run;
mod trust;
mod watch;

pub use drivers::FlexDrivers;
pub use folder::ProgramError;
pub use init::InitError;
pub use policy::{DriverPolicies, DriverPolicy, DriverSandbox};
pub use probe::{ProbeError, ProbedDriver, probe};
pub use trust::TrustError;
pub use watch::{DriverChange, DriverEvent, watch};
