//! A payload as the tree it becomes, checked. The same for every kernel.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Component;

use crate::error::{KernelError, Result};
use crate::names::{check_mode, check_name, shown};
use crate::payload::{Payload, PayloadFile};

/// Linux's limit for a path, in bytes; longer ones could not be opened from the volume's root.
const MAX_PATH_BYTES: usize = 4096;
/// The id that means "leave it as it is" to chown: no user or group has it.
const NO_ID: u32 = u32::MAX;

/// The entries of a folder of the payload, by name.
pub type PayloadTree<'a> = BTreeMap<&'a OsStr, Branch<'a>>;

/// Something in a folder of the payload.
#[derive(Debug)]
pub enum Branch<'a> {
    /// A file.
    File(&'a PayloadFile),
    /// A folder, and what lies in it.
    Folder(PayloadTree<'a>),
}

/// A checked payload.
#[derive(Debug)]
pub struct PayloadPlan<'a> {
    /// What lies in the payload's root folder.
    pub tree: PayloadTree<'a>,
    /// The payload, for modes and owners.
    pub payload: &'a Payload,
}

impl<'a> PayloadPlan<'a> {
    /// Refuses what can't be published whole; nothing was touched then.
    pub fn of(payload: &'a Payload) -> Result<Self> {
        check_mode(payload.folder_mode)?;
        check_id(payload.owner)?;
        check_id(payload.group)?;
        let mut tree = PayloadTree::new();
        for file in &payload.files {
            check_mode(file.mode)?;
            check_id(file.owner)?;
            insert(&mut tree, file)?;
        }
        Ok(Self { tree, payload })
    }

    /// Who shall own a file, by the host's own user.
    pub fn owner(&self, file: Option<&PayloadFile>, own: u32) -> u32 {
        file.and_then(|file| file.owner).or(self.payload.owner).unwrap_or(own)
    }

    /// The group of everything, by the host's own.
    pub fn group(&self, own: u32) -> u32 {
        self.payload.group.unwrap_or(own)
    }
}

fn check_id(id: Option<u32>) -> Result<()> {
    if id == Some(NO_ID) {
        return Err(KernelError::InvalidPath { path: NO_ID.to_string(), rule: "no user or group has this id" });
    }
    Ok(())
}

/// Adds a file at its place.
fn insert<'a>(tree: &mut PayloadTree<'a>, file: &'a PayloadFile) -> Result<()> {
    let refused = |rule| KernelError::InvalidPath { path: shown(file.path.as_os_str()), rule };
    let names = names_of(file)?;
    let Some((last, folders)) = names.split_last() else {
        return Err(refused("a file of a payload has a name"));
    };
    let mut here = tree;
    for name in folders {
        here = match here.entry(name).or_insert_with(|| Branch::Folder(PayloadTree::new())) {
            Branch::Folder(inner) => inner,
            Branch::File(_) => return Err(refused("it lies in what is a file of the same payload")),
        };
    }
    match here.entry(last) {
        Entry::Vacant(free) => {
            free.insert(Branch::File(file));
            Ok(())
        }
        Entry::Occupied(taken) => Err(refused(match taken.get() {
            Branch::File(_) => "the payload has two files of this path",
            Branch::Folder(_) => "it is a file and a folder in the same payload",
        })),
    }
}

/// The components of a file's path. As the kubelet does, `.` and doubled slashes are passed over.
fn names_of(file: &PayloadFile) -> Result<Vec<&OsStr>> {
    let refused = |rule| KernelError::InvalidPath { path: shown(file.path.as_os_str()), rule };
    if file.path.as_os_str().len() > MAX_PATH_BYTES {
        return Err(refused("a path has 4096 bytes at most"));
    }
    let mut names: Vec<&OsStr> = Vec::new();
    for component in file.path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => {
                check_name(name).map_err(|error| match error {
                    KernelError::InvalidPath { rule, .. } => refused(rule),
                    other => other,
                })?;
                names.push(name);
            }
            Component::ParentDir => return Err(refused("a path of a payload has no `..`")),
            Component::RootDir | Component::Prefix(_) => return Err(refused("a path of a payload is relative")),
        }
    }
    match names.first() {
        None => Err(refused("a file of a payload has a name")),
        Some(first) if first.as_bytes().starts_with(b"..") => {
            Err(refused("names that begin with `..` are the host's own at the top of a payload"))
        }
        Some(_) => Ok(names),
    }
}
