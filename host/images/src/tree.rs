//! The files of one layer, made below one folder. Names come from a stranger: each is resolved by the
//! kernel with that folder as the root, so that neither `..` nor a symbolic link of the layer leads
//! out of it, and nothing mounted there is entered.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use thiserror::Error;

/// How an archive says that a name of a lower layer is gone.
const WHITEOUT: &[u8] = b".wh.";
/// How it says that nothing of the lower layers' folder shows.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// How overlay is told that.
const OPAQUE_ATTRIBUTE: &str = "trusted.overlay.opaque";
/// The bits of a folder's mode that are kept.
const FOLDER_BITS: u32 = 0o1777;
/// The bits of a file's mode that are kept: a layer brings no programs that change their user.
const FILE_BITS: u32 = 0o777;
/// The mode of folders that an archive leaves out.
const MISSING_FOLDER: u32 = 0o755;
/// Parts of a path: more than any file system's paths have.
const MOST_PARTS: usize = 512;

const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const NEW_FILE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Why an entry cannot be made.
#[derive(Debug, Error)]
pub(crate) enum TreeError {
    /// The path leads out of the layer, or is none.
    #[error("{} is no path within the layer", .0.display())]
    Path(PathBuf),
    /// The archive contradicts itself.
    #[error("{}: {why}", path.display())]
    Entry {
        /// The path in the layer.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
    /// The kernel refuses.
    #[error("{step} {}: {source}", path.display())]
    Kernel {
        /// The step.
        step: &'static str,
        /// The path in the layer.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Owner, mode and time of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u32,
    /// Seconds since 1970.
    pub(crate) modified: i64,
}

/// A folder that becomes a layer.
#[derive(Debug)]
pub(crate) struct LayerTree {
    root: OwnedFd,
    /// The times of folders, set when nothing changes in them any more.
    folders: Vec<(PathBuf, i64)>,
}

impl LayerTree {
    /// The tree in this empty folder.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn open(folder: &Path) -> Result<Self, TreeError> {
        let root = rustix::fs::openat(CWD, folder, PLACE | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|errno| kernel("open", folder, errno))?;
        Ok(Self { root, folders: Vec::new() })
    }

    /// Makes a folder; one that exists gets the attributes.
    pub(crate) fn folder(&mut self, path: &Path, attributes: Attributes) -> Result<(), TreeError> {
        let path = within(path)?;
        let Some(name) = path.file_name() else {
            // The layer's own root.
            set(self.root.as_fd(), OsStr::new("."), &path, attributes, FOLDER_BITS)?;
            self.folders.push((path, attributes.modified));
            return Ok(());
        };
        let parent = self.parent(&path)?;
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(MISSING_FOLDER)) {
            Err(Errno::EXIST) if kind(&parent, name) == Ok(FileType::Directory) => {}
            Err(Errno::EXIST) => {
                clear(parent.as_fd(), name, &path)?;
                rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(MISSING_FOLDER))
                    .map_err(|errno| kernel("make the folder", &path, errno))?;
            }
            made => made.map_err(|errno| kernel("make the folder", &path, errno))?,
        }
        set(parent.as_fd(), name, &path, attributes, FOLDER_BITS)?;
        self.folders.push((path, attributes.modified));
        Ok(())
    }

    /// Makes an empty file to write to, which [`Self::finish_file`] completes.
    pub(crate) fn file(&self, path: &Path) -> Result<std::fs::File, TreeError> {
        let path = within(path)?;
        let (parent, name) = self.place(&path)?;
        let file = rustix::fs::openat(&parent, name, NEW_FILE, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| kernel("make the file", &path, errno))?;
        Ok(file.into())
    }

    /// Gives a file that was written its attributes.
    pub(crate) fn finish_file(file: &std::fs::File, path: &Path, attributes: Attributes) -> Result<(), TreeError> {
        let failed = |step| move |errno| kernel(step, path, errno);
        rustix::fs::fchown(file, Some(Uid::from_raw(attributes.uid)), Some(Gid::from_raw(attributes.gid)))
            .map_err(failed("set the owner of"))?;
        // After the owner, which changes it.
        rustix::fs::fchmod(file, Mode::from_raw_mode(attributes.mode & FILE_BITS))
            .map_err(failed("set the mode of"))?;
        rustix::fs::futimens(file, &times(attributes.modified)).map_err(failed("set the time of"))
    }

    /// Makes a symbolic link. Its target is not looked at: it counts in the pod alone.
    pub(crate) fn symlink(&self, path: &Path, target: &OsStr, attributes: Attributes) -> Result<(), TreeError> {
        let path = within(path)?;
        let (parent, name) = self.place(&path)?;
        rustix::fs::symlinkat(target, &parent, name).map_err(|errno| kernel("make the link", &path, errno))?;
        set_owner_and_time(parent.as_fd(), name, &path, attributes)
    }

    /// Makes another name of a file of this layer.
    pub(crate) fn hard_link(&self, path: &Path, target: &Path) -> Result<(), TreeError> {
        let (path, target) = (within(path)?, within(target)?);
        let wrong = |why| TreeError::Entry { path: path.clone(), why };
        let Some(target_name) = target.file_name() else { return Err(wrong("a hard link to the root")) };
        let target_parent = self.resolve(target.parent().unwrap_or(Path::new("")), &path)?;
        match kind(&target_parent, target_name) {
            Ok(FileType::RegularFile | FileType::Symlink | FileType::Fifo) => {}
            Ok(_) => return Err(wrong("a hard link to what is no file")),
            Err(_) => return Err(wrong("a hard link to a file that the layer does not have")),
        }
        let (parent, name) = self.place(&path)?;
        rustix::fs::linkat(&target_parent, target_name, &parent, name, AtFlags::empty())
            .map_err(|errno| kernel("link", &path, errno))
    }

    /// Makes a named pipe.
    pub(crate) fn fifo(&self, path: &Path, attributes: Attributes) -> Result<(), TreeError> {
        let path = within(path)?;
        let (parent, name) = self.place(&path)?;
        rustix::fs::mknodat(&parent, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .map_err(|errno| kernel("make the pipe", &path, errno))?;
        set(parent.as_fd(), name, &path, attributes, FILE_BITS)
    }

    /// Hides what the name of a whiteout says, in overlay's own way: a device 0:0 hides a name, an
    /// attribute a folder's content. False when the name is that of an ordinary file.
    pub(crate) fn whiteout(&self, path: &Path) -> Result<bool, TreeError> {
        let path = within(path)?;
        let Some(name) = path.file_name().map(OsStrExt::as_bytes).filter(|name| name.starts_with(WHITEOUT)) else {
            return Ok(false);
        };
        let parent = self.parent(&path)?;
        if name == OPAQUE {
            // By a descriptor that can be written to, as attributes need.
            let folder =
                rustix::fs::openat(&parent, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                    .map_err(|errno| kernel("open", &path, errno))?;
            rustix::fs::fsetxattr(&folder, OPAQUE_ATTRIBUTE, b"y", XattrFlags::empty())
                .map_err(|errno| kernel("mark as opaque", &path, errno))?;
            return Ok(true);
        }
        let hidden = OsStr::from_bytes(name.get(WHITEOUT.len()..).unwrap_or_default());
        // Other names of this form are notes of the programs that made the layer.
        if hidden.as_bytes().starts_with(WHITEOUT) {
            return Ok(true);
        }
        if hidden.is_empty() || hidden == "." || hidden == ".." {
            return Err(TreeError::Path(path));
        }
        match rustix::fs::mknodat(&parent, hidden, FileType::CharacterDevice, Mode::empty(), 0) {
            // The layer itself has the name: it hides the lower one anyway.
            Ok(()) | Err(Errno::EXIST) => Ok(true),
            Err(errno) => Err(kernel("make the whiteout", &path, errno)),
        }
    }

    /// Sets the times of the folders, the innermost first.
    pub(crate) fn finish(mut self) -> Result<(), TreeError> {
        while let Some((path, modified)) = self.folders.pop() {
            // A later entry may have replaced it.
            let Ok(folder) = self.resolve(&path, &path) else { continue };
            let time = times(modified);
            rustix::fs::utimensat(&folder, ".", &time, AtFlags::empty())
                .map_err(|errno| kernel("set the time of", &path, errno))?;
        }
        Ok(())
    }

    /// The folder of a new entry, and its name there, which is free.
    fn place<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a OsStr), TreeError> {
        let name = path.file_name().ok_or_else(|| TreeError::Path(path.to_owned()))?;
        let parent = self.parent(path)?;
        clear(parent.as_fd(), name, path)?;
        Ok((parent, name))
    }

    /// The folder that an entry lies in; made, with those above it, if the archive leaves them out.
    fn parent(&self, path: &Path) -> Result<OwnedFd, TreeError> {
        let above = path.parent().unwrap_or(Path::new(""));
        match self.resolve(above, path) {
            Err(TreeError::Kernel { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let mut made = PathBuf::new();
        for part in above.components() {
            let inside = self.resolve(&made, path)?;
            match rustix::fs::mkdirat(&inside, part.as_os_str(), Mode::from_raw_mode(MISSING_FOLDER)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(kernel("make the folder", &made.join(part), errno)),
            }
            made.push(part);
        }
        self.resolve(above, path)
    }

    /// Opens a folder with the layer as the root of every link on the way.
    fn resolve(&self, folder: &Path, shown: &Path) -> Result<OwnedFd, TreeError> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        loop {
            match rustix::fs::openat2(&self.root, folder, PLACE, Mode::empty(), inside) {
                // A rename elsewhere raced with the resolution.
                Err(Errno::AGAIN) => {}
                opened => return opened.map_err(|errno| kernel("open the folder of", shown, errno)),
            }
        }
    }
}

fn kernel(step: &'static str, path: &Path, errno: Errno) -> TreeError {
    TreeError::Kernel { step, path: path.to_owned(), source: errno.into() }
}

/// A path of an archive, as one below the layer's root: container runtimes take a leading `/` for
/// that root, too.
fn within(path: &Path) -> Result<PathBuf, TreeError> {
    let wrong = || TreeError::Path(path.to_owned());
    if path.as_os_str().as_bytes().contains(&0) || path.components().count() > MOST_PARTS {
        return Err(wrong());
    }
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(wrong()),
        }
    }
    Ok(plain)
}

