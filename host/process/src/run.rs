//! Running a program to its end: bounded in time and in what it writes, and never waited for
//! longer.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::child::Child;
use crate::program::Program;
use crate::stop::StopSwitch;
use crate::watch::{OutputVerdict, ProcessWatch, WatchEnd};

/// The bounds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunBounds {
    /// How long it may take.
    pub deadline: Duration,
    /// The bound of its output.
    pub stdout: Overflow,
    /// The bound of its error output.
    pub stderr: Overflow,
}

/// How many bytes of an output are kept, and what happens to a program that writes more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// The rest is read and dropped, so that the program never waits for a reader.
    Dropped {
        /// How many bytes are kept.
        after: usize,
    },
    /// The program is killed.
    Killed {
        /// How many bytes are kept.
        after: usize,
    },
}

impl RunBounds {
    /// Both outputs are bounded alike.
    #[must_use]
    pub fn new(deadline: Duration, outputs: Overflow) -> Self {
        Self { deadline, stdout: outputs, stderr: outputs }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// The program ended by itself, or by a signal of another process's.
    Exited(ExitStatus),
    /// It was killed at its deadline, with its process group.
    TimedOut,
    /// It was killed because it wrote too much, with its process group.
    WroteTooMuch,
    /// It was killed by the [`StopSwitch`].
    Stopped,
}

/// The end of a run, and what the program wrote until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutput {
    /// How the run ended.
    pub end: RunEnd,
    /// The program's output.
    pub stdout: Vec<u8>,
    /// Its error output.
    pub stderr: Vec<u8>,
}

/// Why a run has no end to report.
#[derive(Debug, Error)]
pub enum RunError {
    /// The program could not be started; nothing ran.
    #[error("{0}")]
    Start(#[source] io::Error),
    /// The program ran and could not be watched. It was killed.
    #[error("it could not be watched and was killed: {0}")]
    Watch(#[source] io::Error),
}

impl From<RunError> for io::Error {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Start(error) | RunError::Watch(error) => error,
        }
    }
}

/// How a program ended, in words: "exit code 1", "signal 9".
#[must_use]
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown state".to_owned(),
    }
}

impl Program {
    /// Runs it in a process group of its own, without input, and waits for its end.
    ///
    /// # Guarantees
    /// What it wrote before it ended is complete. A child that it leaves behind is neither waited
    /// for nor killed, even while that keeps the outputs open: it may serve a file system. At the
    /// deadline the program is killed with every process of its group; one that is stuck in the
    /// kernel then is reaped when it ends.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run(self, bounds: RunBounds) -> Result<RunOutput, RunError> {
        self.run_with_input(bounds, &[])
    }

    /// Runs it as [`Self::run`] does, with this input.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_with_input(self, bounds: RunBounds, input: &[u8]) -> Result<RunOutput, RunError> {
        let deadline = Instant::now() + bounds.deadline;
        let child = self.with_own_group().start().map_err(RunError::Start)?;
        finish(child, deadline, bounds, input, None)
    }

    /// Runs it as [`Self::run`] does, with this input, until its end or that of all runs under
    /// `switch`. It stays in this process's group, so that a terminal's interrupt reaches both.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_until_stopped(
        self,
        bounds: RunBounds,
        input: &[u8],
        switch: &StopSwitch,
    ) -> Result<RunOutput, RunError> {
        let deadline = Instant::now() + bounds.deadline;
        let child = self.start().map_err(RunError::Start)?;
        finish(child, deadline, bounds, input, Some(switch))
    }
}

/// Sees a child to its end.
fn finish(
    mut child: Child,
    deadline: Instant,
    bounds: RunBounds,
    input: &[u8],
    switch: Option<&StopSwitch>,
) -> Result<RunOutput, RunError> {
    let listed = switch.map(|switch| switch.list(child.process()));
    let (mut stdout, mut stderr) = (OutputHead::new(bounds.stdout), OutputHead::new(bounds.stderr));
    let stopped = watch(&mut child, deadline, input, (&mut stdout, &mut stderr));
    drop(listed);
    let end = match stopped {
        Ok(WatchEnd::Exited) => {
            let status = child.wait().map_err(RunError::Watch)?;
            let was_stopped = !status.success() && switch.is_some_and(StopSwitch::is_stopped);
            if was_stopped { RunEnd::Stopped } else { RunEnd::Exited(status) }
        }
        Ok(WatchEnd::Deadline) => {
            child.end();
            RunEnd::TimedOut
        }
        Ok(WatchEnd::TooMuch) => {
            child.end();
            RunEnd::WroteTooMuch
        }
        Err(error) => {
            child.end();
            return Err(RunError::Watch(error));
        }
    };
    Ok(RunOutput { end, stdout: stdout.bytes, stderr: stderr.bytes })
}

