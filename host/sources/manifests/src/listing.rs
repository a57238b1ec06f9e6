//! The files of the folder: selection, stamps that distinguish versions of a file, and reading.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use volhost_objects::error::ManifestError;

/// The largest file that is read, in bytes. Ten thousand pods need about this much.
pub(super) const MAX_FILE_BYTES: u64 = 8 << 20;

const ENDINGS: [&str; 3] = [".yaml", ".yml", ".json"];

/// Distinguishes one version of a file from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ManifestStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl ManifestStamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether the file was last changed longer ago than this, so that another change would have
    /// given it another stamp.
    pub(super) fn is_older_than(&self, age: Duration, now: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.changed.max(self.modified);
        let since_epoch = Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanoseconds).unwrap_or(0));
        now.duration_since(UNIX_EPOCH + since_epoch).is_ok_and(|elapsed| elapsed > age)
    }
}

/// The result of reading a file.
pub(super) enum FileText {
    Text(String),
    /// Another process has it open for writing.
    BeingWritten,
    /// It is not there any more.
    Vanished,
}

/// Whether a file of this name is a manifest. Hidden files and what editors leave behind
/// (`a.yaml~`, `.a.yaml.swp`, `#a.yaml#`) are not.
pub(super) fn is_manifest_name(name: &str) -> bool {
    !name.starts_with(['.', '#']) && ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The manifests in the folder by name, each with its stamp; none where it is not known. Links are
/// followed; folders are left out.
pub(super) fn list(folder: &Path) -> io::Result<BTreeMap<String, Option<ManifestStamp>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A name that is not UTF-8 ends in no ending of ours that a message could show; it is not a
        // manifest.
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !is_manifest_name(&name) {
            continue;
        }
        match fs::metadata(entry.path()) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(metadata) => {
                files.insert(name, Some(ManifestStamp::of(&metadata)));
            }
            // Reading it finds the error.
            Err(_) => {
                files.insert(name, None);
            }
        }
    }
    Ok(files)
}

/// Whether another process has the file open for writing, or has changed it since this stamp.
fn is_unsettled(file: &File, before: ManifestStamp) -> io::Result<bool> {
    Ok(volhost_kernel::linux::is_being_written(file) == Some(true) || ManifestStamp::of(&file.metadata()?) != before)
}

/// Reads a manifest. Only regular files: opening never waits for a pipe's other end.
pub(super) fn read(folder: &Path, name: &str) -> Result<FileText, ManifestError> {
    let failed = |source| ManifestError::Read { file: name.to_owned(), source };
    let path = folder.join(name);
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = match File::options().read(true).custom_flags(nonblocking).open(&path) {
        Ok(file) => file,
        // A link without a file behind it is there and cannot be read.
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(&path).is_err() => {
            return Ok(FileText::Vanished);
        }
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(ManifestError::NotAFile { file: name.to_owned() });
    }
    let before = ManifestStamp::of(&metadata);
    if is_unsettled(&file, before).map_err(failed)? {
        return Ok(FileText::BeingWritten);
    }
    let too_large = |bytes| ManifestError::TooLarge { file: name.to_owned(), bytes, limit: MAX_FILE_BYTES };
    if metadata.len() > MAX_FILE_BYTES {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::new();
    (&file).take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    // A writer that came meanwhile may have left half of its text. The folder's watch does not
    // notice the writer of a file that a link leads to.
    if is_unsettled(&file, before).map_err(failed)? {
        return Ok(FileText::BeingWritten);
    }
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large(bytes.len() as u64));
    }
    String::from_utf8(bytes).map(FileText::Text).map_err(|error| {
        let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        ManifestError::NotUtf8 { file: name.to_owned(), line: 1 + good.iter().filter(|byte| **byte == b'\n').count() }
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_file_that_is_written_while_it_is_read_is_not_settled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        fs::write(&path, "kind: Pod\n").unwrap();
        let file = File::open(&path).unwrap();
        let before = ManifestStamp::of(&file.metadata().unwrap());
        assert!(!is_unsettled(&file, before).unwrap());
        let mut writer = File::options().append(true).open(&path).unwrap();
        assert!(is_unsettled(&file, before).unwrap(), "it is open for writing");
        writer.write_all(b"# more\n").unwrap();
        drop(writer);
        assert!(is_unsettled(&file, before).unwrap(), "it was written meanwhile");
    }
}