fn kind(parent: &OwnedFd, name: &OsStr) -> Result<FileType, Errno> {
    let found = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(found.st_mode))
}

/// Removes an earlier entry of the name. A folder must be empty: no builder replaces a full one.
fn clear(parent: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<(), TreeError> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                Err(TreeError::Entry { path: path.to_owned(), why: "it replaces a folder of the layer that has files" })
            }
            Err(errno) => Err(kernel("replace", path, errno)),
        },
        Err(errno) => Err(kernel("replace", path, errno)),
    }
}

fn set(parent: BorrowedFd<'_>, name: &OsStr, path: &Path, attributes: Attributes, bits: u32) -> Result<(), TreeError> {
    set_owner_and_time(parent, name, path, attributes)?;
    // After the owner, which changes it. The name is no link: it was made above, in a folder that no
    // other process can enter.
    rustix::fs::chmodat(parent, name, Mode::from_raw_mode(attributes.mode & bits), AtFlags::empty())
        .map_err(|errno| kernel("set the mode of", path, errno))
}

fn set_owner_and_time(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    path: &Path,
    attributes: Attributes,
) -> Result<(), TreeError> {
    let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
    rustix::fs::chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| kernel("set the owner of", path, errno))?;
    rustix::fs::utimensat(parent, name, &times(attributes.modified), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| kernel("set the time of", path, errno))
}

fn times(modified: i64) -> Timestamps {
    let time = Timespec { tv_sec: modified, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}
