//! What a stopped thread is about to do, as /proc shows it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The longest path that is shown.
const SHOWN_BYTES: usize = 256;

/// A thread that is stopped at a system call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopped {
    pub(super) thread: i32,
    /// The daemon that is followed.
    pub(super) daemon: i32,
}

/// A system call's number and arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw {
    pub(super) number: i64,
    pub(super) arguments: [u64; 6],
}

impl Stopped {
    /// The call it is about to make; none if it is gone.
    pub(super) fn call(self) -> Option<Raw> {
        let text = fs::read_to_string(format!("/proc/{}/syscall", self.thread)).ok()?;
        let mut words = text.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
        }
        Some(Raw { number, arguments })
    }

    /// The text at an address of its memory, up to the first NUL.
    pub(super) fn text(self, address: u64) -> String {
        let mut bytes = [0; SHOWN_BYTES];
        let read =
            File::open(format!("/proc/{}/mem", self.thread)).and_then(|memory| memory.read_at(&mut bytes, address));
        let text = &bytes[..read.unwrap_or(0)];
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).into_owned()
    }

    /// The eight bytes at an address of its memory.
    pub(super) fn word(self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        let read = File::open(format!("/proc/{}/mem", self.thread))
            .and_then(|memory| memory.read_exact_at(&mut bytes, address));
        if read.is_ok() { u64::from_ne_bytes(bytes) } else { 0 }
    }

    /// The name that the process gave it.
    pub(super) fn name(self) -> String {
        fs::read_to_string(format!("/proc/{}/comm", self.thread)).unwrap_or_default().trim_end().to_owned()
    }

    /// Whether it has other mounts than the daemon, which end with it: so the daemon confines the
    /// programs that work on devices.
    pub(super) fn is_confined(self) -> bool {
        let mounts = |process: i32| fs::read_link(format!("/proc/{process}/ns/mnt"));
        match (mounts(self.thread), mounts(self.daemon)) {
            (Ok(own), Ok(daemons)) => own != daemons,
            _ => false,
        }
    }

    /// What one of its descriptors leads to.
    pub(super) fn descriptor(self, number: u64) -> PathBuf {
        fs::read_link(format!("/proc/{}/fd/{number}", self.thread)).unwrap_or_default()
    }
}
