//! Who could change what a path leads to. volhost runs drivers as root, so only root, or the user that volhost runs as, may be able to
//! change a driver's program, or put another one in its place.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::unistd::Uid;

/// The bit that lets every user write.
const OTHERS_WRITE: u32 = 0o002;
/// The bit that lets a group write. Where a file has an access control list, it is the most that any
/// user or group of the list may do.
const GROUP_WRITES: u32 = 0o020;
/// The bit of a folder in which users can rename and remove only what they own.
const STICKY: u32 = 0o1000;
/// How many symbolic links a path may lead through: the kernel's limit.
const MOST_LINKS: usize = 40;

/// Checks a program, every folder and every symbolic link on the way to it.
///
/// # Errors
/// Which of them another user could change, and what to do about it.
pub(super) fn check(program: &Path) -> Result<(), String> {
    let absolute = std::path::absolute(program).map_err(|error| format!("{}: {error}", program.display()))?;
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
            return Err(format!("{}: it leads through more than {MOST_LINKS} symbolic links", program.display()));
        }
        let target = fs::read_link(&next).map_err(|error| format!("{}: {error}", next.display()))?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        let mut inner = names(&target);
        inner.append(&mut rest);
        rest = inner;
    }
    Ok(())
}

fn metadata(path: &Path) -> Result<Metadata, String> {
    fs::symlink_metadata(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn names(path: &Path) -> VecDeque<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(name).collect()
}

fn check_one(path: &Path, found: &Metadata) -> Result<(), String> {
    let shown = path.display();
    let own = Uid::effective().as_raw();
    if found.uid() != 0 && found.uid() != own {
        return Err(format!(
            "{shown} belongs to user {}, who could put another program there, and volhost would run it as root; `chown root` it",
            found.uid()
        ));
    }
    // A link has no mode of its own. In a sticky folder nobody can replace what root owns.
    if found.is_symlink() || (found.is_dir() && found.mode() & STICKY != 0) {
        return Ok(());
    }
    if found.mode() & OTHERS_WRITE != 0 {
        return Err(format!(
            "every user can write {shown}, and volhost would run what is there as root; `chmod o-w` it"
        ));
    }
    if found.mode() & GROUP_WRITES != 0 && found.gid() != 0 {
        return Err(format!(
            "the users of group {} can write {shown}, and volhost would run what is there as root; `chmod g-w` it, or `chgrp root` it",
            found.gid()
        ));
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
    fn what_every_user_can_write_on_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let program = installed(folder.path());
        for open in [program.as_path(), program.parent().unwrap(), &folder.path().join("drivers")] {
            let before = fs::metadata(open).unwrap().permissions();
            fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
            let why = check(&program).unwrap_err();
            assert!(why.starts_with(&format!("every user can write {},", open.display())), "{why}");
            fs::set_permissions(open, before).unwrap();
        }
    }

    #[test]
    fn what_a_group_of_other_users_can_write_on_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let program = installed(folder.path());
        for open in [program.as_path(), program.parent().unwrap(), &folder.path().join("drivers")] {
            chown(open, None, Some(1)).unwrap();
            check(&program).unwrap();
            fs::set_permissions(open, fs::Permissions::from_mode(0o775)).unwrap();
            let why = check(&program).unwrap_err();
            assert!(why.starts_with(&format!("the users of group 1 can write {},", open.display())), "{why}");
            chown(open, None, Some(0)).unwrap();
            check(&program).unwrap();
        }
    }

    #[test]
    fn what_another_user_owns_on_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let program = installed(folder.path());
        for foreign in [program.as_path(), program.parent().unwrap(), &folder.path().join("drivers")] {
            chown(foreign, Some(OTHER), None).unwrap();
            let why = check(&program).unwrap_err();
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
        assert!(check(&linked).unwrap_err().contains("between"));
        // In a sticky folder nobody can replace the link, but its owner can.
        fs::set_permissions(&between, fs::Permissions::from_mode(0o1777)).unwrap();
        check(&linked).unwrap();
        std::os::unix::fs::lchown(between.join("lun"), Some(OTHER), None).unwrap();
        assert!(check(&linked).unwrap_err().contains("between/lun belongs to user"));
    }
}
