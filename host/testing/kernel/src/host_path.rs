//! Granted paths.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use volhost_kernel::implement::granted::{self, PathEntry, PathRefusal, Places};
use volhost_kernel::implement::text;
use volhost_kernel::{Errno, KernelError, Result, SourceKind, Step};

use super::state::{At, InodeContent, MachineState};

/// Modes of what is created, as the real kernel's.
const FOLDER_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

impl Places for MachineState {
    type Place = At;

    fn open_root(&self, root: &Path) -> std::result::Result<At, Errno> {
        self.resolve(root)
    }

    fn real_path(&self, place: &At) -> std::result::Result<PathBuf, Errno> {
        self.path_of(*place).ok_or(Errno::NOENT)
    }

    fn open_plain(&self, from: &At, below: &Path) -> std::result::Result<Option<At>, Errno> {
        let mut at = *from;
        for name in below.components() {
            match self.look_up(&at, name.as_os_str())? {
                PathEntry::Place(inner) => at = inner,
                PathEntry::Link(_) => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    fn look_up(&self, folder: &At, name: &OsStr) -> std::result::Result<PathEntry<At>, Errno> {
        let inner = self.entry(*folder, name)?;
        Ok(match &self.node(inner.node)?.content {
            InodeContent::Symlink(target) => PathEntry::Link(PathBuf::from(target)),
            _ => PathEntry::Place(inner),
        })
    }
}

impl MachineState {
    pub(super) fn open_granted(&mut self, path: &Path, roots: &[PathBuf]) -> Result<(At, SourceKind)> {
        self.step(Step::OpenHostPath, path)?;
        let failed = |errno| KernelError::walking(Step::OpenHostPath, text(path), errno);
        let at = self.open_within(path, roots, Step::OpenHostPath)?;
        let kind = self.kind(at).map_err(failed)?;
        Ok((at, kind))
    }

    fn kind(&self, at: At) -> std::result::Result<SourceKind, Errno> {
        Ok(match &self.node(at.node)?.content {
            InodeContent::Folder(_) => SourceKind::Directory,
            InodeContent::File(_) => SourceKind::File,
            InodeContent::Other(kind) => *kind,
            InodeContent::Symlink(_) => return Err(Errno::LOOP),
        })
    }

    /// Opens the place of a path within the granted folders.
    fn open_within(&self, path: &Path, roots: &[PathBuf], step: Step) -> Result<At> {
        granted::open(self, path, roots).map_err(|refusal| match refusal {
            PathRefusal::Outside => KernelError::OutsideGrant { path: text(path) },
            PathRefusal::Failed(errno) => KernelError::walking(step, text(path), errno),
        })
    }

    pub(super) fn create_granted_folder(&mut self, path: &Path, roots: &[PathBuf]) -> Result<At> {
        let failed = |errno| KernelError::walking(Step::CreateHostPath, text(path), errno);
        let mut missing: Vec<OsString> = Vec::new();
        let mut existing = path;
        let mut at = loop {
            match self.open_within(existing, roots, Step::CreateHostPath) {
                Ok(at) => break at,
                Err(KernelError::Failed { errno: Errno::NOENT, .. }) => {}
                Err(KernelError::OutsideGrant { .. }) => return Err(KernelError::OutsideGrant { path: text(path) }),
                Err(error) => return Err(error),
            }
            let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else {
                return Err(failed(Errno::NOENT));
            };
            missing.push(name.to_owned());
            existing = parent;
        };
        for name in missing.into_iter().rev() {
            self.step(Step::CreateHostPath, path)?;
            let content = InodeContent::Folder(BTreeMap::new());
            at = match self.create(at, &name, content, FOLDER_MODE) {
                // What is there but did not resolve is a link that leads nowhere.
                Err(Errno::EXIST) => return Err(failed(Errno::LOOP)),
                made => made.map_err(failed)?,
            };
        }
        self.expect_kind(at, path, SourceKind::Directory)
    }

    pub(super) fn create_granted_file(&mut self, path: &Path, roots: &[PathBuf]) -> Result<At> {
        let failed = |errno| KernelError::walking(Step::CreateHostPath, text(path), errno);
        match self.open_granted(path, roots) {
            Ok((at, _)) => return self.expect_kind(at, path, SourceKind::File),
            Err(KernelError::Failed { errno: Errno::NOENT, .. }) => {}
            Err(error) => return Err(error),
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(failed(Errno::ISDIR));
        };
        let parent = match self.open_within(parent, roots, Step::CreateHostPath) {
            Err(KernelError::OutsideGrant { .. }) => return Err(KernelError::OutsideGrant { path: text(path) }),
            opened => opened?,
        };
        self.step(Step::CreateHostPath, path)?;
        match self.create(parent, name, InodeContent::File(Vec::new()), FILE_MODE) {
            Err(Errno::EXIST) => Err(failed(Errno::LOOP)),
            made => made.map_err(failed),
        }
    }

    fn expect_kind(&self, at: At, path: &Path, expected: SourceKind) -> Result<At> {
        let found = self.kind(at).map_err(|errno| KernelError::walking(Step::OpenHostPath, text(path), errno))?;
        if found == expected {
            return Ok(at);
        }
        let (expected, found) = (expected.as_str(), found.as_str());
        Err(KernelError::WrongType { path: text(path), expected, found })
    }
}
