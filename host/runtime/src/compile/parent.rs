//! The host's side: runs the child within bounds of size and time, and judges its answer.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use rustix::process::Signal;
use volhost_process::{Overflow, Program, RunBounds, RunEnd, RunError, StopSwitch};

use super::child::{CPU_SECONDS, REFUSED};
use crate::error::CompileError;
use crate::limits::Limits;
use crate::sections::code_bytes;
use crate::text::tame;

/// How much of the child's error output is kept, in bytes.
const SAID_BYTES: usize = 8192;

/// How to start the compiler child: a program that does nothing but
/// [`compile_stdin_to_stdout`](super::compile_stdin_to_stdout).
#[derive(Debug, Clone)]
pub struct Compiler {
    /// The program, by absolute path: the host's own, as a rule. `/proc/self/exe` names it even
    /// after an upgrade has replaced the file.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

impl Compiler {
    /// Compiles a component in a fresh child. Blocks for as long as it takes (tens of
    /// milliseconds), at most `limits.compile_time`, and until [`StopSwitch::stop`].
    ///
    /// # Guarantees
    /// When it returns, the child is gone.
    ///
    /// # Errors
    /// [`CompileError::Refused`] for a component that is not valid; the others when the child itself failed.
    pub(crate) fn compile(&self, wasm: &[u8], limits: &Limits, switch: &StopSwitch) -> Result<Vec<u8>, CompileError> {
        let code = code_bytes(wasm);
        let cpu_seconds = limits.compile_cpu(code);
        let bounds = RunBounds {
            deadline: limits.compile_time,
            stdout: Overflow::Killed { after: usize::try_from(limits.compiled_bytes).unwrap_or(usize::MAX) },
            stderr: Overflow::Dropped { after: SAID_BYTES },
        };
        // Nothing of the host's environment, which may contain credentials.
        let program =
            Program::new(&self.program).with_arguments(&self.args).with_variable(CPU_SECONDS, cpu_seconds.to_string());
        let ran = program.run_until_stopped(bounds, wasm, switch).map_err(|error| match error {
            RunError::Start(source) => CompileError::Start { program: self.program.clone(), source },
            RunError::Watch(source) => CompileError::Pipe(source),
        })?;
        match ran.end {
            RunEnd::Stopped => Err(CompileError::Stopped),
            RunEnd::TimedOut => Err(CompileError::TimedOut { seconds: limits.compile_time.as_secs() }),
            RunEnd::WroteTooMuch => Err(CompileError::TooLarge { limit: limits.compiled_bytes }),
            RunEnd::Exited(status) if status.success() => Ok(ran.stdout),
            RunEnd::Exited(status) if status.signal() == Some(Signal::XCPU.as_raw()) => {
                Err(CompileError::OutOfTime { seconds: cpu_seconds, bytes: code })
            }
            RunEnd::Exited(status) => Err(failed(status, &ran.stderr)),
        }
    }
}

/// The error for a child that failed by itself.
fn failed(status: ExitStatus, stderr: &[u8]) -> CompileError {
    let said = tame(String::from_utf8_lossy(stderr).trim(), SAID_BYTES);
    if status.code() == Some(i32::from(REFUSED)) {
        return CompileError::Refused(said);
    }
    let how = match status.signal() {
        Some(signal) => format!("killed by signal {signal}"),
        None => format!("{status}"),
    };
    CompileError::Died { how, said: if said.is_empty() { "it said nothing".to_owned() } else { said } }
}
