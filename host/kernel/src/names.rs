//! What a name and a relative path may look like, and how messages show them. The same for every
//! kernel.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use volhost_model::text::shorten;

use crate::error::{KernelError, Result};

/// Linux's limit for one path component, in bytes.
const MAX_NAME_BYTES: usize = 255;
/// How much of a bad name a message shows, in characters.
const SHOWN_CHARS: usize = 80;
/// The mode bits a caller may set: permissions, setuid, setgid, sticky.
const MODE_BITS: u32 = 0o7777;

/// Refuses what is not exactly one path component.
pub fn check_name(name: &OsStr) -> Result<()> {
    let bytes = name.as_bytes();
    let rule = if bytes.is_empty() || bytes == b"." || bytes == b".." {
        "a name is not empty, `.` or `..`"
    } else if bytes.contains(&b'/') || bytes.contains(&0) {
        "a name has no `/` and no NUL"
    } else if bytes.len() > MAX_NAME_BYTES {
        "a name has 255 bytes at most"
    } else {
        return Ok(());
    };
    Err(KernelError::InvalidPath { path: shown(name), rule })
}

/// Refuses what is not a relative path of plain names. Empty is allowed.
pub fn check_relative(rel: &Path) -> Result<Vec<&OsStr>> {
    let mut names = Vec::new();
    for component in rel.components() {
        let Component::Normal(name) = component else {
            return Err(KernelError::InvalidPath {
                path: shown(rel.as_os_str()),
                rule: "a path below a folder is relative and has no `.` or `..`",
            });
        };
        check_name(name)?;
        names.push(name);
    }
    Ok(names)
}

/// Refuses what is not an absolute path without `..` and NUL.
pub fn check_absolute(path: &Path) -> Result<()> {
    let rule = if !path.is_absolute() {
        "it must be an absolute path"
    } else if path.components().any(|part| part == Component::ParentDir) {
        "it must not contain `..`"
    } else if path.as_os_str().as_bytes().contains(&0) {
        "it must not contain NUL"
    } else {
        return Ok(());
    };
    Err(KernelError::InvalidPath { path: shown(path.as_os_str()), rule })
}

/// Refuses mode bits beyond those a caller may set.
pub fn check_mode(mode: u32) -> Result<()> {
    if mode & !MODE_BITS == 0 {
        return Ok(());
    }
    Err(KernelError::InvalidPath { path: format!("{mode:o}"), rule: "a mode is at most 7777 (octal)" })
}

/// Refuses the id that means "leave it as it is" to chown, which no user or group has.
pub fn check_group(group: u32) -> Result<()> {
    if group == u32::MAX {
        return Err(KernelError::InvalidPath { path: group.to_string(), rule: "no group has this id" });
    }
    Ok(())
}

/// The name a file has while it is written. Always the same one, so what a crash leaves is cleared
/// by the next write.
pub fn temporary(name: &OsStr) -> OsString {
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(".new");
    temporary
}

/// Returns whether a file of this name was never written to its end, or a link never put in place:
/// what a crash in the middle of [`crate::Kernel::write_atomic`] or
/// [`crate::BlockDevices::link_device`] leaves. Nothing that was completed has such a name.
#[must_use]
pub fn is_temporary(name: &OsStr) -> bool {
    name.as_bytes().strip_prefix(b".").is_some_and(|rest| rest.ends_with(b".new"))
}

/// How a message names an entry of a folder.
pub fn label(folder: &Path, name: impl AsRef<Path>) -> PathBuf {
    folder.join(name)
}

/// The text of a path in a message; the root folder itself is `.`.
pub fn text(path: &Path) -> String {
    if path.as_os_str().is_empty() { ".".to_owned() } else { path.to_string_lossy().into_owned() }
}

/// The beginning of a name or path that was refused.
pub(crate) fn shown(given: &OsStr) -> String {
    shorten(&given.to_string_lossy(), SHOWN_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_lead_elsewhere_are_refused() {
        for bad in ["", ".", "..", "a/b", "a\0b", &"x".repeat(256)] {
            assert!(matches!(check_name(bad.as_ref()), Err(KernelError::InvalidPath { .. })), "{bad:?}");
        }
        for good in ["a", "...", " ", "a\nb", &"x".repeat(255)] {
            assert!(check_name(good.as_ref()).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn relative_paths_stay_below() {
        assert_eq!(check_relative(Path::new("a/b")).unwrap(), [OsStr::new("a"), OsStr::new("b")]);
        assert!(check_relative(Path::new("")).unwrap().is_empty());
        for bad in ["/a", "a/../b", "..", "./a"] {
            assert!(check_relative(Path::new(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_message_shows_only_the_beginning_of_a_huge_name() {
        let error = check_name("x".repeat(10_000).as_ref()).unwrap_err().to_string();
        assert!(error.len() < 200, "{error}");
    }
}
