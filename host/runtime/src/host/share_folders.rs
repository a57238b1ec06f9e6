//! `share-folders`: folders and small files of a share that the call has mounted.

use std::ffi::OsStr;
use std::path::Path;

use volhost_kernel::{Directory, Durability, ErrorKind, KernelError};
use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::share_folders::Host;
use crate::bindings::volhost::plugin::types;
use crate::handles::DetachedMount;
use crate::text::tame;

/// The longest path, in bytes: NFS's limit.
const PATH_BYTES: usize = 1023;
/// The mode of parents that are missing.
const PARENT_MODE: u32 = 0o755;
/// The most names of one folder: a list that a plugin's memory holds.
const MOST_NAMES: usize = 65_536;
/// The largest file, in bytes.
const FILE_BYTES: usize = 4096;
/// Records are the plugin's own.
const FILE_MODE: u32 = 0o600;
/// How much of a path a message shows, in bytes.
const SHOWN_BYTES: usize = 256;

/// A path of plain names.
#[derive(Debug, Clone, Copy)]
struct SharePath<'a> {
    parent: &'a Path,
    name: &'a OsStr,
}

impl<'a> SharePath<'a> {
    fn read(path: &'a str) -> Result<Self, HostError> {
        check(path)?;
        let read = Path::new(path);
        match (read.parent(), read.file_name()) {
            (Some(parent), Some(name)) => Ok(Self { parent, name }),
            _ => Err(invalid(path, "names no folder or file")),
        }
    }
}

fn invalid(path: &str, why: &str) -> HostError {
    HostError::Plugin(types::Error::InvalidArgument(format!("path {:?} {why}", tame(path, SHOWN_BYTES))))
}

/// Refuses a path that could lead out of the share, or that another spelling has.
fn check(path: &str) -> Result<(), HostError> {
    if path.len() > PATH_BYTES {
        return Err(invalid(path, "is longer than 1023 bytes"));
    }
    if path.chars().any(char::is_control) {
        return Err(invalid(path, "has a control character"));
    }
    if !path.is_empty() && path.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Err(invalid(path, "must be relative, with single slashes and without `.` and `..`"));
    }
    Ok(())
}

/// Nothing there is no error.
fn or_absent<T: Default>(outcome: Result<T, KernelError>) -> Result<T, KernelError> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(T::default()),
        outcome => outcome,
    }
}

impl State {
    fn share(&self, mount: &Resource<DetachedMount>) -> Result<Directory, HostError> {
        Ok(self.kernel.share_root(&self.table.get(mount)?.0)?)
    }
}

impl Host for State {
    fn make(&mut self, mount: Resource<DetachedMount>, path: String, mode: u32) -> Result<(), HostError> {
        let at = SharePath::read(&path)?;
        self.change(format!("share-folders.make {}", tame(&path, SHOWN_BYTES)), |state| {
            let parent = state.kernel.make_dirs(&state.share(&mount)?, at.parent, PARENT_MODE)?;
            state.kernel.make_dirs(&parent, Path::new(at.name), mode)?;
            Ok(())
        })
    }

    fn names(&mut self, mount: Resource<DetachedMount>, path: String) -> Result<Vec<String>, HostError> {
        check(&path)?;
        self.step("share-folders.names", |state| {
            let (_, names) = state.kernel.list(&state.share(&mount)?, Path::new(&path))?;
            if names.len() > MOST_NAMES {
                let shown = tame(&path, SHOWN_BYTES);
                let text = format!("folder {shown:?} has {} names, and at most {MOST_NAMES} are listed", names.len());
                return Err(HostError::Plugin(types::Error::Precondition(text)));
            }
            let mut names: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
            names.sort_unstable();
            Ok(names)
        })
    }

    fn rename(&mut self, mount: Resource<DetachedMount>, path: String, to: String) -> Result<(), HostError> {
        let (from, to) = (SharePath::read(&path)?, SharePath::read(&to)?);
        self.change(format!("share-folders.rename {}", tame(&path, SHOWN_BYTES)), |state| {
            let root = state.share(&mount)?;
            let old = state.kernel.walk(&root, from.parent)?;
            let new = state.kernel.walk(&root, to.parent)?;
            Ok(state.kernel.move_folder(&old, from.name, &new, to.name)?)
        })
    }

    fn remove(&mut self, mount: Resource<DetachedMount>, path: String) -> Result<(), HostError> {
        let at = SharePath::read(&path)?;
        self.change(format!("share-folders.remove {}", tame(&path, SHOWN_BYTES)), |state| {
            let root = state.share(&mount)?;
            let removed =
                state.kernel.walk(&root, at.parent).and_then(|parent| state.kernel.delete_folder(&parent, at.name));
            Ok(or_absent(removed)?)
        })
    }

    fn write_file(&mut self, mount: Resource<DetachedMount>, path: String, content: String) -> Result<(), HostError> {
        let at = SharePath::read(&path)?;
        if content.len() > FILE_BYTES {
            return Err(invalid(&path, "can have a content of 4096 bytes at most"));
        }
        self.change(format!("share-folders.write-file {}", tame(&path, SHOWN_BYTES)), |state| {
            let parent = state.kernel.walk(&state.share(&mount)?, at.parent)?;
            Ok(state.kernel.write_atomic(&parent, at.name, content.as_bytes(), FILE_MODE, Durability::Machine)?)
        })
    }

    fn read_file(&mut self, mount: Resource<DetachedMount>, path: String) -> Result<Option<String>, HostError> {
        let at = SharePath::read(&path)?;
        self.step("share-folders.read-file", |state| {
            let root = state.share(&mount)?;
            let read = state
                .kernel
                .walk(&root, at.parent)
                .and_then(|parent| state.kernel.read_file(&parent, at.name, FILE_BYTES));
            let Some(bytes) = or_absent(read)? else { return Ok(None) };
            String::from_utf8(bytes).map(Some).map_err(|_| {
                let shown = tame(&path, SHOWN_BYTES);
                HostError::Plugin(types::Error::Conflict(format!("file {shown:?} is no text in UTF-8")))
            })
        })
    }

    fn remove_file(&mut self, mount: Resource<DetachedMount>, path: String) -> Result<(), HostError> {
        let at = SharePath::read(&path)?;
        self.change("share-folders.remove-file", |state| {
            let root = state.share(&mount)?;
            let removed =
                state.kernel.walk(&root, at.parent).and_then(|parent| state.kernel.remove_file(&parent, at.name));
            Ok(or_absent(removed)?)
        })
    }
}
