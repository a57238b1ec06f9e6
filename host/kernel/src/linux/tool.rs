//! Programs that do what only they can: make, check and recognise file systems. Found in fixed folders, run without a shell, with
//! an empty environment, no input, bounded output and a deadline, and confined to the device.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::io::Errno;

use super::confinement::{Confinement, NotConfined};
use crate::block_devices::BlockDevice;
use crate::error::{KernelError, Result, ToolError};
use crate::program::{self, Overflow, Program, RunBounds};
use crate::step::Step;

/// Where programs are looked for, whatever the environment says.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// The same, for what a program starts itself.
const SEARCH_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// How much of each output is kept, in bytes. The rest is read and dropped, so that the program does not wait for us.
const KEPT_BYTES: usize = 64 * 1024;
/// How much of it a message shows, in characters: its end, where tools say what went wrong.
const SHOWN_CHARS: usize = 600;

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
        KernelError::Tool(ToolError::Failed { step, path, tool: tool.name, status, said: self.said() })
    }
}

/// Runs a program on a device to its end, or to the deadline. It can reach nothing but the device.
/// `arguments` are the host's own; the device's path comes last, where no program takes it for an
/// option.
pub(super) fn run(
    confinement: &Confinement,
    tool: Tool,
    arguments: &[&str],
    device: &BlockDevice,
    purpose: Purpose<'_>,
    deadline: Duration,
) -> Result<Ended> {
    let program = tool.find(purpose)?;
    let words = arguments.iter().map(OsStr::new).chain([OsStr::new("--"), device.path().as_os_str()]);
    let words: Vec<&OsStr> = words.collect();
    let node = device.as_fd();
    let ran = confinement.run(&program, device, node, || run_program(tool, &program, &words, purpose, deadline));
    ran.map_err(|NotConfined { what, errno }| {
        let (step, path) = (purpose.step, purpose.path.to_owned());
        KernelError::Tool(ToolError::NotConfined { step, path, tool: tool.name, what, errno })
    })?
}

/// Runs a program from this thread, with what this thread may do.
fn run_program(
    tool: Tool,
    program: &Path,
    arguments: &[&OsStr],
    purpose: Purpose<'_>,
    deadline: Duration,
) -> Result<Ended> {
    let (step, path) = (purpose.step, purpose.path);
    let failed = |errno| KernelError::Failed { step, path: path.to_owned(), errno, detail: tool.name.to_owned() };
    let program = Program::new(program)
        .arguments(arguments)
        .variable("PATH", SEARCH_PATH)
        // Messages that this code and its users read the same everywhere.
        .variable("LC_ALL", "C");
    let bounds = RunBounds { deadline, output_bytes: KEPT_BYTES, overflow: Overflow::Dropped };
    let ran = match program.run(bounds) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(tool.missing(purpose)),
        ran => ran.map_err(|error| failed(errno_of(&error)))?,
    };
    match ran.ended {
        program::Ended::ByItself(status) => Ok(Ended { status, out: ran.stdout, errors: ran.stderr }),
        program::Ended::AtDeadline | program::Ended::WroteTooMuch => {
            let (tool, seconds, said) = (tool.name, deadline.as_secs(), words(&[&ran.stderr, &ran.stdout]));
            Err(KernelError::Tool(ToolError::TimedOut { step, path: path.to_owned(), tool, seconds, said }))
        }
    }
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl Tool {
    fn find(self, purpose: Purpose<'_>) -> Result<PathBuf> {
        let places = FOLDERS.iter().map(|folder| PathBuf::from(folder).join(self.name));
        places.into_iter().find(|path| path.is_file()).ok_or_else(|| self.missing(purpose))
    }

    fn missing(self, purpose: Purpose<'_>) -> KernelError {
        let (step, path) = (purpose.step, purpose.path.to_owned());
        KernelError::Tool(ToolError::Missing { step, path, tool: self.name, package: self.package })
    }
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
    use std::time::Instant;

    use rustix::process::{Pid, Signal};

    use super::*;

    const SHELL: Tool = Tool { name: "sh", package: "dash" };
    const PURPOSE: Purpose<'_> = Purpose { step: Step::FormatDevice, path: "/dev/x" };
    const LONG: Duration = Duration::from_secs(180);
    /// In milliseconds. Each is tried if the program has not come far at the one before.
    const DEADLINES: [u64; 4] = [300, 1_000, 5_000, 30_000];

    fn shell(script: &str, deadline: Duration) -> Result<Ended> {
        let program = SHELL.find(PURPOSE)?;
        run_program(SHELL, &program, &["-c".as_ref(), script.as_ref()], PURPOSE, deadline)
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
        // A busy machine may not even have begun the program at a short deadline.
        let group: i32 = DEADLINES
            .into_iter()
            .find_map(|deadline| {
                let deadline = Duration::from_millis(deadline);
                let error = shell("echo $$; sleep 1000 & sleep 1000", deadline).unwrap_err();
                let KernelError::Tool(ToolError::TimedOut { said, .. }) = error else { panic!("{error:?}") };
                said.trim().parse().ok()
            })
            .unwrap();
        assert!(started.elapsed() < LONG, "it was not waited for");
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
        let ended = shell("echo done; sleep 1000 >&1 & echo $!", LONG).unwrap();
        let child = String::from_utf8(ended.out).unwrap().lines().last().unwrap().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let tool = Tool { name: "mkfs.nothing", package: "nothing-progs" };
        let error = tool.find(PURPOSE).unwrap_err().to_string();
        assert!(error.contains("apt-get install nothing-progs"), "{error}");
    }
}
