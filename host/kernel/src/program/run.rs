//! Running a program of somebody else's to its end: bounded in time and in what it writes, and never waited for longer.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::{Child, Program};
use crate::linux::wait_readable;

/// How long a killed program may take to be gone: longer when the kernel holds it, on a disk that hangs.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes read from a pipe at once: what a pipe holds.
const READ_BYTES: usize = 64 << 10;

/// What bounds a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunBounds {
    /// How long it may take.
    pub deadline: Duration,
    /// How many bytes of what it writes are kept, of its output and of its error output each.
    pub output_bytes: usize,
    /// What becomes of it when it writes more.
    pub overflow: Overflow,
}

/// What becomes of a program that writes more than is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// It goes on; the rest is read and dropped, so that it does not wait for us.
    Dropped,
    /// It is killed.
    Killed,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, or by a signal that was not ours.
    ByItself(ExitStatus),
    /// It was killed at its deadline, with all of its process group.
    AtDeadline,
    /// It was killed because it wrote too much, likewise.
    WroteTooMuch,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// How it ended.
    pub ended: Ended,
    /// What it wrote to its output until then.
    pub stdout: Vec<u8>,
    /// What it wrote to its error output until then.
    pub stderr: Vec<u8>,
}

impl Program {
    /// Runs it in a process group of its own, with an input that has ended, and waits for its end.
    ///
    /// # Guarantees
    /// What it wrote before it ended is complete. A child that it leaves behind is not waited for, even while that keeps the outputs
    /// open, and is not killed: it may serve a file system. At the deadline the program is killed with every process of its group; one
    /// that the kernel holds then is reaped when it lets go.
    ///
    /// # Errors
    /// The kernel's, when it could not be started; then nothing ran.
    pub fn run(self, bounds: RunBounds) -> io::Result<Ran> {
        let begun = Instant::now();
        let mut child = self.in_own_group().start()?;
        drop(child.stdin.take());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let watched = Watched::new(child.pid(), stdout, stderr);
        let mut running = match watched {
            Ok(running) => running,
            Err(error) => {
                end(child);
                return Err(error);
            }
        };
        let ended = running.until_the_end(begun, bounds);
        let Watched { stdout, stderr, .. } = running;
        let ended = match ended {
            Ok(Stop::Exited) => Ended::ByItself(child.wait()?),
            Ok(Stop::Deadline) => {
                end(child);
                Ended::AtDeadline
            }
            Ok(Stop::TooMuch) => {
                end(child);
                Ended::WroteTooMuch
            }
            Err(error) => {
                end(child);
                return Err(error);
            }
        };
        Ok(Ran { ended, stdout: stdout.text, stderr: stderr.text })
    }
}

/// Kills a program with its group and sees it gone; one that the kernel holds is left to a thread.
fn end(child: Child) {
    // Its id is nobody else's before it is waited for.
    let _ = kill_process_group(child.pid(), Signal::KILL);
    let gone = pidfd_open(child.pid(), PidfdFlags::empty())
        .and_then(|process| wait_readable(&[process.as_fd()], milliseconds(KILL_PATIENCE)));
    if gone.is_ok_and(|gone| gone != [true]) {
        // Without the thread it stays a zombie until this process ends.
        let _ = std::thread::Builder::new().name("reaper".into()).spawn(move || child.wait());
        return;
    }
    let _ = child.wait();
}

/// Rounded up, so that what is waited for in vain is late for certain.
fn milliseconds(time: Duration) -> i32 {
    i32::try_from(time.as_millis().saturating_add(1)).unwrap_or(i32::MAX)
}

/// Why the watching ended.
enum Stop {
    Exited,
    Deadline,
    TooMuch,
}

/// One of the outputs; none once it is closed.
struct Output {
    pipe: Option<PipeReader>,
    text: Vec<u8>,
}

