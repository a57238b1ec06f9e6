//! Folders and files of the host's own.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;

use volhost_kernel::implement::text;
use volhost_kernel::{Errno, KernelError, Result, Step};

use super::handles::{OpenHandle, socket};
use super::mounts::word;
use super::state::{At, Inode, InodeContent, MachineState};

impl MachineState {
    /// Makes a folder; an error leaves none.
    pub(super) fn make_folder(&mut self, at: At, name: &OsStr, mode: u32, shown: &Path) -> Result<()> {
        self.step(Step::MakeFolder, shown)?;
        self.create(at, name, InodeContent::Folder(BTreeMap::new()), mode)
            .map_err(|errno| KernelError::failed(Step::MakeFolder, text(shown), errno))?;
        self.step(Step::SetMode, shown).map_err(|cause| cause.undone(self.undo_folder(at, name, shown)))
    }

    fn undo_folder(&mut self, at: At, name: &OsStr, shown: &Path) -> Result<()> {
        self.rmdir(at, name).map_err(|errno| KernelError::failed(Step::RemoveFolder, text(shown), errno))
    }

    pub(super) fn make_plain_folder(
        &mut self,
        folder: At,
        name: &OsStr,
        mode: u32,
        group: Option<u32>,
        shown: &Path,
    ) -> Result<()> {
        let path = text(shown);
        if group == Some(u32::MAX) {
            return Err(KernelError::InvalidPath { path, rule: "no group has this id" });
        }
        let made = self.lower(folder, name) == Err(Errno::NOENT);
        if made {
            self.make_folder(folder, name, mode, shown)?;
        }
        let failed = |errno| KernelError::failed(Step::OpenFolder, &path, errno);
        let at = self.lower(folder, name).map_err(failed)?;
        if self.mounted_on.contains_key(&at) {
            return Err(KernelError::AlreadyMounted { path });
        }
        match &self.node(at.node).map_err(failed)?.content {
            InodeContent::Folder(_) => {}
            InodeContent::Symlink(_) => return Err(KernelError::SymbolicLink { path }),
            _ => return Err(KernelError::walking(Step::OpenFolder, path, Errno::NOTDIR)),
        }
        if group.is_some() {
            self.step(Step::SetGroup, shown)
                .map_err(|cause| if made { cause.undone(self.undo_folder(folder, name, shown)) } else { cause })?;
        }
        let node = self.node_mut(at.node).map_err(failed)?;
        node.mode = mode;
        node.group = group.unwrap_or(node.group);
        Ok(())
    }

    pub(super) fn delete_tree(&mut self, folder: At, name: &OsStr, shown: &Path) -> Result<()> {
        let path = text(shown);
        let failed = |errno| KernelError::failed(Step::Remove, &path, errno);
        let at = match self.lower(folder, name) {
            Err(Errno::NOENT) => return Ok(()),
            found => found.map_err(failed)?,
        };
        if self.mounted_on.contains_key(&at) {
            return Err(KernelError::MountInside { path });
        }
        match &self.node(at.node).map_err(failed)?.content {
            InodeContent::Folder(_) => {}
            InodeContent::Symlink(_) => return Err(KernelError::SymbolicLink { path }),
            content => {
                return Err(KernelError::WrongType { path, expected: "a folder", found: word(content) });
            }
        }
        let inside = self.children_of(at.mount).into_iter().find(|(on, _)| self.is_within(on.node, at.node));
        if let Some((on, _)) = inside {
            let base = self.path_of(at).unwrap_or_default();
            let point = self.path_of(on).unwrap_or_default();
            let point = point.strip_prefix(&base).unwrap_or(&point);
            return Err(KernelError::MountInside { path: text(&shown.join(point)) });
        }
        self.step(Step::Remove, shown)?;
        self.unlink(folder, name).map_err(failed)
    }

