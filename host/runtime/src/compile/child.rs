//! The child's side: what the process that compiles does, from its first line to its last.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use super::confine::confine;
use super::syscalls::allow_only_compiling;
use crate::engine;
use crate::limits::Limits;

/// The variable of the child's environment with the processor time it may use, in seconds.
pub(super) const CPU_SECONDS: &str = "VOLHOST_COMPILE_CPU_SECONDS";

/// The child's exit code for a plugin that it refuses; its standard error says why.
pub(super) const REFUSED: u8 = 3;

/// Gives up all privileges, reads a component from standard input, and writes its compiled form to
/// standard output.
///
/// This is the whole program of the compiler child: call it first thing in `main`, before threads,
/// files or signal handlers exist. It writes to standard error why it failed. It never returns with
/// the privileges it came with.
#[must_use]
pub fn compile_stdin_to_stdout(limits: &Limits) -> ExitCode {
    let given = std::env::var(CPU_SECONDS).ok().and_then(|seconds| seconds.parse().ok());
    let most = limits.compile_cpu(usize::MAX);
    if let Err(error) = confine(given.unwrap_or(most)) {
        complain(&error);
        return ExitCode::FAILURE;
    }
    if let Err(why) = allow_only_compiling() {
        complain(&format!("the compiler cannot forbid itself system calls: {why}"));
        return ExitCode::FAILURE;
    }
    match compile(limits) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed::Refused(error)) => {
            complain(&format!("{error:#}"));
            ExitCode::from(REFUSED)
        }
        Err(Failed::Pipe(error)) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

enum Failed {
    Refused(wasmtime::Error),
    Pipe(io::Error),
}

fn compile(limits: &Limits) -> Result<(), Failed> {
    let mut wasm = Vec::new();
    io::stdin().lock().take(limits.file_bytes).read_to_end(&mut wasm).map_err(Failed::Pipe)?;
    // The whole of it first: the validator is stricter with malformed bytes than the translator
    // behind it.
    wasmparser::Validator::new().validate_all(&wasm).map_err(|error| Failed::Refused(error.into()))?;
    let engine = engine::compiling().map_err(Failed::Refused)?;
    let code = engine.precompile_component(&wasm).map_err(Failed::Refused)?;
    let mut out = io::stdout().lock();
    out.write_all(&code).and_then(|()| out.flush()).map_err(Failed::Pipe)
}

/// The parent may be gone; then no process reads the answer.
fn complain(error: &dyn std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{error}");
}
