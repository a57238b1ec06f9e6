//! `rustup target add`, with a deadline.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::{last_words, start_failed};
use crate::TARGET;

/// Has `rustup` add the target to the toolchain in use; killed after `deadline`. On failure, why,
/// on one line.
pub(super) fn add_target(rustup: &Path, deadline: Duration) -> Result<(), String> {
    let mut child = Command::new(rustup)
        .args(["target", "add", TARGET])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| start_failed(rustup, &error))?;

    // The end of its output is the end of rustup: a thread waits for it, so that we can wait with a
    // deadline.
    let (sender, finished) = mpsc::channel();
    if let Some(mut stderr) = child.stderr.take() {
        thread::spawn(move || {
            let mut said = Vec::new();
            let _ = stderr.read_to_end(&mut said);
            // The receiver is gone once the deadline has passed.
            let _ = sender.send(said);
        });
    }
    let Ok(said) = finished.recv_timeout(deadline) else {
        // Both fail only if it has just ended by itself.
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("no answer within {deadline:?}; stopped it"));
    };
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(last_words(&said)),
        Err(error) => Err(start_failed(rustup, &error)),
    }
}
