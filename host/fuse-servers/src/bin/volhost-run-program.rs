//! The launcher for this crate's tests. The daemon needs no such program: it starts itself.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    volhost_process::launch::become_program()
}
