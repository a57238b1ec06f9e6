//! The file of a secret.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;
use thiserror::Error;

/// The largest secret, in bytes.
const SECRET_BYTES: u64 = 64 << 10;
/// Permissions of group and others.
const OTHERS: u32 = 0o077;

/// Why a secret is not read.
#[derive(Debug, Error)]
pub(crate) enum SecretFileError {
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
    #[error("is not a regular file")]
    NotAFile,
    #[error("has mode {mode:o}, and only its owner may be able to read it (chmod 600)")]
    Open { mode: u32 },
    #[error("is larger than {SECRET_BYTES} bytes")]
    TooLarge,
}

/// Reads a secret. Only its owner may have any permission on the file.
pub(crate) fn read_secret(path: &Path) -> Result<Arc<[u8]>, SecretFileError> {
    // A FIFO would block the plugin's thread for ever.
    let file: File = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(SecretFileError::NotAFile);
    }
    let mode = found.mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(SecretFileError::Open { mode });
    }
    let mut bytes = Vec::new();
    file.take(SECRET_BYTES + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > SECRET_BYTES) {
        return Err(SecretFileError::TooLarge);
    }
    // An editor adds it, and no password ends with it.
    if bytes.ends_with(b"\n") {
        bytes.pop();
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_the_content_of_a_private_file_without_its_last_newline() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        let private = |text: &[u8]| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        };
        private(b"two\nlines\n");
        assert_eq!(&*read_secret(&file).unwrap(), b"two\nlines");
        private(&vec![b'x'; 64 << 10]);
        assert_eq!(read_secret(&file).unwrap().len(), 64 << 10);
        private(&vec![b'x'; (64 << 10) + 1]);
        assert!(matches!(read_secret(&file), Err(SecretFileError::TooLarge)));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(
            read_secret(&file).unwrap_err().to_string(),
            "has mode 640, and only its owner may be able to read it (chmod 600)"
        );
        assert!(matches!(read_secret(folder.path()), Err(SecretFileError::NotAFile)));
        assert!(matches!(read_secret(&folder.path().join("absent")), Err(SecretFileError::Read(_))));
        let fifo = folder.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(matches!(read_secret(&fifo), Err(SecretFileError::NotAFile)));
    }
}
