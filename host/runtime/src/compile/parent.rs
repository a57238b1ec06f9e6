//! The host's side: starts the child, feeds it, and takes what it makes, within bounds of size and time.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use volhost_kernel::program::{Child, Program};

use super::child::{CPU_SECONDS, REFUSED};
use super::children::Children;
use crate::error::CompileError;
use crate::limits::Limits;
use crate::sections::code_bytes;
use crate::text::tame;

/// What is kept of the child's complaints, in bytes.
const SAID_BYTES: u64 = 8192;

/// How to start the compiler child: a program that does nothing but [`compile_stdin_to_stdout`](super::compile_stdin_to_stdout).
#[derive(Debug, Clone)]
pub struct Compiler {
    /// The program, by absolute path: the host's own, as a rule. `/proc/self/exe` names it even after an upgrade has replaced
    /// the file.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// What the threads around the child report.
enum Report {
    Code(io::Result<Vec<u8>>),
    Said(String),
    Exited,
}

/// What they have reported so far.
#[derive(Default)]
struct Outcome {
    code: Option<io::Result<Vec<u8>>>,
    said: Option<String>,
    exited: bool,
}

impl Outcome {
    fn take(&mut self, report: Report) {
        match report {
            Report::Code(code) => self.code = Some(code),
            Report::Said(said) => self.said = Some(said),
            Report::Exited => self.exited = true,
        }
    }

    fn is_complete(&self) -> bool {
        self.exited && self.code.is_some() && self.said.is_some()
    }
}

impl Compiler {
    /// Compiles a component in a fresh child. Blocks for as long as it takes (tens of
    /// milliseconds), at most `limits.compile_time`, and until [`Children::stop`].
    ///
    /// # Guarantees
    /// When it returns, the child is gone.
    ///
    /// # Errors
    /// [`CompileError::Refused`] for a component that is not valid; the others when the child itself failed.
    pub(crate) fn compile(&self, wasm: &[u8], limits: &Limits, children: &Children) -> Result<Vec<u8>, CompileError> {
        let code = code_bytes(wasm);
        let cpu_seconds = limits.compile_cpu(code);
        let mut child = self.start(cpu_seconds)?;
        let listed = children.list(&child);
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(CompileError::Pipe(io::Error::other("the child has no pipes")));
        };
        let deadline = Instant::now() + limits.compile_time;
        let pid = child.pid();
        let (done, reports) = channel();
        thread::scope(|scope| {
            // A child that stops reading breaks the pipe; why it did, it says elsewhere.
            scope.spawn(move || {
                let mut stdin = stdin;
                let _ = stdin.write_all(wasm);
            });
            let report = done.clone();
            scope.spawn(move || {
                send(&report, Report::Code(read_bounded(stdout, limits.compiled_bytes.saturating_add(1))))
            });
            let report = done.clone();
            scope.spawn(move || send(&report, Report::Said(said(stderr))));
            scope.spawn(move || {
                wait(pid);
                send(&done, Report::Exited);
            });

            let outcome = collect(&reports, deadline, &child);
            drop(listed);
            let status = child.wait().map_err(CompileError::Pipe)?;
            if children.is_stopped() && !status.success() {
                return Err(CompileError::Stopped);
            }
            if status.signal() == Some(Signal::XCPU.as_raw()) {
                return Err(CompileError::OutOfTime { seconds: cpu_seconds, bytes: code });
            }
            judge(outcome, status, limits)
        })
    }

    fn start(&self, cpu_seconds: u64) -> Result<Child, CompileError> {
        // Nothing of the host's environment, which may hold credentials.
        Program::new(&self.program)
            .arguments(&self.args)
            .variable(CPU_SECONDS, cpu_seconds.to_string())
            .start()
            .map_err(|source| CompileError::Start { program: self.program.clone(), source })
    }
}

/// Nobody listens any more once the outcome is clear.
fn send(to: &Sender<Report>, report: Report) {
    let _ = to.send(report);
}

fn read_bounded(from: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn said(mut stderr: impl Read) -> String {
    let mut bytes = Vec::new();
    // What was read until it failed is worth telling.
    let _ = stderr.by_ref().take(SAID_BYTES).read_to_end(&mut bytes);
    // The rest is drained, so that a chatty child does not block.
    let _ = io::copy(&mut stderr, &mut io::sink());
    tame(String::from_utf8_lossy(&bytes).trim(), usize::try_from(SAID_BYTES).unwrap_or(usize::MAX))
}

/// Waits for the end of the child, and leaves it for its owner to reap: until then its id cannot become another process's.
fn wait(pid: Pid) {
    while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {}
}

/// Everything the child has to say; none when it had to be killed.
fn collect(reports: &Receiver<Report>, deadline: Instant, child: &Child) -> Option<Outcome> {
    let mut outcome = Outcome::default();
    while !outcome.is_complete() {
        match reports.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(report) => outcome.take(report),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                // It may have ended this very moment; then there is nothing to kill.
                let _ = child.kill();
                return None;
            }
        }
    }
    Some(outcome)
}

fn judge(outcome: Option<Outcome>, status: ExitStatus, limits: &Limits) -> Result<Vec<u8>, CompileError> {
    let Some(outcome) = outcome else {
        return Err(CompileError::TimedOut { seconds: limits.compile_time.as_secs() });
    };
    let code = outcome.code.unwrap_or_else(|| Ok(Vec::new())).map_err(CompileError::Pipe)?;
    let said = outcome.said.unwrap_or_default();
    if u64::try_from(code.len()).is_ok_and(|bytes| bytes > limits.compiled_bytes) {
        return Err(CompileError::TooLarge { limit: limits.compiled_bytes });
    }
    if status.success() {
        return Ok(code);
    }
    if status.code() == Some(i32::from(REFUSED)) {
        return Err(CompileError::Refused(said));
    }
    let how = match status.signal() {
        Some(signal) => format!("killed by signal {signal}"),
        None => format!("{status}"),
    };
    Err(CompileError::Died { how, said: if said.is_empty() { "it said nothing".to_owned() } else { said } })
}
