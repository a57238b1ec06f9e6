//! The events of the state machine and its decisions: kept in memory by the daemon, written to a
//! file on request, replayed by the same version or another one.
//!
//! ```text
//!  event --> Core::step --> commands
//!    |                         |
//!    +------> Recorder <-------+        on the loop's thread: copies, which share names, pods and specs
//!                |
//!     base | segment | segment | open   the oldest segments leave; the base then takes their steps
//!                |
//!            Recording  --> file --> RecordingFile --> Replay --> the first difference
//! ```
//!
//! | module | its job |
//! |---|---|
//! | [`recorder`] | keeps the last steps within a bound |
//! | `base` | the state before the oldest step that is kept |
//! | `size` | how much memory a step takes |
//! | [`recording`] | the steps at one moment: written to a file, or repeated |
//! | [`file`](mod@file) | the format, and its reader |
//! | `shared_objects` | pods and specs, once for all steps of a file |
//! | [`replay`] | the steps of a file taken again, and compared |
//! | `difference` | the first place at which two lists of commands differ |
//! | [`sentences`] | events and commands, in sentences |
//! | [`subjects`] | which pods and volumes a step concerns |
//!
//! # Guarantees
//! - The recorder does no I/O and takes no lock for longer than it takes to pass a segment on.
//! - A recording has what the state machine has: names, objects without the content of Secrets, and
//!   the words of failures. The state machine never receives the content of a Secret.
#![forbid(unsafe_code)]

mod base;
mod difference;
pub mod file;
pub mod recorder;
pub mod recording;
pub mod replay;
pub mod sentences;
mod shared_objects;
mod size;
pub mod subjects;

pub use difference::Difference;
pub use file::{FORMAT_VERSION, RecordingError, RecordingFile};
pub use recorder::{BaseWork, Recorder};
pub use recording::Recording;
pub use replay::{Replay, ReplayedStep};