    pub(super) fn remove_empty(&mut self, folder: At, name: &OsStr, shown: &Path) -> Result<()> {
        let path = text(shown);
        self.step(Step::RemoveFolder, shown)?;
        match self.rmdir(folder, name) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::NOTEMPTY) => Err(KernelError::NotEmpty { path }),
            Err(Errno::BUSY) => Err(KernelError::MountInside { path }),
            Err(Errno::NOTDIR) => Err(self.wrong_type(folder, name, "a folder", path)),
            Err(errno) => Err(KernelError::failed(Step::RemoveFolder, path, errno)),
        }
    }

    pub(super) fn move_folder(
        &mut self,
        (from, name): (At, &OsStr),
        (to, new_name): (At, &OsStr),
        shown: &Path,
        path: &Path,
    ) -> Result<()> {
        self.step(Step::MoveFolder, shown)?;
        let failed = |errno| KernelError::failed(Step::MoveFolder, text(shown), errno);
        let moved = self.lower(from, name).map_err(failed)?;
        if !self.is_folder(moved.node) {
            return Err(self.wrong_type(from, name, "a folder", text(shown)));
        }
        if self.mounted_on.contains_key(&moved) {
            return Err(KernelError::MountInside { path: text(shown) });
        }
        if self.is_within(to.node, moved.node) {
            return Err(failed(Errno::INVAL));
        }
        match self.lower(to, new_name) {
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
            Ok(old) if !self.is_folder(old.node) => return Err(self.wrong_type(to, new_name, "a folder", text(path))),
            Ok(old) if old.node == moved.node => return Ok(()),
            Ok(old) if !self.children(old.node).map_err(failed)?.is_empty() => {
                return Err(KernelError::NotEmpty { path: text(path) });
            }
            Ok(_) => self.rmdir(to, new_name).map_err(failed)?,
        }
        self.children_mut(from.node).map_err(failed)?.remove(name);
        self.children_mut(to.node).map_err(failed)?.insert(new_name.to_owned(), moved.node);
        self.node_mut(moved.node).map_err(failed)?.parent = Some(to.node);
        Ok(())
    }

    fn wrong_type(&self, folder: At, name: &OsStr, expected: &'static str, path: String) -> KernelError {
        let node = self.lower(folder, name).and_then(|at| self.node(at.node));
        match node {
            Ok(node) => KernelError::WrongType { path, expected, found: word(&node.content) },
            Err(errno) => KernelError::failed(Step::Inspect, path, errno),
        }
    }

    pub(super) fn write_file(&mut self, folder: At, name: &OsStr, bytes: &[u8], mode: u32, shown: &Path) -> Result<()> {
        let path = text(shown);
        self.step(Step::WriteFile, shown)?;
        let failed = |errno| KernelError::failed(Step::WriteFile, &path, errno);
        let old = match self.lower(folder, name) {
            Err(Errno::NOENT) => None,
            found => Some(found.map_err(failed)?),
        };
        if let Some(at) = old {
            let occupied = if self.mounted_on.contains_key(&at) {
                Some(Errno::BUSY)
            } else {
                self.is_folder(at.node).then_some(Errno::ISDIR)
            };
            if let Some(errno) = occupied {
                return Err(KernelError::failed(Step::PublishFile, path, errno));
            }
        }
        // Beside the old one until it is whole, as the real one: both must fit.
        let temporary = volhost_kernel::implement::temporary(name);
        volhost_kernel::implement::check_name(&temporary)?;
        match self.unlink(folder, &temporary) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let new = self.create(folder, &temporary, InodeContent::File(bytes.to_vec()), mode).map_err(failed)?;
        if let Err(cause) = self.step(Step::PublishFile, shown) {
            return Err(cause.undone(self.unlink(folder, &temporary).map_err(failed)));
        }
        if old.is_some() {
            self.unlink(folder, name).map_err(failed)?;
        }
        let children = self.children_mut(folder.node).map_err(failed)?;
        children.remove(&temporary);
        children.insert(name.to_owned(), new.node);
        Ok(())
    }

    /// Opens a file to append to it, with its size.
    pub(super) fn open_append(
        &mut self,
        folder: At,
        name: &OsStr,
        make: Option<u32>,
        shown: &Path,
    ) -> Result<Option<(At, u64)>> {
        self.step(Step::OpenFile, shown)?;
        let failed = |errno| KernelError::walking(Step::OpenFile, text(shown), errno);
        let at = match (self.lower(folder, name), make) {
            (Err(Errno::NOENT), None) => return Ok(None),
            (Err(Errno::NOENT), Some(mode)) => {
                self.create(folder, name, InodeContent::File(Vec::new()), mode).map_err(failed)?
            }
            (found, _) => found.map_err(failed)?,
        };
        let found = match &self.node(at.node).map_err(failed)?.content {
            InodeContent::File(bytes) => return Ok(Some((at, bytes.len() as u64))),
            InodeContent::Symlink(_) => return Err(failed(Errno::LOOP)),
            InodeContent::Folder(_) => "a folder",
            InodeContent::Other(kind) => kind.as_str(),
        };
        Err(KernelError::WrongType { path: text(shown), expected: "a file", found })
    }

    /// Appends to a file, as far as the file system has room. A file whose name was removed takes
    /// everything, and no name leads to it.
    pub(super) fn append(&mut self, at: At, bytes: &[u8], shown: &Path) -> Result<()> {
        self.step(Step::WriteFile, shown)?;
        let failed = |errno| KernelError::failed(Step::WriteFile, text(shown), errno);
        let Ok(node) = self.node(at.node) else { return Ok(()) };
        let InodeContent::File(old) = &node.content else { return Err(failed(Errno::ISDIR)) };
        let (file_system, old) = (node.file_system, old.len());
        self.check_room(file_system, old, old + bytes.len()).map_err(failed)?;
        if let Some(Inode { content: InodeContent::File(content), .. }) = self.nodes.get_mut(&at.node) {
            content.extend_from_slice(bytes);
        }
        Ok(())
    }

    pub(super) fn read_file(
        &mut self,
        folder: At,
        name: &OsStr,
        limit: usize,
        shown: &Path,
    ) -> Result<Option<Vec<u8>>> {
        self.step(Step::OpenFile, shown)?;
        let path = text(shown);
        let failed = |errno| KernelError::failed(Step::OpenFile, &path, errno);
        let at = match self.lower(folder, name) {
            Err(Errno::NOENT) => return Ok(None),
            found => found.map_err(failed)?,
        };
        if self.mounted_on.contains_key(&at) {
            return Err(failed(Errno::XDEV));
        }
        match &self.node(at.node).map_err(failed)?.content {
            InodeContent::File(bytes) if bytes.len() > limit => Err(KernelError::TooLarge { path, limit }),
            InodeContent::File(bytes) => Ok(Some(bytes.clone())),
            InodeContent::Symlink(_) => Err(KernelError::SymbolicLink { path }),
            content => Err(KernelError::WrongType { path, expected: "a file", found: word(content) }),
        }
    }

    pub(super) fn remove_file(&mut self, folder: At, name: &OsStr, shown: &Path) -> Result<()> {
        self.step(Step::RemoveFile, shown)?;
        let path = text(shown);
        let failed = |errno| KernelError::failed(Step::RemoveFile, &path, errno);
        let at = match self.lower(folder, name) {
            Err(Errno::NOENT) => return Ok(()),
            found => found.map_err(failed)?,
        };
        if self.is_folder(at.node) {
            return Err(self.wrong_type(folder, name, "a file", path));
        }
        self.unlink(folder, name).map_err(failed)
    }

    /// Locks the lock file. Closing what this returns gives the lock back.
    pub(super) fn lock_file(&mut self, folder: At, name: &OsStr, shown: &Path) -> Result<OwnedFd> {
        self.step(Step::Lock, shown)?;
        let path = text(shown);
        let failed = |errno| KernelError::walking(Step::Lock, &path, errno);
        let pid = std::process::id();
        let at = match self.lower(folder, name) {
            Err(Errno::NOENT) => {
                let content = InodeContent::File(format!("{pid}\n").into_bytes());
                self.create(folder, name, content, 0o600).map_err(failed)?
            }
            found => found.map_err(failed)?,
        };
        match &self.node(at.node).map_err(failed)?.content {
            InodeContent::File(_) => {}
            InodeContent::Symlink(_) => return Err(failed(Errno::LOOP)),
            InodeContent::Folder(_) => return Err(failed(Errno::ISDIR)),
            InodeContent::Other(_) => return Err(failed(Errno::NXIO)),
        }
        if self.locks.contains_key(&at.node) {
            return Err(KernelError::InUse { path, pid: Some(pid) });
        }
        let handle = socket().map_err(failed)?;
        self.locks.insert(at.node, OpenHandle::of(&handle, shown)?);
        Ok(handle)
    }
}
