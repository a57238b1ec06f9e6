//! Programs that do what only they can: make, check and recognise file systems. Found in fixed folders, run without a shell, with
//! an empty environment, no input, bounded output and a deadline.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal};

use super::syscall::wait_readable;
use crate::error::KernelError;
use crate::kernel::Result;
use crate::program::{Child, Program};
use crate::step::Step;

/// Where programs are looked for, whatever the environment says.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// The same, for what a program starts itself.
const SEARCH_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// How much of each output is kept, in bytes. The rest is read and dropped, so that the program does not wait for us.
const KEPT_BYTES: usize = 64 * 1024;
/// How much is read at once, in bytes.
const READ_BYTES: usize = 8 * 1024;
/// How much of it a message shows, in characters: its end, where tools say what went wrong.
const SHOWN_CHARS: usize = 600;
/// How long a killed program may take to end before it is left to itself: one that hangs in the kernel can't be waited for.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// A program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tool {
    /// Its name.
    pub(super) name: &'static str,
    /// The Debian package that has it.
    pub(super) package: &'static str,
}

/// What it is run for, as messages tell it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Purpose<'a> {
    pub(super) step: Step,
    pub(super) path: &'a str,
}

/// How a program ended.
#[derive(Debug)]
pub(super) struct Ended {
    status: ExitStatus,
    /// Its output.
    pub(super) out: Vec<u8>,
    errors: Vec<u8>,
}

impl Ended {
    /// Its exit code, none if a signal ended it.
    pub(super) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// What it said, on one line.
    pub(super) fn said(&self) -> String {
        words(&[&self.errors, &self.out])
    }

    /// The error for an end that is none of those expected.
    pub(super) fn failed(&self, tool: Tool, purpose: Purpose<'_>) -> KernelError {
        let status = match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "an unknown state".to_owned(),
        };
        let (step, path) = (purpose.step, purpose.path.to_owned());
        KernelError::ToolFailed { step, path, tool: tool.name, status, said: self.said() }
    }
}

/// Runs a program to its end, or to the deadline.
pub(super) fn run(tool: Tool, arguments: &[&OsStr], purpose: Purpose<'_>, deadline: Duration) -> Result<Ended> {
    let (step, path) = (purpose.step, purpose.path);
    let failed = |errno| KernelError::Failed { step, path: path.to_owned(), errno, detail: tool.name.to_owned() };
    let missing = || KernelError::ToolMissing { step, path: path.to_owned(), tool: tool.name, package: tool.package };
    let program = find(tool.name).ok_or_else(missing)?;
    let started = Program::new(program)
        .arguments(arguments)
        .variable("PATH", SEARCH_PATH)
        // Messages that this code and its users read the same everywhere.
        .variable("LC_ALL", "C")
        // So that at the deadline its children go too, and a terminal's interrupt does not break off a mkfs.
        .in_own_group()
        .start();
    let mut child = match started {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing()),
        started => started.map_err(|error| failed(errno_of(&error)))?,
    };
    // It has nothing to read.
    drop(child.stdin.take());
    let mut outputs = [Output::new(child.stdout.take()), Output::new(child.stderr.take())];
    let watched = watch(&child, &mut outputs, deadline);
    if !matches!(watched, Ok(true)) {
        end(child);
        watched.map_err(failed)?;
        let [out, errors] = outputs;
        let (tool, seconds, said) = (tool.name, deadline.as_secs(), words(&[&errors.kept, &out.kept]));
        return Err(KernelError::ToolTimedOut { step, path: path.to_owned(), tool, seconds, said });
    }
    let status = child.wait().map_err(|error| failed(errno_of(&error)))?;
    let [out, errors] = outputs;
    Ok(Ended { status, out: out.kept, errors: errors.kept })
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn find(name: &str) -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| PathBuf::from(folder).join(name)).find(|path| path.is_file())
}

/// One output of a program.
struct Output {
    pipe: Option<File>,
    kept: Vec<u8>,
}

impl Output {
    fn new(pipe: Option<impl Into<OwnedFd>>) -> Self {
        Self { pipe: pipe.map(|pipe| File::from(pipe.into())), kept: Vec::new() }
    }

    /// Reads what is there; at the end the pipe is closed.
    fn read(&mut self) {
        let mut buffer = [0; READ_BYTES];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    let room = KEPT_BYTES.saturating_sub(self.kept.len());
                    self.kept.extend(buffer.iter().take(count.min(room)));
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }
}

