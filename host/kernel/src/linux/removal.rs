//! The one recursive removal (rule R5). It works on descriptors, never crosses a mount, follows no
//! link, and keeps a fixed number of descriptors open however deep the tree is.
//!
//! ```text
//!  a project of its own? its limit is removed
//!  empty? --yes--> gone
//!    | no
//!  survey: a mount below? --yes--> refused, nothing removed
//!    | no
//!  clear: remove files, step into a folder that is not empty, step back out through `..` and remove it
//! ```
//!
//! Stepping out goes through `..`, so the folder that is reached is compared with the one that was
//! left: a tree that another process moves meanwhile stops the removal instead of leading it to
//! another folder.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, RawDir, ResolveFlags, SeekFrom};
use rustix::io::Errno;

use super::LinuxKernel;
use super::quota::OwnProject;
use super::stat::{FolderIdentity, look, look_closer};
use super::walk::{FOLDER, FOLDER_PLACE, open_on_same_mount};
use crate::error::{KernelError, Result};
use crate::handle::Directory;
use crate::names::{check_name, label, text};
use crate::step::Step;

/// Trees of up to this many entries are looked at one by one for mounts; for larger ones the mount
/// table is read, whose cost grows with all the mounts of the machine.
const SURVEY_ENTRIES: usize = 512;
/// How deep the survey goes, in folders; it keeps a descriptor for each level.
const SURVEY_DEPTH: usize = 16;
/// Bytes of entries fetched by one call.
const LIST_BUFFER: usize = 32 * 1024;
/// Folders remembered from one reading, at the upper levels and further down: what bounds the
/// memory of a deep tree.
const PENDING_ABOVE: usize = 256;
const PENDING_BELOW: usize = 1;
const UPPER_LEVELS: usize = 32;
/// How much more a removal may find where it had removed everything than it found at first, in
/// entries, before the process that writes there is given right. Up to as much is no writer: some
/// file systems leave entries out of a listing while others of the folder are removed.
const MORE_THAN_AT_FIRST: u64 = 1024;
/// Messages show a path in full up to this many levels.
const SHOWN_LEVELS: usize = 16;

/// A folder that is being emptied.
struct RemovalLevel {
    name: OsString,
    identity: FolderIdentity,
    /// Folders in it that are known not to be empty.
    pending: Vec<OsString>,
    /// All of it was read, and what was found is gone or being removed.
    read: bool,
    /// It was read before, or a folder around it was.
    again: bool,
    /// How many folders that the last whole reading found are still to be emptied.
    left: usize,
}

impl LinuxKernel {
    pub(super) fn delete_folder_at(&self, folder: &Directory, name: &OsStr) -> Result<()> {
        check_name(name)?;
        let parent = folder.as_fd();
        let shown = label(&folder.label, name);
        if let Some(project) = OwnProject::of(folder, name) {
            self.refuse_mounts(parent, name, &shown)?;
            // Before the folder: after a crash between the two there is nothing left that names it.
            project.remove_limit();
        }
        match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(Errno::BUSY) => return Err(KernelError::MountInside { path: text(&shown) }),
            Err(Errno::NOTDIR) => {
                let linked = look(parent, name, self.ids()).is_ok_and(|seen| seen.file_type() == FileType::Symlink);
                return Err(if linked {
                    KernelError::SymbolicLink { path: text(&shown) }
                } else {
                    self.wrong_type(folder, name, "a folder")
                });
            }
            Err(errno) => return Err(KernelError::failed(Step::Remove, text(&shown), errno)),
        }
        self.refuse_mounts(parent, name, &shown)?;
        Removal { kernel: self, base: parent, shown, levels: Vec::new(), at_first: 0, again: 0 }.run(name)
    }

    /// Refuses a tree that contains a mount.
    fn refuse_mounts(&self, parent: BorrowedFd<'_>, name: &OsStr, shown: &Path) -> Result<()> {
        let mut budget = SURVEY_ENTRIES;
        if self.survey(parent, name, shown, 0, &mut budget)? {
            return Ok(());
        }
        let failed = |errno| removal_error(shown, errno);
        let place = open_on_same_mount(parent, name, FOLDER_PLACE).map_err(failed)?;
        let below = self.below(place.as_fd()).map_err(failed)?;
        match below.first() {
            Some(mount) => Err(KernelError::MountInside { path: text(&shown.join(&mount.point)) }),
            None => Ok(()),
        }
    }

    /// Looks at each entry of a small tree; false if it is larger than the budget.
    fn survey(
        &self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        shown: &Path,
        depth: usize,
        budget: &mut usize,
    ) -> Result<bool> {
        if depth == SURVEY_DEPTH {
            return Ok(false);
        }
        let failed = |errno| removal_error(shown, errno);
        let folder = match open_on_same_mount(parent, name, FOLDER) {
            Err(Errno::NOENT) => return Ok(true),
            opened => opened.map_err(failed)?,
        };
        // Reads a huge folder to its end only once: it is given up at the budget.
        for entry in first_names(&folder, *budget).map_err(failed)? {
            let Some(left) = budget.checked_sub(1) else {
                return Ok(false);
            };
            *budget = left;
            let inner = shown.join(&entry);
            match look(&folder, &*entry, self.ids()) {
                Ok(seen) if seen.is_mount_root() => {
                    return Err(KernelError::MountInside { path: text(&inner) });
                }
                Ok(seen) if seen.is_folder() => {
                    if !self.survey(folder.as_fd(), &entry, &inner, depth + 1, budget)? {
                        return Ok(false);
                    }
                }
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(removal_error(&inner, errno)),
            }
        }
        Ok(true)
    }
}

