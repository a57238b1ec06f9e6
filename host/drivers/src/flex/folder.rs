//! Which drivers a folder has: `vendor~driver/driver`, or `driver/driver` for one without a vendor. Names that begin with a dot are being
//! installed and are passed over.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::trust;

/// Any of the bits that let somebody execute a file.
const EXECUTABLE: u32 = 0o111;

/// What tells a program from an older one of the same name: device, inode, size, and the times of its last changes.
pub(super) type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

/// A driver that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Its program.
    pub(super) program: PathBuf,
    /// The program as it is now, or why it can be none.
    pub(super) program_is: Result<Stamp, String>,
}

/// Where the driver of this name is to be installed.
pub(super) fn place_of(folder: &Path, name: &str) -> PathBuf {
    let program = name.rsplit('/').next().unwrap_or(name);
    folder.join(name.replacen('/', "~", 1)).join(program)
}

/// The driver's name behind a folder's; none if it is no driver's.
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

/// The drivers in a folder, by name. A folder that is not there has none.
///
/// # Errors
/// The kernel's, when it is there and cannot be read.
pub(super) fn drivers(folder: &Path) -> io::Result<BTreeMap<String, Found>> {
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
        // A plain file is nobody's driver.
        if !fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir()) {
            continue;
        }
        let program = place_of(folder, &name);
        match fs::symlink_metadata(&program) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => drop(found.insert(name, Found { program_is: look(&program, &inside), program })),
        }
    }
    Ok(found)
}

/// The name of the driver whose folder this is; none if it is no driver's.
pub(super) fn name_at(folder: &Path) -> Option<String> {
    name_of(folder.file_name()?.to_str()?)
}

/// The name of the driver whose program this is: by its folder if it is installed, else the program's own.
pub(super) fn driver_at(program: &Path) -> Option<String> {
    let own = program.file_name()?.to_str()?;
    let folder = program.parent().and_then(|folder| folder.canonicalize().ok());
    let installed = folder.and_then(|folder| name_at(&folder)).filter(|name| name.rsplit('/').next() == Some(own));
    installed.or_else(|| name_of(own).filter(|name| !name.contains('/')))
}

/// The program as it is now. `inside` is the drivers' folder, links resolved.
///
/// # Errors
/// Why it can be no driver's, in words for the user.
pub(super) fn look(program: &Path, inside: &Path) -> Result<Stamp, String> {
    let path = program.display();
    let real = fs::canonicalize(program).map_err(|error| format!("{path}: {error}"))?;
    if !real.starts_with(inside) {
        return Err(format!(
            "{path} is a symbolic link to {}, outside of the drivers' folder; copy the program there",
            real.display()
        ));
    }
    let metadata = fs::metadata(&real).map_err(|error| format!("{path}: {error}"))?;
    let mode = metadata.permissions().mode();
    if metadata.is_dir() {
        return Err(format!("{path} is a folder, and the driver's program is expected there"));
    }
    if !metadata.is_file() {
        return Err(format!("{path} is no ordinary file"));
    }
    if mode & EXECUTABLE == 0 {
        return Err(format!("{path} is not executable; `chmod +x` it"));
    }
    trust::check(program)?;
    Ok(stamp(&metadata))
}

fn stamp(metadata: &Metadata) -> Stamp {
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
        assert!(found["acme/lun"].program_is.is_ok());
        assert_eq!(drivers(&at.join("absent")).unwrap(), BTreeMap::new());
    }

    #[test]
    fn what_cannot_be_a_program_is_said() {
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
            let why = found[name].program_is.clone().unwrap_err();
            assert!(why.contains(words), "{name}: {why}");
        }
    }

    #[test]
    fn a_program_that_was_replaced_has_another_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let program = install(folder.path(), "acme/lun", 0o755);
        let before = drivers(folder.path()).unwrap();
        assert_eq!(drivers(folder.path()).unwrap(), before);
        let new = folder.path().join(".new");
        fs::write(&new, "#!/bin/sh\nexit\n").unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&new, &program).unwrap();
        assert_ne!(drivers(folder.path()).unwrap(), before);
    }
}
