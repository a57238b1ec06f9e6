//! The programs that make, check and recognise file systems: what they are run with, and who runs
//! them. Starting and bounding programs is not this crate's work; `volhost-process` has the
//! implementation.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

/// One run of a program on a device.
#[derive(Debug, Clone, Copy)]
pub struct ToolRun<'a> {
    /// The program, by absolute path.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: &'a [&'a OsStr],
    /// Its whole environment.
    pub environment: &'a [(&'a str, &'a str)],
    /// How long it may take.
    pub deadline: Duration,
    /// How many bytes of its output, and of its error output, are kept. The rest is read and
    /// dropped.
    pub kept_bytes: usize,
}

/// How a run ended, and what the program wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// The program's own end; none if it was killed at its deadline.
    pub status: Option<ExitStatus>,
    /// Its output.
    pub stdout: Vec<u8>,
    /// Its error output.
    pub stderr: Vec<u8>,
}

/// Runs programs on devices.
pub trait RunTool: Debug + Send + Sync {
    /// Runs a program to its end, or kills it with its children at the deadline. The program
    /// inherits what the calling thread may do, so the run starts on that thread.
    ///
    /// # Errors
    /// The kernel's, when the program could not be started; then nothing ran.
    fn run(&self, run: &ToolRun<'_>) -> io::Result<ToolOutput>;
}
