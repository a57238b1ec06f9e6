//! The protocol by which a set of files is published: one piece of code for every kernel, over a
//! [`PayloadFolder`].
//!
//! ```text
//!  ..data is this very set? ----yes--------------------------------> links, clearing
//!    | no
//!  write ..STAMP with modes and owners -> ..data_tmp -> rename to ..data -> links, clearing
//! ```
//!
//! Whatever happens before the rename leaves the old set. After it, each later step repairs what it
//! finds, so a call that goes the whole way puts right what any crash left.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::PublishResult;
use super::plan::PayloadPlan;
use super::stamp::is_stamp;
use crate::error::{KernelError, Result};

/// The link to the set that readers see.
const DATA: &str = "..data";
/// The name of a link until it is in its place.
const TEMPORARY: &str = "..data_tmp";
/// How many names for a new folder are tried; a process that takes each of the next nanoseconds
/// does so on purpose.
const STAMP_TRIES: usize = 16;

/// The object at a name in the volume.
#[derive(Debug, PartialEq, Eq)]
pub enum TargetEntry {
    /// Nothing.
    Absent,
    /// A link, and its target.
    Link(PathBuf),
    /// A folder.
    Folder,
    /// A file, a device or the like.
    Other,
}

/// A volume's root folder, as the protocol needs it. No call follows a link.
pub trait PayloadFolder {
    /// How a message names something in the volume.
    fn shown(&self, name: &OsStr) -> String;
    /// A name for a new set.
    fn stamp(&mut self) -> OsString;
    /// The names in the volume.
    fn names(&mut self) -> Result<Vec<OsString>>;
    /// Returns what is at a name.
    fn look(&mut self, name: &OsStr) -> Result<TargetEntry>;
    /// Returns whether this folder contains exactly what is planned. What can't be read does not.
    fn matches(&mut self, folder: &OsStr, plan: &PayloadPlan<'_>) -> bool;
    /// Makes this folder with everything that is planned.
    fn write(&mut self, folder: &OsStr, plan: &PayloadPlan<'_>) -> Result<()>;
    /// Makes a link, with the payload's owner.
    fn link(&mut self, name: &OsStr, target: &Path, plan: &PayloadPlan<'_>) -> Result<()>;
    /// Gives a link its name. Without `replace`, false if something is there already.
    fn rename(&mut self, from: &OsStr, to: &OsStr, replace: bool) -> Result<bool>;
    /// Removes a link or file. Nothing there: done.
    fn unlink(&mut self, name: &OsStr) -> Result<()>;
    /// Removes a folder with everything in it. Nothing there: done.
    fn remove(&mut self, folder: &OsStr) -> Result<()>;
}

/// Makes the volume show what is planned.
pub fn publish(ground: &mut impl PayloadFolder, plan: &PayloadPlan<'_>) -> Result<PublishResult> {
    let live = live_folder(ground)?;
    let (folder, written) = match live.filter(|live| ground.matches(live, plan)) {
        Some(live) => (live, false),
        None => (switch(ground, plan)?, true),
    };
    // After the switch, for it changes what a stale link leads to.
    let mut found = BTreeMap::new();
    for name in ground.names()? {
        let what = ground.look(&name)?;
        found.insert(name, what);
    }
    let linked = set_links(ground, plan, &found)?;
    let cleared = clear(ground, plan, &folder, &found)?;
    Ok(PublishResult { changed: written || linked || cleared })
}

/// The folder that readers see, if a set was published.
fn live_folder(ground: &mut impl PayloadFolder) -> Result<Option<OsString>> {
    match ground.look(DATA.as_ref())? {
        TargetEntry::Link(target) if is_stamp(target.as_os_str()) => Ok(Some(target.into_os_string())),
        // A foreign link or file at the host's name: it is replaced.
        TargetEntry::Absent | TargetEntry::Link(_) | TargetEntry::Other => Ok(None),
        // It could contain anything, so it is not removed.
        TargetEntry::Folder => Err(KernelError::WrongType {
            path: ground.shown(DATA.as_ref()),
            expected: "the host's own link",
            found: "a folder",
        }),
    }
}

/// Writes a new set and lets `..data` lead to it.
fn switch(ground: &mut impl PayloadFolder, plan: &PayloadPlan<'_>) -> Result<OsString> {
    let mut folder = ground.stamp();
    for _ in 0..STAMP_TRIES {
        if ground.look(&folder)? == TargetEntry::Absent {
            break;
        }
        folder = ground.stamp();
    }
    let switched =
        ground.write(&folder, plan).and_then(|()| put_link(ground, DATA.as_ref(), Path::new(&folder), true, plan));
    match switched {
        Ok(_) => Ok(folder),
        Err(cause) => Err(cause.undone(ground.remove(&folder))),
    }
}

/// Puts a link in its place at once, over an older one if `replace`. False if something is there.
fn put_link(
    ground: &mut impl PayloadFolder,
    name: &OsStr,
    target: &Path,
    replace: bool,
    plan: &PayloadPlan<'_>,
) -> Result<bool> {
    let temporary = OsStr::new(TEMPORARY);
    match ground.look(temporary)? {
        TargetEntry::Absent => {}
        TargetEntry::Link(_) | TargetEntry::Other => ground.unlink(temporary)?,
        TargetEntry::Folder => {
            return Err(KernelError::WrongType {
                path: ground.shown(temporary),
                expected: "the host's own link",
                found: "a folder",
            });
        }
    }
    ground.link(temporary, target, plan)?;
    match ground.rename(temporary, name, replace) {
        Ok(true) => Ok(true),
        Ok(false) => ground.unlink(temporary).map(|()| false),
        Err(cause) => Err(cause.undone(ground.unlink(temporary))),
    }
}

/// Makes the links that the pod opens. What is no link stays: it may be a mount point of another
/// volume.
fn set_links(
    ground: &mut impl PayloadFolder,
    plan: &PayloadPlan<'_>,
    found: &BTreeMap<OsString, TargetEntry>,
) -> Result<bool> {
    let mut changed = false;
    for name in plan.tree.keys() {
        let target = Path::new(DATA).join(name);
        let replace = match found.get(*name) {
            None | Some(TargetEntry::Absent) => false,
            Some(TargetEntry::Link(other)) if *other != target => true,
            Some(_) => continue,
        };
        changed |= put_link(ground, name, &target, replace, plan)?;
    }
    Ok(changed)
}

/// Removes what the protocol itself made and no longer needs. True if a visible link went.
fn clear(
    ground: &mut impl PayloadFolder,
    plan: &PayloadPlan<'_>,
    live: &OsStr,
    found: &BTreeMap<OsString, TargetEntry>,
) -> Result<bool> {
    let mut changed = false;
    for (name, what) in found {
        match what {
            TargetEntry::Link(target) if !plan.tree.contains_key(&**name) && *target == Path::new(DATA).join(name) => {
                ground.unlink(name)?;
                changed = true;
            }
            TargetEntry::Link(_) | TargetEntry::Other if name == TEMPORARY => ground.unlink(name)?,
            _ => {}
        }
    }
    // Last: until the links are gone a reader may still find a file through them.
    for (name, what) in found {
        if *what == TargetEntry::Folder && name != live && is_stamp(name) {
            ground.remove(name)?;
        }
    }
    Ok(changed)
}
