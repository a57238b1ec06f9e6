//! Volumes that were made on a share:
//!
//! ```text
//!  SHARE/.volhost/volumes/NAME       the record of volume NAME
//!  SHARE/.volhost/folders/MARK/NAME  the folder that MARK spells belongs to volume NAME
//!  SHARE/.volhost/new/NAME/NAME      a mark in the making
//!  SHARE/FOLDER                      its data
//! ```
//!
//! A mark is made under another name and renamed: a server refuses to rename over a folder with
//! anything in it, so one volume alone gets a folder, whatever nodes ask for it at the same time.

use volhost_plugin_sdk::prelude::*;

use crate::folder::{Folder, RECORDS};
use crate::handle::{Handle, Share, is_name};
use crate::mount::mount_newest;
use crate::options::Options;
use crate::parameters::OnDelete;
use crate::record::Record;
use crate::source::Source;

/// The mode of the folders with records.
const RECORDS_MODE: u32 = 0o700;

/// A share, mounted for this call.
#[derive(Debug)]
pub(crate) struct Volumes {
    share: Share,
    mount: DetachedMount,
}

fn volumes() -> String {
    format!("{RECORDS}/volumes")
}

fn folders() -> String {
    format!("{RECORDS}/folders")
}

fn mark_of(folder: &Folder) -> String {
    format!("{}/{}", folders(), folder.mark())
}

fn record_of(name: &str) -> String {
    format!("{}/{name}", volumes())
}

/// What is not there has no names.
fn or_none(names: Result<Vec<String>>) -> Result<Vec<String>> {
    match names {
        Err(Error::NotFound(_)) => Ok(Vec::new()),
        names => names,
    }
}

impl Volumes {
    /// Mounts the share.
    ///
    /// # Errors
    /// As a pod's mount.
    pub(crate) fn of(share: &Share) -> Result<Self> {
        let source = Source {
            server: share.server.clone(),
            path: share.path.clone(),
            read_only: false,
            options: Options::default(),
        };
        let (mount, _) = mount_newest(&source)?;
        Ok(Self { share: share.clone(), mount })
    }

