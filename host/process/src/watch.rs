//! Watching a process: its input is written, its outputs are read, and its end is noticed, all on
//! the calling thread.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::io::Errno;
use volhost_kernel::child::{PollTarget, wait_ready};

use crate::process::Process;

/// Bytes read from a pipe at once. On the stack of threads that have little of it.
const READ_BYTES: usize = 16 << 10;

/// Whether to go on after some of a process's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputVerdict {
    /// Read on.
    Continue,
    /// The process has written more than it may.
    TooMuch,
}

/// Why the watching ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEnd {
    /// The process has ended, and everything that it wrote was read.
    Exited,
    /// The deadline is over. The process runs on.
    Deadline,
    /// [`OutputVerdict::TooMuch`]. The process runs on.
    TooMuch,
}

/// A process that is watched.
pub struct ProcessWatch<'a> {
    process: &'a Process,
    input: Option<Input<'a>>,
    outputs: Vec<OutputPipe<'a>>,
}

struct Input<'a> {
    pipe: File,
    rest: &'a [u8],
}

/// Receives what comes out of a pipe.
type Sink<'a> = dyn FnMut(&[u8]) -> OutputVerdict + 'a;

struct OutputPipe<'a> {
    /// None once it is closed.
    pipe: Option<File>,
    take: Box<Sink<'a>>,
}

impl fmt::Debug for ProcessWatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessWatch").field("process", &self.process).finish_non_exhaustive()
    }
}

impl<'a> ProcessWatch<'a> {
    /// Watches for the end of a process that was not waited for.
    pub fn new(process: &'a Process) -> Self {
        Self { process, input: None, outputs: Vec::new() }
    }

    /// Writes this into the process's input, and closes the input then. A process that closes its
    /// input first is not an error.
    ///
    /// # Errors
    /// The kernel's.
    pub fn with_input(mut self, pipe: impl Into<OwnedFd>, bytes: &'a [u8]) -> io::Result<Self> {
        self.input = Some(Input { pipe: without_waiting(pipe.into())?, rest: bytes });
        Ok(self)
    }

    /// Passes everything that comes out of `pipe` to `take`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn with_output(
        mut self,
        pipe: impl Into<OwnedFd>,
        take: impl FnMut(&[u8]) -> OutputVerdict + 'a,
    ) -> io::Result<Self> {
        self.outputs.push(OutputPipe { pipe: Some(without_waiting(pipe.into())?), take: Box::new(take) });
        Ok(self)
    }

    /// Watches until the process has ended, the deadline, or an output's
    /// [`OutputVerdict::TooMuch`]. Blocks until then. An output that a child of the process keeps
    /// open is not waited for.
    ///
    /// # Errors
    /// The kernel's.
    pub fn until_end(mut self, deadline: Option<Instant>) -> io::Result<WatchEnd> {
        loop {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline < now) {
                return Ok(WatchEnd::Deadline);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
            let mut awaited = vec![PollTarget::Readable(self.process.as_fd())];
            awaited.extend(self.input.iter().map(|input| PollTarget::Writable(input.pipe.as_fd())));
            let pipes = self.outputs.iter().filter_map(|output| output.pipe.as_ref());
            awaited.extend(pipes.map(|pipe| PollTarget::Readable(pipe.as_fd())));
            let exited = match wait_ready(&awaited, left) {
                Ok(ready) => ready.first() == Some(&true),
                // A signal: looked at again.
                Err(Errno::INTR) => false,
                Err(errno) => return Err(errno.into()),
            };
            if self.input.as_mut().is_some_and(|input| input.write().is_break()) {
                self.input = None;
            }
            // Read after the exit was seen: everything that the process wrote is in the pipes by
            // then.
            for output in &mut self.outputs {
                if output.read()? == OutputVerdict::TooMuch {
                    return Ok(WatchEnd::TooMuch);
                }
            }
            if exited {
                return Ok(WatchEnd::Exited);
            }
        }
    }
}

impl Input<'_> {
    /// Writes what the pipe takes now. Breaks when there is no more to write.
    fn write(&mut self) -> ControlFlow<()> {
        loop {
            match self.pipe.write(self.rest) {
                Ok(count) => self.rest = self.rest.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return ControlFlow::Continue(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The process reads no more.
                Err(_) => return ControlFlow::Break(()),
            }
            if self.rest.is_empty() {
                return ControlFlow::Break(());
            }
        }
    }
}

impl OutputPipe<'_> {
    /// Reads what is in the pipe now.
    fn read(&mut self) -> io::Result<OutputVerdict> {
        let mut buffer = [0; READ_BYTES];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    if (self.take)(buffer.get(..count).unwrap_or_default()) == OutputVerdict::TooMuch {
                        return Ok(OutputVerdict::TooMuch);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(OutputVerdict::Continue)
    }
}

/// The descriptor as a file whose reads and writes do not wait.
fn without_waiting(descriptor: OwnedFd) -> io::Result<File> {
    let flags = rustix::fs::fcntl_getfl(&descriptor)?;
    rustix::fs::fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK)?;
    Ok(File::from(descriptor))
}
