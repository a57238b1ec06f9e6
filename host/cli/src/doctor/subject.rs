//! The process whose rights and limits are checked: the daemon, or this program in its place.

use std::fs;
use std::path::PathBuf;

/// A process, as `/proc` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subject {
    /// Its id.
    pid: u32,
    /// It is the daemon.
    is_daemon: bool,
}

impl Subject {
    /// The daemon with this id, or this process if no daemon answers.
    pub(super) fn new(daemon: Option<u32>) -> Self {
        Self { pid: daemon.unwrap_or_else(std::process::id), is_daemon: daemon.is_some() }
    }

    /// Whether it is the daemon.
    pub(super) const fn is_daemon(self) -> bool {
        self.is_daemon
    }

    /// How messages name it.
    pub(super) fn name(self) -> String {
        if self.is_daemon { format!("volhostd (process {})", self.pid) } else { "this program".to_owned() }
    }

    /// A file of it in `/proc`.
    pub(super) fn file(self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid))
    }

    /// The text of a file of it in `/proc`; none if it cannot be read.
    pub(super) fn read(self, name: &str) -> Option<String> {
        fs::read_to_string(self.file(name)).ok()
    }

    /// The value of a line `KEY:\tVALUE` of its `status`.
    pub(super) fn status(self, key: &str) -> Option<String> {
        status_value(&self.read("status")?, key)
    }

    /// Its effective capabilities.
    pub(super) fn capabilities(self) -> Option<u64> {
        u64::from_str_radix(&self.status("CapEff")?, 16).ok()
    }
}

fn status_value(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_status_is_found_by_its_whole_key() {
        let text = "Uid:\t0\t1\t0\t0\nCapEffX:\t1\nCapEff:\t000001ffffffffff\n";
        assert_eq!(status_value(text, "CapEff").as_deref(), Some("000001ffffffffff"));
        assert_eq!(status_value(text, "Cap"), None);
    }
}