/// Reads the outputs until the program ends: true; or until the deadline: false.
fn watch(child: &Child, outputs: &mut [Output; 2], deadline: Duration) -> std::result::Result<bool, Errno> {
    let process = rustix::process::pidfd_open(child.pid(), PidfdFlags::empty())?;
    for pipe in outputs.iter().filter_map(|output| output.pipe.as_ref()) {
        // A child of the program may hold the pipe open for ever; what is there is read, and no more waited for.
        rustix::fs::fcntl_setfl(pipe, OFlags::NONBLOCK)?;
    }
    let until = Instant::now() + deadline;
    loop {
        let open: Vec<BorrowedFd<'_>> =
            outputs.iter().filter_map(|output| output.pipe.as_ref()).map(AsFd::as_fd).collect();
        let mut all = vec![process.as_fd()];
        all.extend(open);
        let left = until.saturating_duration_since(Instant::now());
        let milliseconds = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
        let ready = match wait_readable(&all, milliseconds) {
            Err(Errno::INTR) => continue,
            ready => ready?,
        };
        for output in outputs.iter_mut() {
            output.read();
        }
        if ready.first() == Some(&true) {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}

/// Ends a program with all its children, and waits for it if it ends soon.
fn end(child: Child) {
    let pid = child.pid();
    // It was not waited for, so its id and its group's are still its own.
    let killed = rustix::process::kill_process_group(pid, Signal::KILL);
    let gone = killed.and_then(|()| rustix::process::pidfd_open(pid, PidfdFlags::empty())).and_then(|process| {
        let milliseconds = i32::try_from(KILL_GRACE.as_millis()).unwrap_or(i32::MAX);
        wait_readable(&[process.as_fd()], milliseconds)
    });
    if matches!(gone.as_deref(), Ok([true])) {
        drop(child.wait());
        return;
    }
    // The kernel holds it, most likely for a device that does not answer. It is dead as soon as that lets go.
    std::thread::spawn(move || drop(child.wait()));
}

/// The end of what was said, on one line.
fn words(said: &[&[u8]]) -> String {
    let text: Vec<String> = said.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    let lines: Vec<&str> =
        text.iter().flat_map(|text| text.lines()).map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = lines.join("; ");
    let from = line.chars().count().saturating_sub(SHOWN_CHARS);
    line.chars().skip(from).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use rustix::process::Pid;

    use super::*;

    const SHELL: Tool = Tool { name: "sh", package: "dash" };
    const PURPOSE: Purpose<'_> = Purpose { step: Step::FormatDevice, path: "/dev/x" };
    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str, deadline: Duration) -> Result<Ended> {
        run(SHELL, &["-c".as_ref(), script.as_ref()], PURPOSE, deadline)
    }

    #[test]
    fn output_and_exit_code_are_told() {
        let ended = shell("echo out; echo wrong >&2; exit 3", LONG).unwrap();
        assert_eq!((ended.code(), ended.out.as_slice(), ended.said().as_str()), (Some(3), &b"out\n"[..], "wrong; out"));
        let error = ended.failed(SHELL, PURPOSE).to_string();
        assert_eq!(error, "formatting block device /dev/x: sh ended with exit code 3. It said: wrong; out");
    }

    #[test]
    fn a_program_sees_no_environment_and_no_input() {
        let ended = shell("cat; echo \"$HOME$USER$PATH\"", LONG).unwrap();
        assert_eq!(ended.out, format!("{SEARCH_PATH}\n").as_bytes());
    }

    #[test]
    fn endless_output_is_cut_and_does_not_hang() {
        let ended = shell("head -c 1000000 /dev/zero", LONG).unwrap();
        assert_eq!((ended.code(), ended.out.len()), (Some(0), KEPT_BYTES));
    }

    #[test]
    fn at_the_deadline_a_program_and_its_children_end() {
        let started = Instant::now();
        let error = shell("echo $$; sleep 1000 & sleep 1000", Duration::from_millis(300)).unwrap_err();
        let KernelError::ToolTimedOut { said, .. } = error else { panic!("{error:?}") };
        assert!(started.elapsed() < LONG, "it was not waited for");
        let group: i32 = said.trim().parse().unwrap();
        // A grandchild is killed with it, and dies when it gets to run. A zombie, until its new parent collects it, is dead.
        while has_living_member(group) {
            assert!(started.elapsed() < LONG, "a child lives on");
            std::thread::yield_now();
        }
    }

    fn has_living_member(group: i32) -> bool {
        let stats = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path().join("stat")).ok());
        stats.into_iter().any(|stat| {
            let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
            fields[2] == group.to_string() && fields[0] != "Z" && fields[0] != "X"
        })
    }

    #[test]
    fn a_child_that_keeps_the_output_open_is_not_waited_for() {
        let started = Instant::now();
        let ended = shell("echo done; sleep 20 >&1 & echo $!", LONG).unwrap();
        assert!(started.elapsed() < Duration::from_secs(15));
        let child = String::from_utf8(ended.out).unwrap().lines().last().unwrap().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let tool = Tool { name: "mkfs.nothing", package: "nothing-progs" };
        let error = run(tool, &[], PURPOSE, LONG).unwrap_err().to_string();
        assert!(error.contains("apt-get install nothing-progs"), "{error}");
    }
}
