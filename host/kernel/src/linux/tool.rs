//! Programs that do what only they can: make, check and recognise file systems. Found in fixed
//! folders, run without a shell, with an empty environment, no input, bounded output and a
//! deadline, and confined to the device.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::io::Errno;

use super::LinuxKernel;
use super::confinement::NotConfined;
use crate::block_devices::BlockDevice;
use crate::error::{KernelError, Result, ToolError};
use crate::step::Step;
use crate::tools::{RunTool, ToolRun};

/// Where programs are looked for, whatever the environment says.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// A program's whole environment: the folders for the programs that it starts itself, and messages
/// that this code and its users read the same everywhere.
const ENVIRONMENT: [(&str, &str); 2] = [("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("LC_ALL", "C")];
/// How much of each output is kept, in bytes. The rest is dropped, so that the program never waits
/// for a reader.
const KEPT_BYTES: usize = 64 * 1024;
/// How much of it a message shows, in characters: the end, where tools report what went wrong.
const SHOWN_CHARS: usize = 600;

/// A program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tool {
    /// Its name.
    pub(super) name: &'static str,
    /// The Debian package that has it.
    pub(super) package: &'static str,
}

/// The purpose of a run, as messages name it.
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

    /// Its messages, on one line.
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
    kernel: &LinuxKernel,
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
    let tools = kernel.tools.as_ref();
    let job = || run_program(tools, tool, &program, &words, purpose, deadline);
    let ran = kernel.confinement.run(&program, device, node, job);
    ran.map_err(|NotConfined { what, errno }| {
        let (step, path) = (purpose.step, purpose.path.to_owned());
        KernelError::Tool(ToolError::NotConfined { step, path, tool: tool.name, what, errno })
    })?
}

/// Runs a program from this thread, with what this thread may do.
fn run_program(
    tools: &dyn RunTool,
    tool: Tool,
    program: &Path,
    arguments: &[&OsStr],
    purpose: Purpose<'_>,
    deadline: Duration,
) -> Result<Ended> {
    let (step, path) = (purpose.step, purpose.path);
    let failed = |errno| KernelError::Failed { step, path: path.to_owned(), errno, detail: tool.name.to_owned() };
    let run = ToolRun { program, arguments, environment: &ENVIRONMENT, deadline, kept_bytes: KEPT_BYTES };
    let ran = match tools.run(&run) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(tool.missing(purpose)),
        ran => ran.map_err(|error| failed(errno_of(&error)))?,
    };
    match ran.status {
        Some(status) => Ok(Ended { status, out: ran.stdout, errors: ran.stderr }),
        None => {
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
        self.places().find(|path| path.is_file()).ok_or_else(|| self.missing(purpose))
    }

    /// Where it is looked for, in order.
    pub(super) fn places(self) -> impl Iterator<Item = PathBuf> {
        FOLDERS.iter().map(move |folder| PathBuf::from(folder).join(self.name))
    }

    fn missing(self, purpose: Purpose<'_>) -> KernelError {
        let (step, path) = (purpose.step, purpose.path.to_owned());
        KernelError::Tool(ToolError::Missing { step, path, tool: self.name, package: self.package })
    }
}

/// The end of what a program wrote, on one line.
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
    use std::io;

    use super::*;
    use crate::tools::ToolOutput;

    const SHELL: Tool = Tool { name: "sh", package: "dash" };
    const PURPOSE: Purpose<'_> = Purpose { step: Step::FormatDevice, path: "/dev/x" };
    const DEADLINE: Duration = Duration::from_secs(180);

    /// A run that ends so, whatever the program.
    #[derive(Debug)]
    struct Ends(Option<i32>);

    impl RunTool for Ends {
        fn run(&self, run: &ToolRun<'_>) -> io::Result<ToolOutput> {
            let environment: Vec<String> =
                run.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let status = self.0.map(|code| ExitStatus::from_raw(code << 8));
            Ok(ToolOutput { status, stdout: environment.join("\n").into_bytes(), stderr: b"wrong\n".to_vec() })
        }
    }

    fn ended(code: Option<i32>) -> Result<Ended> {
        run_program(&Ends(code), SHELL, Path::new("/bin/sh"), &[], PURPOSE, DEADLINE)
    }

    #[test]
    fn an_error_has_the_exit_code_and_what_the_program_wrote() {
        let ended = ended(Some(3)).unwrap();
        let error = ended.failed(SHELL, PURPOSE).to_string();
        assert!(
            error.starts_with("formatting block device /dev/x: sh ended with exit code 3. It said: wrong; "),
            "{error}"
        );
    }

    #[test]
    fn a_program_gets_a_fixed_environment() {
        assert_eq!(ended(Some(0)).unwrap().out, b"PATH=/usr/sbin:/usr/bin:/sbin:/bin\nLC_ALL=C");
    }

    #[test]
    fn a_program_that_was_killed_at_its_deadline_has_timed_out() {
        let error = ended(None).unwrap_err();
        assert!(matches!(error, KernelError::Tool(ToolError::TimedOut { seconds: 180, .. })), "{error:?}");
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let tool = Tool { name: "mkfs.nothing", package: "nothing-progs" };
        let error = tool.find(PURPOSE).unwrap_err().to_string();
        assert!(error.contains("apt-get install nothing-progs"), "{error}");
    }
}