    /// Adds the share, and what it must allow, to an error.
    fn named<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|error| {
            let way_out = if error.message().contains("EACCES") || error.message().contains("EPERM") {
                "; export the share with no_root_squash, or let every user write to it"
            } else {
                ""
            };
            error.context(format!("nfs: share {}{way_out}", self.share))
        })
    }

    /// Returns the record of the volume, if there is one.
    ///
    /// # Errors
    /// `corrupt` for a damaged one; else the host's.
    pub(crate) fn record(&self, name: &str) -> Result<Option<Record>> {
        let path = record_of(name);
        let text = self.named(share_folders::read_file(&self.mount, &path))?;
        text.map(|text| Record::read(&text, &format!("{}/{path}", self.share))).transpose()
    }

    /// Writes the record of the volume.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn write(&self, name: &str, record: &Record) -> Result<()> {
        self.named(share_folders::write_file(&self.mount, &record_of(name), &record.to_string()))
    }

    /// Makes the volume, or goes on making it.
    ///
    /// # Errors
    /// `conflict` when the folder belongs to another volume, or holds files that would be deleted
    /// with the volume; else the host's.
    pub(crate) fn make(&self, name: &str, record: Record, mode: u32) -> Result<Record> {
        for folder in [volumes(), folders()] {
            self.named(share_folders::make(&self.mount, &folder, RECORDS_MODE))?;
        }
        self.write(name, &record)?;
        if let Err(refused) = self.take(name, &record) {
            return match refused {
                Error::Conflict(_) => Err(self.withdrawn(name, &record, refused)),
                refused => Err(refused),
            };
        }
        self.named(share_folders::make(&self.mount, record.folder.as_str(), mode))?;
        let made = Record { made: true, ..record };
        self.write(name, &made)?;
        Ok(made)
    }

    /// Marks the folder as the volume's, unless it is another's or contains what is no volume.
    fn take(&self, name: &str, record: &Record) -> Result<()> {
        let (folder, mark) = (&record.folder, mark_of(&record.folder));
        if self.owner(folder)?.is_none() {
            let new = format!("{RECORDS}/new/{name}");
            self.named(share_folders::make(&self.mount, &format!("{new}/{name}"), RECORDS_MODE))?;
            match share_folders::rename(&self.mount, &new, &mark) {
                // Another volume was faster: it is named below.
                Ok(()) | Err(Error::Conflict(_)) => {}
                Err(error) => return self.named(Err(error)),
            }
        }
        let place = format!("{}/{folder}", self.share);
        match self.owner(folder)? {
            Some(owner) if owner == name => {}
            Some(owner) => {
                return Err(Error::conflict(format!(
                    "nfs: {place} is the folder of volume {}; delete that one first, or use another pathPattern",
                    quoted(&owner)
                )));
            }
            None => return Err(Error::retryable(format!("nfs: the mark of {place} is gone again"))),
        }
        let marks = self.named(share_folders::names(&self.mount, &folders()))?;
        if let Some(other) = marks.iter().find(|mark| folder.overlaps(mark)) {
            return Err(Error::conflict(format!(
                "nfs: {place} and the folder of another volume, {}, lie in one another; use another pathPattern",
                quoted(&other.replace("%2F", "/").replace("%25", "%"))
            )));
        }
        let inside = self.named(or_none(share_folders::names(&self.mount, folder.as_str())))?;
        if inside.is_empty() || record.on_delete == OnDelete::Retain {
            return Ok(());
        }
        Err(Error::conflict(format!(
            "nfs: {place} has files already, and belongs to no volume; move it away, or use a class with \
             `onDelete: retain`, which takes it over"
        )))
    }

    /// Removes what the volume has begun with; its folder stays.
    fn withdrawn(&self, name: &str, record: &Record, refused: Error) -> Error {
        match self.forget(name, record) {
            Ok(()) => refused,
            Err(kept) => Error::uncertain(format!("{refused}; and its record stays: {kept}")),
        }
    }

    /// Removes the mark, if it is the volume's, and then the record.
    fn forget(&self, name: &str, record: &Record) -> Result<()> {
        self.named(share_folders::remove(&self.mount, &format!("{RECORDS}/new/{name}")))?;
        if self.owner(&record.folder)?.is_some_and(|owner| owner == name) {
            self.named(share_folders::remove(&self.mount, &mark_of(&record.folder)))?;
        }
        self.named(share_folders::remove_file(&self.mount, &record_of(name)))
    }

    /// The name of the volume that a folder belongs to.
    fn owner(&self, folder: &Folder) -> Result<Option<String>> {
        let names = self.named(or_none(share_folders::names(&self.mount, &mark_of(folder))))?;
        Ok(names.into_iter().next())
    }

    /// Does with the volume's folder what its class says, and forgets the volume.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn delete(&self, name: &str, record: &Record) -> Result<()> {
        // A volume that was only begun has no data.
        let is_own = record.made && self.owner(&record.folder)?.is_some_and(|owner| owner == name);
        if is_own {
            let folder = record.folder.as_str();
            match record.on_delete {
                OnDelete::Retain => {}
                OnDelete::Delete => self.named(share_folders::remove(&self.mount, folder))?,
                OnDelete::Archive => {
                    match share_folders::rename(&self.mount, folder, &record.folder.archived(name)) {
                        // By an earlier call that was cut off, or by the administrator.
                        Ok(()) | Err(Error::NotFound(_)) => {}
                        Err(error) => return self.named(Err(error)),
                    }
                }
            }
        }
        self.forget(name, record)
    }

    /// The names of all volumes of the share, sorted.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let names = self.named(or_none(share_folders::names(&self.mount, &volumes())))?;
        Ok(names.into_iter().filter(|name| is_name(name)).collect())
    }

    /// The handle of one of the volumes.
    pub(crate) fn handle(&self, name: &str) -> Handle {
        Handle { share: self.share.clone(), name: name.to_owned() }
    }
}
