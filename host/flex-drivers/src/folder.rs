//! The drivers in a folder: `vendor~driver/driver`, or `driver/driver` for one without a vendor. A
//! name that begins with a dot is of a driver that is being installed, and is passed over.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::trust::{self, TrustError};

/// The bits that let any user execute a file.
const EXECUTABLE: u32 = 0o111;

/// Identifies one version of a program: device, inode, size, and the times of its last changes.
pub(crate) type ProgramStamp = (u64, u64, u64, (i64, i64), (i64, i64));

/// A driver that was found.
#[derive(Debug, Clone)]
pub(crate) struct DriverFile {
    /// Its program.
    pub(crate) program: PathBuf,
    /// The program's version, or why it cannot be run.
    pub(crate) stamp: Result<ProgramStamp, ProgramError>,
}

/// Why a file cannot be a driver's program, and the way out.
#[derive(Debug, Clone, Error)]
pub enum ProgramError {
    /// It cannot be examined.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: Arc<io::Error>,
    },
    /// It is outside of the folder.
    #[error("{path} is a symbolic link to {real}, outside of the drivers' folder; copy the program there")]
    Outside {
        /// The link.
        path: PathBuf,
        /// Where it leads to.
        real: PathBuf,
    },
    /// It is a folder.
    #[error("{path} is a folder, and the driver's program is expected there")]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// It is a device, a socket or a pipe.
    #[error("{path} is no ordinary file")]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// No user may execute it.
    #[error("{path} is not executable; `chmod +x` it")]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// Another user could replace it.
    #[error(transparent)]
    Untrusted(#[from] TrustError),
}

impl ProgramError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source: Arc::new(source) }
    }
}

impl DriverFile {
    /// Whether nothing about the driver has changed: neither its program nor the reason against it.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let same = match (&self.stamp, &other.stamp) {
            (Ok(one), Ok(other)) => one == other,
            (Err(one), Err(other)) => one.to_string() == other.to_string(),
            _ => false,
        };
        same && self.program == other.program
    }
}

/// The path at which the driver of this name is installed.
pub(crate) fn place_of(folder: &Path, name: &str) -> PathBuf {
    let program = name.rsplit('/').next().unwrap_or(name);
    folder.join(name.replacen('/', "~", 1)).join(program)
}

/// The name of the driver that a folder of this name belongs to, if it belongs to one.
fn name_of(folder: &str) -> Option<String> {
    if folder.is_empty() || folder.starts_with('.') {
        return None;
    }
    match folder.split_once('~') {
        Some((vendor, driver)) if vendor.is_empty() || driver.is_empty() || driver.contains('~') => None,
        Some((vendor, driver)) => Some(format!("{vendor}/{driver}")),
        None => Some(folder.to_owned()),
    }
}

/// The drivers in a folder, by name. A missing folder has none.
///
/// # Errors
/// The kernel's, when the folder exists and cannot be read.
pub(crate) fn drivers(folder: &Path) -> io::Result<BTreeMap<String, DriverFile>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let inside = fs::canonicalize(folder)?;
    let mut found = BTreeMap::new();
    for entry in entries {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().and_then(name_of) else { continue };
        // A plain file is no driver's folder.
        if !fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir()) {
            continue;
        }
        let program = place_of(folder, &name);
        match fs::symlink_metadata(&program) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => drop(found.insert(name, DriverFile { stamp: check_program(&program, &inside), program })),
        }
    }
    Ok(found)
}

/// The name of the driver whose folder this is, if it is one's.
pub(crate) fn name_at(folder: &Path) -> Option<String> {
    name_of(folder.file_name()?.to_str()?)
}

/// The name of the driver whose program this is: by its folder if it is installed, else the
/// program's own.
pub(crate) fn driver_at(program: &Path) -> Option<String> {
    let own = program.file_name()?.to_str()?;
    let folder = program.parent().and_then(|folder| folder.canonicalize().ok());
    let installed = folder.and_then(|folder| name_at(&folder)).filter(|name| name.rsplit('/').next() == Some(own));
    installed.or_else(|| name_of(own).filter(|name| !name.contains('/')))
}

/// Checks a driver's program, and returns its version. `inside` is the drivers' folder, links
/// resolved.
///
/// # Errors
/// [`ProgramError`].
pub(crate) fn check_program(program: &Path, inside: &Path) -> Result<ProgramStamp, ProgramError> {
    let path = program.to_owned();
    let real = fs::canonicalize(program).map_err(ProgramError::io(program))?;
    if !real.starts_with(inside) {
        return Err(ProgramError::Outside { path, real });
    }
    let metadata = fs::metadata(&real).map_err(ProgramError::io(program))?;
    if metadata.is_dir() {
        return Err(ProgramError::Folder { path });
    }
    if !metadata.is_file() {
        return Err(ProgramError::NotAFile { path });
    }
    if metadata.permissions().mode() & EXECUTABLE == 0 {
        return Err(ProgramError::NotExecutable { path });
    }
    trust::check(program)?;
    Ok(stamp(&metadata))
}

fn stamp(metadata: &Metadata) -> ProgramStamp {
    (
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        (metadata.mtime(), metadata.mtime_nsec()),
        (metadata.ctime(), metadata.ctime_nsec()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let program = place_of(folder, name);
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
        program
    }

    #[test]
    fn drivers_are_found_by_the_kubelets_rules() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        for name in ["acme/lun", "plain", "a/.hidden"] {
            install(at, name, 0o755);
        }
        for passed_over in [".acme~new", "~x", "x~", "a~b~c"] {
            fs::create_dir(at.join(passed_over)).unwrap();
        }
        fs::write(at.join("stray"), "").unwrap();
        fs::create_dir(at.join("acme~empty")).unwrap();
        let found = drivers(at).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a/.hidden", "acme/lun", "plain"]);
        assert_eq!(found["acme/lun"].program, at.join("acme~lun/lun"));
        assert!(found["acme/lun"].stamp.is_ok());
        assert!(drivers(&at.join("absent")).unwrap().is_empty());
    }

    #[test]
    fn the_reason_against_a_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("drivers");
        install(&at, "a/plain", 0o644);
        install(&at, "a/open", 0o777);
        fs::create_dir_all(at.join("a~folder/folder")).unwrap();
        let outside = folder.path().join("outside");
        fs::write(&outside, "#!/bin/sh\n").unwrap();
        fs::create_dir_all(at.join("a~link")).unwrap();
        std::os::unix::fs::symlink(&outside, at.join("a~link/link")).unwrap();
        fs::create_dir_all(at.join("a~broken")).unwrap();
        std::os::unix::fs::symlink("nowhere", at.join("a~broken/broken")).unwrap();
        let found = drivers(&at).unwrap();
        for (name, words) in [
            ("a/plain", "is not executable"),
            ("a/open", "every user can write"),
            ("a/folder", "is a folder"),
            ("a/link", "outside of the drivers' folder"),
            ("a/broken", "No such file"),
        ] {
            let why = found[name].stamp.clone().unwrap_err().to_string();
            assert!(why.contains(words), "{name}: {why}");
        }
    }

    #[test]
    fn a_program_that_was_replaced_has_another_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let program = install(folder.path(), "acme/lun", 0o755);
        let found = || drivers(folder.path()).unwrap()["acme/lun"].clone();
        let before = found();
        assert!(found().is_same_as(&before));
        let new = folder.path().join(".new");
        fs::write(&new, "#!/bin/sh\nexit\n").unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&new, &program).unwrap();
        assert!(!found().is_same_as(&before));
    }
}
