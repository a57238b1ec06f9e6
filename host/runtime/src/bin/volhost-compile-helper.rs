//! The compiler child for this crate's tests. The daemon needs no such program: it starts itself.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    volhost_runtime::compile_stdin_to_stdout(&volhost_runtime::Limits::default())
}