/// The first names of a folder, one more than the budget at most.
fn first_names(folder: &OwnedFd, budget: usize) -> std::result::Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    let mut buffer = vec![MaybeUninit::uninit(); LIST_BUFFER];
    let mut entries = RawDir::new(folder, &mut buffer);
    while names.len() <= budget
        && let Some(entry) = entries.next()
    {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// A removal under way: the folders from the top to the one that is being emptied.
struct Removal<'a> {
    kernel: &'a LinuxKernel,
    base: BorrowedFd<'a>,
    shown: PathBuf,
    levels: Vec<RemovalLevel>,
    /// How many entries were found by first readings.
    at_first: u64,
    /// And how many where everything had been removed.
    again: u64,
}

impl Removal<'_> {
    fn run(mut self, name: &OsStr) -> Result<()> {
        let Some(mut current) = self.enter(self.base, name, false)? else {
            return Ok(());
        };
        loop {
            if let Some(inner) = self.next_folder(&current)? {
                let again = self.levels.last().is_some_and(|level| level.again);
                if let Some(entered) = self.enter(current.as_fd(), &inner, again)? {
                    current = entered;
                }
                continue;
            }
            // Everything in it is gone; out, and away with it.
            let Some(left) = self.levels.pop() else {
                return Ok(());
            };
            let outer = match self.levels.last() {
                None => None,
                Some(level) => Some(self.step_out(&current, level.identity)?),
            };
            let parent = outer.as_ref().map_or(self.base, AsFd::as_fd);
            match rustix::fs::unlinkat(parent, &left.name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {
                    let Some(outer) = outer else { return Ok(()) };
                    current = outer;
                }
                // Filled again meanwhile, or the file system left entries out while others were
                // being removed.
                Err(Errno::NOTEMPTY | Errno::EXIST) => match (self.enter(parent, &left.name, true)?, outer) {
                    (Some(entered), _) => current = entered,
                    (None, Some(outer)) => current = outer,
                    (None, None) => return Ok(()),
                },
                Err(errno) => return Err(self.error(Some(&left.name), errno)),
            }
        }
    }

    /// Opens a folder to be emptied; none if it is gone by now. `again`: everything was removed
    /// there before.
    fn enter(&mut self, parent: BorrowedFd<'_>, name: &OsStr, again: bool) -> Result<Option<OwnedFd>> {
        let opened = match open_on_same_mount(parent, name, FOLDER) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened.map_err(|errno| self.error(Some(name), errno))?,
        };
        let seen = look_closer(&opened, "", self.kernel.ids()).map_err(|errno| self.error(Some(name), errno))?;
        let identity = seen.identity();
        self.levels.push(RemovalLevel {
            name: name.to_owned(),
            identity,
            pending: Vec::new(),
            read: false,
            again,
            left: 0,
        });
        Ok(Some(opened))
    }

    /// Goes to the folder that was entered before this one.
    fn step_out(&self, current: &OwnedFd, expected: FolderIdentity) -> Result<OwnedFd> {
        let same_mount = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let outer = rustix::fs::openat2(current, "..", FOLDER, Mode::empty(), same_mount)
            .map_err(|errno| self.error(None, errno))?;
        let seen = look_closer(&outer, "", self.kernel.ids()).map_err(|errno| self.error(None, errno))?;
        if seen.identity() == expected {
            Ok(outer)
        } else {
            // The folder was moved while it was emptied.
            Err(KernelError::StillWritten { path: self.path(None) })
        }
    }

    /// Removes what can be removed from the current folder, and says which folder in it must be
    /// emptied first.
    fn next_folder(&mut self, current: &OwnedFd) -> Result<Option<OsString>> {
        let remembered = if self.levels.len() <= UPPER_LEVELS { PENDING_ABOVE } else { PENDING_BELOW };
        let Some(level) = self.levels.last_mut() else {
            return Ok(None);
        };
        if let Some(name) = level.pending.pop() {
            level.left = level.left.saturating_sub(1);
            return Ok(Some(name));
        }
        // Once everything that was found is gone, all of it is read again: who finds nothing then
        // is done.
        let whole = level.left == 0;
        rustix::fs::seek(current, SeekFrom::Start(0)).map_err(|errno| self.error(None, errno))?;
        let mut pending = Vec::new();
        let (mut seen, mut found) = (0_u64, 0_usize);
        let mut buffer = vec![MaybeUninit::uninit(); LIST_BUFFER];
        let mut entries = RawDir::new(current, &mut buffer);
        while (whole || found < remembered)
            && let Some(entry) = entries.next()
        {
            let entry = entry.map_err(|errno| self.error(None, errno))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            seen += 1;
            if self.remove_entry(current, name, entry.file_type() == FileType::Directory)? {
                continue;
            }
            found += 1;
            if pending.len() < remembered {
                pending.push(name.to_owned());
            }
        }
        if whole {
            self.count(seen)?;
        }
        let next = pending.pop();
        if let Some(level) = self.levels.last_mut() {
            level.pending = pending;
            if whole {
                level.left = found;
            }
            level.left = level.left.saturating_sub(usize::from(next.is_some()));
        }
        Ok(next)
    }

    /// Takes note of a whole reading of the current folder, and gives up on who goes on writing.
    fn count(&mut self, seen: u64) -> Result<()> {
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        level.again |= level.read;
        level.read = true;
        if !level.again {
            self.at_first += seen;
            return Ok(());
        }
        // One more for the reading itself: what is never empty and shows nothing must not block
        // this forever.
        self.again += seen + 1;
        if self.again > self.at_first.saturating_add(MORE_THAN_AT_FIRST) {
            return Err(KernelError::StillWritten { path: self.path(None) });
        }
        Ok(())
    }

    /// Removes a file or an empty folder; false if it is a folder that is not empty.
    fn remove_entry(&self, current: &OwnedFd, name: &OsStr, folder: bool) -> Result<bool> {
        if !folder {
            match rustix::fs::unlinkat(current, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => return Ok(true),
                // The file system did not report the type, or it changed.
                Err(Errno::ISDIR) => {}
                Err(errno) => return Err(self.error(Some(name), errno)),
            }
        }
        match rustix::fs::unlinkat(current, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(self.error(Some(name), errno)),
        }
    }

    fn error(&self, name: Option<&OsStr>, errno: Errno) -> KernelError {
        removal_error(Path::new(&self.path(name)), errno)
    }

    /// Where the removal is, for messages; the middle of a very deep path is left out.
    fn path(&self, name: Option<&OsStr>) -> String {
        let mut path = self.shown.clone();
        let deep = self.levels.len() > SHOWN_LEVELS;
        if deep {
            path.push("…");
        }
        let skipped = if deep { self.levels.len() - 1 } else { 1 };
        path.extend(self.levels.iter().skip(skipped).map(|level| &level.name));
        if !self.levels.is_empty() {
            path.extend(name);
        }
        text(&path)
    }
}

/// `EBUSY` and `EXDEV` mean a mount; the kernel removes nothing then.
fn removal_error(path: &Path, errno: Errno) -> KernelError {
    match errno {
        Errno::BUSY | Errno::XDEV => KernelError::MountInside { path: text(path) },
        errno => KernelError::walking(Step::Remove, text(path), errno),
    }
}
