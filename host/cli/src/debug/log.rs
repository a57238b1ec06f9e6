//! The end of the daemon's log: the file that its standard error is, or the journal.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use volhost_process::{Overflow, Program, RunBounds};

/// How much of the log is taken, in bytes: some thousand lines.
const LOG_BYTES: u64 = 1 << 20;
const JOURNAL_LINES: &str = "5000";
/// How long the journal may take.
const JOURNAL_TIME: Duration = Duration::from_secs(20);
/// Where systemd's program is.
const JOURNALCTL: &str = "/usr/bin/journalctl";

/// The end of the log of the daemon with this process id, or why there is none.
pub(super) fn tail(pid: u32) -> Result<String, String> {
    let target = PathBuf::from(format!("/proc/{pid}/fd/2"));
    let found = fs::metadata(&target).map_err(|error| format!("its standard error cannot be examined: {error}"))?;
    if found.is_file() {
        return file_tail(&target).map_err(|error| format!("{}: {error}", target.display()));
    }
    // systemd connects it to a socket of the journal.
    if found.file_type().is_socket() && Path::new(JOURNALCTL).is_file() {
        return journal(pid);
    }
    Err("its standard error is neither a file nor the journal; see where the service writes it".to_owned())
}

fn file_tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // A line that is cut at its begin could hide the name of a secret from the search for it.
    Ok(match (length > LOG_BYTES, text.split_once('\n')) {
        (true, Some((_, rest))) => rest.to_owned(),
        _ => text,
    })
}

fn journal(pid: u32) -> Result<String, String> {
    let process = format!("_PID={pid}");
    let arguments = ["--no-pager", "--output=short-iso-precise", "--lines", JOURNAL_LINES, process.as_str()];
    let program = Program::new(Path::new(JOURNALCTL)).with_arguments(arguments);
    let kept = usize::try_from(LOG_BYTES).unwrap_or(usize::MAX);
    let ran = program.run(RunBounds::new(JOURNAL_TIME, Overflow::Dropped { after: kept }));
    let ran = ran.map_err(|error| format!("{JOURNALCTL} cannot be started: {error}"))?;
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_log_whole_lines_at_its_end_are_taken() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "short\n").unwrap();
        assert_eq!(file_tail(file.path()).unwrap(), "short\n");
        let long: String = (0..200_000).map(|number| format!("line {number}\n")).collect();
        fs::write(file.path(), &long).unwrap();
        let tail = file_tail(file.path()).unwrap();
        assert!(tail.starts_with("line ") && tail.ends_with("line 199999\n"), "{}", &tail[..40]);
        assert!(tail.len() as u64 <= LOG_BYTES && long.ends_with(&tail));
    }
}
