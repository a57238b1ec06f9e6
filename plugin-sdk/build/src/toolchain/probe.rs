//! Asks a toolchain to compile and link a tiny library, the one proof that a target is installed,
//! complete, and made for this very compiler.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::{Toolchain, last_words, start_failed};
use crate::{TARGET, environment};

/// Uses std (the allocator and a collection), so that a missing or foreign std is noticed.
const SOURCE: &str = "#[unsafe(no_mangle)] pub extern \"C\" fn f(n: usize) -> usize { vec![1u8; n].len() }";

/// `Ok` if `toolchain` compiles and links for the target; else why not, on one line.
pub(super) fn compiles(toolchain: &Toolchain) -> Result<(), String> {
    let rustc = &toolchain.rustc;
    let folder = tempfile::tempdir().map_err(|error| format!("could not make a temporary folder: {error}"))?;
    let mut command = Command::new(rustc);
    environment::scrub(&mut command);
    toolchain.apply(&mut command);
    let mut child = command
        .args(["--target", TARGET, "--edition", "2024", "--crate-type", "cdylib", "--crate-name", "probe"])
        .arg("-o")
        .arg(folder.path().join("probe.wasm"))
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| start_failed(rustc, &error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A rustc that fails before it reads closes the pipe; its own message says more than ours
        // would.
        let _ = stdin.write_all(SOURCE.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| start_failed(rustc, &error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{} can't compile for {TARGET}: {}", rustc.display(), last_words(&output.stderr)))
}
