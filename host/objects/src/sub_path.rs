//! Paths below a volume's root.

use thiserror::Error;

/// Linux's limit for one path component, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// A path that is no sub-path of a volume. The text follows the field's name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum SubPathError {
    /// It is absolute.
    #[error("{0:?} must be a relative path")]
    Absolute(String),
    /// It leads to a parent folder.
    #[error("{0:?} must not contain '..'")]
    Parent(String),
    /// A part of it is no file name.
    #[error("has a part that is no file name: it contains NUL, or has more than {MAX_NAME_BYTES} bytes")]
    NoFileName,
}

/// Checks that a path stays below its start.
///
/// # Errors
/// [`SubPathError`].
pub(crate) fn check_descends(path: &str) -> Result<(), SubPathError> {
    if path.starts_with('/') {
        return Err(SubPathError::Absolute(path.to_owned()));
    }
    for part in path.split('/') {
        if part == ".." {
            return Err(SubPathError::Parent(path.to_owned()));
        }
        if part.len() > MAX_NAME_BYTES || part.contains('\0') {
            return Err(SubPathError::NoFileName);
        }
    }
    Ok(())
}

/// Returns the path without `.` and empty parts.
pub(crate) fn plain(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_could_leave_the_volume_is_refused() {
        for bad in ["/", "/a", "..", "a/..", "a/../b", "../a", "a\0b", &"x".repeat(256)] {
            assert!(check_descends(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "a/b/", "./a", "...", "a..b", "a/..b", "."] {
            assert!(check_descends(good).is_ok(), "{good:?}");
        }
        assert_eq!(plain("./a//b/."), "a/b");
        assert_eq!(plain("."), "");
    }
}