fn watch(
    child: &mut Child,
    deadline: Instant,
    input: &[u8],
    (stdout, stderr): (&mut OutputHead, &mut OutputHead),
) -> io::Result<WatchEnd> {
    let (to, out, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut watch = ProcessWatch::new(child.process());
    if let Some(to) = to.filter(|_| !input.is_empty()) {
        watch = watch.with_input(to, input)?;
    }
    for (pipe, kept) in [(out, stdout), (errors, stderr)] {
        if let Some(pipe) = pipe {
            watch = watch.with_output(pipe, move |bytes| kept.take(bytes))?;
        }
    }
    watch.until_end(Some(deadline))
}

/// The beginning of an output.
struct OutputHead {
    bytes: Vec<u8>,
    bound: Overflow,
}

impl OutputHead {
    fn new(bound: Overflow) -> Self {
        Self { bytes: Vec::new(), bound }
    }

    fn take(&mut self, bytes: &[u8]) -> OutputVerdict {
        let (Overflow::Dropped { after } | Overflow::Killed { after }) = self.bound;
        let room = after.saturating_sub(self.bytes.len());
        self.bytes.extend(bytes.iter().take(room));
        match self.bound {
            Overflow::Killed { .. } if bytes.len() > room => OutputVerdict::TooMuch,
            _ => OutputVerdict::Continue,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, Signal};

    use super::*;

    const OUTPUT: Overflow = Overflow::Killed { after: 1 << 20 };
    const BOUNDS: RunBounds = RunBounds { deadline: Duration::from_secs(60), stdout: OUTPUT, stderr: OUTPUT };

    fn shell(script: &str) -> Program {
        Program::new("/bin/sh").with_arguments(["-c", script]).with_variable("PATH", "/usr/bin:/bin")
    }

    fn code(ran: &RunOutput) -> Option<i32> {
        match ran.end {
            RunEnd::Exited(status) => status.code(),
            RunEnd::TimedOut | RunEnd::WroteTooMuch | RunEnd::Stopped => None,
        }
    }

    #[test]
    fn a_run_returns_outputs_and_status_and_its_input_is_empty() {
        let ran = shell("cat; echo out; echo err >&2; exit 3").run(BOUNDS).unwrap();
        assert_eq!((ran.stdout.as_slice(), ran.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(code(&ran), Some(3));
    }

    #[test]
    fn at_the_deadline_the_whole_group_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let pid_file = folder.path().join("pid");
        let script = format!("trap '' TERM INT; sleep 1000 & echo $! > {}; echo begun; wait", pid_file.display());
        // A busy machine may not have come far at a short deadline.
        let ran = [1, 5, 30].map(Duration::from_secs).into_iter().find_map(|deadline| {
            let ran = shell(&script).run(RunBounds { deadline, ..BOUNDS }).unwrap();
            assert_eq!(ran.end, RunEnd::TimedOut);
            (!ran.stdout.is_empty()).then_some(ran)
        });
        assert_eq!(ran.unwrap().stdout, b"begun\n");
        let pid: i32 = std::fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
        // Killed with it, it dies when it gets to run. A zombie, until its new parent collects it,
        // is dead.
        let begun = Instant::now();
        while is_alive(pid) {
            assert!(begun.elapsed() < BOUNDS.deadline, "a child lives on");
            std::thread::yield_now();
        }
    }

    fn is_alive(pid: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
        state.is_some_and(|state| state != "Z" && state != "X")
    }

    #[test]
    fn a_child_that_keeps_the_outputs_open_is_not_waited_for_and_lives() {
        let ran = shell("sleep 1000 & echo $!").run(BOUNDS).unwrap();
        assert_eq!(code(&ran), Some(0));
        let pid: i32 = String::from_utf8(ran.stdout).unwrap().trim().parse().unwrap();
        let pid = Pid::from_raw(pid).unwrap();
        rustix::process::test_kill_process(pid).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }

    #[test]
    fn a_program_that_writes_without_end_is_killed_and_takes_no_memory() {
        let bounds = RunBounds::new(BOUNDS.deadline, Overflow::Killed { after: 1000 });
        let ran = shell("exec cat /dev/zero").run(bounds).unwrap();
        assert_eq!((ran.end, ran.stdout.len()), (RunEnd::WroteTooMuch, 1000));
        let ran = shell("exec cat /dev/zero >&2").run(bounds).unwrap();
        assert_eq!((ran.end, ran.stderr.len()), (RunEnd::WroteTooMuch, 1000));
        let bounds = RunBounds::new(BOUNDS.deadline, Overflow::Dropped { after: 1000 });
        let ran = shell("head -c 1000000 /dev/zero; exit 4").run(bounds).unwrap();
        assert_eq!((code(&ran), ran.stdout.len()), (Some(4), 1000));
    }

    #[test]
    fn a_program_reads_an_input_larger_than_a_pipe() {
        let input = vec![b'x'; 1 << 20];
        let ran = shell("wc -c").run_with_input(BOUNDS, &input).unwrap();
        assert_eq!((code(&ran), ran.stdout.as_slice()), (Some(0), &b"1048576\n"[..]));
        let ran = shell("exec cat").run_with_input(RunBounds::new(BOUNDS.deadline, OUTPUT), &input).unwrap();
        assert_eq!((code(&ran), ran.stdout.len()), (Some(0), input.len()), "read and written at the same time");
    }

    #[test]
    fn a_program_that_closes_its_input_early_is_no_error() {
        let input = vec![b'x'; 1 << 20];
        let ran = shell("exec <&-; echo done").run_with_input(BOUNDS, &input).unwrap();
        assert_eq!((code(&ran), ran.stdout.as_slice()), (Some(0), &b"done\n"[..]));
    }

    #[test]
    fn the_switch_ends_what_runs_and_what_comes_later() {
        let switch = StopSwitch::default();
        let ran = std::thread::scope(|scope| {
            let running = scope.spawn(|| shell("exec sleep 1000").run_until_stopped(BOUNDS, &[], &switch).unwrap());
            switch.stop();
            running.join().unwrap()
        });
        assert_eq!(ran.end, RunEnd::Stopped);
        assert_eq!(shell("exec sleep 1000").run_until_stopped(BOUNDS, &[], &switch).unwrap().end, RunEnd::Stopped);
    }

    #[test]
    fn a_file_that_is_no_program_is_not_started() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        std::fs::write(&text, "text").unwrap();
        let error = Program::new(text).run(BOUNDS).unwrap_err();
        assert!(matches!(error, RunError::Start(error) if error.kind() == io::ErrorKind::PermissionDenied));
    }
}
