//! The users who could change what a path leads to. volhost runs drivers as root, so only root, or
//! the user that volhost runs as, may be able to change a driver's program or to replace it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use nix::unistd::Uid;
use thiserror::Error;

/// The bit that lets every user write.
const OTHERS_WRITE: u32 = 0o002;
/// The bit that lets a group write. Where a file has an access control list, it is the most that
/// any user or group of the list may do.
const GROUP_WRITES: u32 = 0o020;
/// The bit of a folder in which users can rename and remove only what they own.
const STICKY: u32 = 0o1000;
/// How many symbolic links a path may lead through: the kernel's limit.
const MOST_LINKS: usize = 40;

/// Why a program could be another user's by the time that it runs, and the way out.
#[derive(Debug, Clone, Error)]
pub enum TrustError {
    /// A file on the way cannot be examined.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: Arc<io::Error>,
    },
    /// The way does not end.
    #[error("{path}: it leads through more than {MOST_LINKS} symbolic links")]
    Links {
        /// The program.
        path: PathBuf,
    },
    /// Another user owns a file on the way.
    #[error(
        "{path} belongs to user {user}, who could put another program there, and volhost would run it as root; `chown root` it"
    )]
    Owner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        user: u32,
    },
    /// Every user can write a file on the way.
    #[error("every user can write {path}, and volhost would run what is there as root; `chmod o-w` it")]
    Writable {
        /// The file.
        path: PathBuf,
    },
    /// A group of other users can write a file on the way.
    #[error(
        "the users of group {group} can write {path}, and volhost would run what is there as root; `chmod g-w` it, or `chgrp root` it"
    )]
    GroupWritable {
        /// The file.
        path: PathBuf,
        /// Its group.
        group: u32,
    },
}

impl TrustError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source: Arc::new(source) }
    }
}

/// Checks a program, every folder and every symbolic link on the way to it.
///
/// # Errors
/// [`TrustError`]: the first of them that another user could change.
pub(crate) fn check(program: &Path) -> Result<(), TrustError> {
    let absolute = std::path::absolute(program).map_err(TrustError::io(program))?;
    let mut at = PathBuf::from("/");
    check_one(&at, &metadata(&at)?)?;
    let mut rest = names(&absolute);
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let found = metadata(&next)?;
        check_one(&next, &found)?;
        if !found.is_symlink() {
            at = next;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(TrustError::Links { path: program.to_owned() });
        }
        let target = fs::read_link(&next).map_err(TrustError::io(&next))?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        let mut inner = names(&target);
        inner.append(&mut rest);
        rest = inner;
    }
    Ok(())
}

fn metadata(path: &Path) -> Result<Metadata, TrustError> {
    fs::symlink_metadata(path).map_err(TrustError::io(path))
}

fn names(path: &Path) -> VecDeque<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(name).collect()
}

fn check_one(path: &Path, found: &Metadata) -> Result<(), TrustError> {
    let own = Uid::effective().as_raw();
    if found.uid() != 0 && found.uid() != own {
        return Err(TrustError::Owner { path: path.to_owned(), user: found.uid() });
    }
    // A link has no mode of its own. In a sticky folder other users cannot replace what root owns.
    if found.is_symlink() || (found.is_dir() && found.mode() & STICKY != 0) {
        return Ok(());
    }
    if found.mode() & OTHERS_WRITE != 0 {
        return Err(TrustError::Writable { path: path.to_owned() });
    }
    if found.mode() & GROUP_WRITES != 0 && found.gid() != 0 {
        return Err(TrustError::GroupWritable { path: path.to_owned(), group: found.gid() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    /// A user that is not root.
    const OTHER: u32 = 65_534;

    fn installed(folder: &Path) -> PathBuf {
        let program = folder.join("drivers/acme~lun/lun");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn a_program_that_only_root_can_change_is_trusted() {
        let folder = tempfile::tempdir().unwrap();
        check(&installed(folder.path())).unwrap();
    }

    #[test]
    fn a_file_on_the_way_that_every_user_can_write_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let program = installed(folder.path());
        for open in [program.as_path(), program.parent().unwrap(), &folder.path().join("drivers")] {
            let before = fs::metadata(open).unwrap().permissions();
            fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
            let why = check(&program).unwrap_err().to_string();
            assert!(why.starts_with(&format!("every user can write {},", open.display())), "{why}");
            fs::set_permissions(open, before).unwrap();
        }
    }

    #[test]
    fn a_file_on_the_way_that_a_group_of_other_users_can_write_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let program = installed(folder.path());
        for open in [program.as_path(), program.parent().unwrap(), &folder.path().join("drivers")] {
            chown(open, None, Some(1)).unwrap();
            check(&program).unwrap();
            fs::set_permissions(open, fs::Permissions::from_mode(0o775)).unwrap();
            let why = check(&program).unwrap_err().to_string();
            assert!(why.starts_with(&format!("the users of group 1 can write {},", open.display())), "{why}");
            chown(open, None, Some(0)).unwrap();
            check(&program).unwrap();
        }
    }

    #[test]
    fn a_file_on_the_way_that_another_user_owns_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let program = installed(folder.path());
        for foreign in [program.as_path(), program.parent().unwrap(), &folder.path().join("drivers")] {
            chown(foreign, Some(OTHER), None).unwrap();
            let why = check(&program).unwrap_err().to_string();
            assert!(why.starts_with(&format!("{} belongs to user {OTHER},", foreign.display())), "{why}");
            chown(foreign, Some(0), None).unwrap();
        }
    }

    #[test]
    fn the_folders_behind_symbolic_links_are_checked_too() {
        let folder = tempfile::tempdir().unwrap();
        let program = installed(folder.path());
        let between = folder.path().join("between");
        fs::create_dir(&between).unwrap();
        symlink(&program, between.join("lun")).unwrap();
        let linked = folder.path().join("drivers/acme~lun/linked");
        symlink("../../between/lun", &linked).unwrap();
        check(&linked).unwrap();
        fs::set_permissions(&between, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(check(&linked).unwrap_err().to_string().contains("between"));
        // In a sticky folder only its owner can replace the link.
        fs::set_permissions(&between, fs::Permissions::from_mode(0o1777)).unwrap();
        check(&linked).unwrap();
        std::os::unix::fs::lchown(between.join("lun"), Some(OTHER), None).unwrap();
        assert!(check(&linked).unwrap_err().to_string().contains("between/lun belongs to user"));
    }
}
