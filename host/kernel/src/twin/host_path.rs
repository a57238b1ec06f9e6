//! The twin's granted paths.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::state::{At, Content, State};
use crate::error::{Errno, KernelError};
use crate::handle::SourceKind;
use crate::kernel::Result;
use crate::names::text;
use crate::step::Step;

/// Modes of what is created, as the real kernel's.
const FOLDER_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

impl State {
    pub(super) fn open_granted(&mut self, path: &Path, roots: &[PathBuf]) -> Result<(At, SourceKind)> {
        self.step(Step::OpenHostPath, path)?;
        let failed = |errno| KernelError::walking(Step::OpenHostPath, text(path), errno);
        let at = self.resolve(path).map_err(failed)?;
        self.check_grant(at, path, roots)?;
        let kind = self.kind(at).map_err(failed)?;
        Ok((at, kind))
    }

    fn kind(&self, at: At) -> std::result::Result<SourceKind, Errno> {
        Ok(match &self.node(at.node)?.content {
            Content::Folder(_) => SourceKind::Directory,
            Content::File(_) => SourceKind::File,
            Content::Other(kind) => *kind,
            Content::Symlink(_) => return Err(Errno::LOOP),
        })
    }

    fn check_grant(&self, at: At, path: &Path, roots: &[PathBuf]) -> Result<()> {
        let found = self.path_of(at).unwrap_or_default();
        let granted = roots.iter().any(|root| {
            let real = self.resolve(root).ok().and_then(|at| self.path_of(at));
            found.starts_with(real.as_deref().unwrap_or(root))
        });
        if granted {
            return Ok(());
        }
        Err(KernelError::OutsideGrant { path: text(path), found: text(&found) })
    }

    pub(super) fn create_granted_folder(&mut self, path: &Path, roots: &[PathBuf]) -> Result<At> {
        let failed = |errno| KernelError::walking(Step::CreateHostPath, text(path), errno);
        let mut missing: Vec<OsString> = Vec::new();
        let mut existing = path;
        let mut at = loop {
            match self.resolve(existing) {
                Ok(at) => break at,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(errno)),
            }
            let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else {
                return Err(failed(Errno::NOENT));
            };
            missing.push(name.to_owned());
            existing = parent;
        };
        self.check_grant(at, path, roots)?;
        for name in missing.into_iter().rev() {
            self.step(Step::CreateHostPath, path)?;
            let content = Content::Folder(BTreeMap::new());
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
        let parent = self.resolve(parent).map_err(failed)?;
        self.check_grant(parent, path, roots)?;
        self.step(Step::CreateHostPath, path)?;
        match self.create(parent, name, Content::File(Vec::new()), FILE_MODE) {
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