impl Output {
    fn new(pipe: Option<PipeReader>) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            let flags = rustix::fs::fcntl_getfl(pipe)?;
            rustix::fs::fcntl_setfl(pipe, flags | OFlags::NONBLOCK)?;
        }
        Ok(Self { pipe, text: Vec::new() })
    }

    /// Takes what can be read now, and keeps so many bytes in all. Whether there was more.
    fn take(&mut self, bounds: RunBounds) -> io::Result<bool> {
        let mut buffer = [0; READ_BYTES];
        let mut more = false;
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    let room = bounds.output_bytes.saturating_sub(self.text.len());
                    self.text.extend(buffer.iter().take(count.min(room)));
                    more |= count > room;
                    if more && bounds.overflow == Overflow::Killed {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(more)
    }
}

/// A running program.
struct Watched {
    process: OwnedFd,
    stdout: Output,
    stderr: Output,
}

impl Watched {
    fn new(pid: Pid, stdout: Option<PipeReader>, stderr: Option<PipeReader>) -> io::Result<Self> {
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self { process, stdout: Output::new(stdout)?, stderr: Output::new(stderr)? })
    }

    fn until_the_end(&mut self, begun: Instant, bounds: RunBounds) -> io::Result<Stop> {
        loop {
            let Some(left) = bounds.deadline.checked_sub(begun.elapsed()) else { return Ok(Stop::Deadline) };
            let exited = self.wait(left)?;
            // Read after the exit was seen: what it wrote is in the pipes by then.
            let more = [self.stdout.take(bounds)?, self.stderr.take(bounds)?];
            if more.contains(&true) && bounds.overflow == Overflow::Killed {
                return Ok(Stop::TooMuch);
            }
            if exited {
                return Ok(Stop::Exited);
            }
        }
    }

    /// Waits for its end or for something to read; whether it has ended.
    fn wait(&self, left: Duration) -> io::Result<bool> {
        let pipes = [&self.stdout, &self.stderr].into_iter().filter_map(|output| output.pipe.as_ref());
        let waited: Vec<_> = std::iter::once(self.process.as_fd()).chain(pipes.map(AsFd::as_fd)).collect();
        match wait_readable(&waited, milliseconds(left)) {
            Ok(ready) => Ok(ready.first() == Some(&true)),
            // A signal: looked at again.
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: RunBounds =
        RunBounds { deadline: Duration::from_secs(60), output_bytes: 1 << 20, overflow: Overflow::Killed };

    fn shell(script: &str) -> Program {
        Program::new("/bin/sh").arguments(["-c", script]).variable("PATH", "/usr/bin:/bin")
    }

    fn code(ran: &Ran) -> Option<i32> {
        match ran.ended {
            Ended::ByItself(status) => status.code(),
            Ended::AtDeadline | Ended::WroteTooMuch => None,
        }
    }

    #[test]
    fn outputs_and_status_are_told_and_the_input_has_ended() {
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
            assert_eq!(ran.ended, Ended::AtDeadline);
            (!ran.stdout.is_empty()).then_some(ran)
        });
        assert_eq!(ran.unwrap().stdout, b"begun\n");
        let pid: i32 = std::fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
        // Killed with it, it dies when it gets to run. A zombie, until its new parent collects it, is dead.
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
    fn one_that_writes_without_end_is_killed_and_takes_no_memory() {
        let ran = shell("exec cat /dev/zero").run(RunBounds { output_bytes: 1000, ..BOUNDS }).unwrap();
        assert_eq!((ran.ended, ran.stdout.len()), (Ended::WroteTooMuch, 1000));
        let ran = shell("exec cat /dev/zero >&2").run(RunBounds { output_bytes: 1000, ..BOUNDS }).unwrap();
        assert_eq!((ran.ended, ran.stderr.len()), (Ended::WroteTooMuch, 1000));
        let bounds = RunBounds { output_bytes: 1000, overflow: Overflow::Dropped, ..BOUNDS };
        let ran = shell("head -c 1000000 /dev/zero; exit 4").run(bounds).unwrap();
        assert_eq!((code(&ran), ran.stdout.len()), (Some(4), 1000));
    }

    #[test]
    fn what_is_no_program_is_not_started() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        std::fs::write(&text, "text").unwrap();
        let error = Program::new(text).run(BOUNDS).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
