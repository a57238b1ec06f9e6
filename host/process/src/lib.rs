//! External programs: started, bounded, watched and ended. File system tools, FlexVolume drivers,
//! FUSE servers and the plugin compiler all run through this crate.
//!
//! ```text
//!  Program --start--> Child --.                       .--> exited
//!     |                       |-- Watch (pidfd, pipes)+--> at the deadline, wrote too much: killed with its process group
//!     '------run------------- '                       '--> StopSwitch: killed
//!
//!  Launcher: this program, started again --Launch on its input--> drops privileges --exec--> the program
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `program` | [`Program`]: what to start |
//! | `child` | [`Child`]: a program that was started by this process |
//! | `process` | [`Process`]: any process, by a process descriptor |
//! | `watch` | [`ProcessWatch`]: input, outputs and end of a process |
//! | `run` | [`Program::run`]: a bounded run to the end |
//! | `stop` | [`StopSwitch`]: ends all runs at once |
//! | `tools` | [`Tools`]: the kernel's file system tools |
//! | [`launch`] | the launcher: drops privileges, then becomes the program |
//! | `privileges` | [`Privileges`]: what a launched program may do |
#![forbid(unsafe_code)]

mod child;
pub mod launch;
mod privileges;
mod process;
mod program;
mod run;
mod stop;
mod tools;
mod watch;

pub use child::Child;
pub use launch::{Argument, ArgumentPart, Launch, Launcher};
pub use privileges::{PrivilegeError, Privileges, ProcessLimits};
pub use process::Process;
pub use program::Program;
pub use run::{Overflow, RunBounds, RunEnd, RunError, RunOutput, describe};
pub use stop::StopSwitch;
pub use tools::{Tools, linux_kernel};
pub use watch::{OutputVerdict, ProcessWatch, WatchEnd};
