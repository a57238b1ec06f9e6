//! Snapshots: copies of images, hidden beside them as `.snapshot-NAME@VOLUME`.

use volhost_plugin_sdk::prelude::*;

use crate::Loop;
use crate::handles::{HANDLE_BYTES, OF, group_of, is_whole, volume_of};
use crate::images::{self, Image, LISTED_BYTES, Place, handle_of, path_in};

/// The prefix of the files of snapshots.
const FILE: &str = ".snapshot-";
pub(crate) fn file(snapshot_id: &str) -> String {
    format!("{FILE}{snapshot_id}")
}

/// How many names are read at once.
const BATCH: u32 = 500;

/// The handles and images of the snapshots whose handles have this prefix.
///
/// # Errors
/// The host's.
pub(crate) fn beginning_with(begin: &str) -> Result<Vec<(String, Image)>> {
    let begin = file(begin);
    let mut found = Vec::new();
    for folder in loop_devices::folders() {
        let mut after = begin.clone();
        loop {
            let names = loop_devices::names(&folder, &after, BATCH)?;
            let ours: Vec<&String> = names.iter().take_while(|name| name.starts_with(&begin)).collect();
            for id in ours.iter().filter_map(|name| name.strip_prefix(FILE)) {
                let path = path_in(&folder, &file(id));
                match loop_devices::facts(&path) {
                    Ok((size, modified)) => {
                        found.push((id.to_owned(), Image { path, folder: folder.clone(), size, modified }));
                    }
                    Err(Error::NotFound(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            match ours.last() {
                Some(last) if ours.len() == names.len() => after.clone_from(last),
                _ => break,
            }
        }
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found)
}

/// Puts a snapshot into the page.
pub(crate) fn add(snapshot_id: &str, image: &Image, into: &mut SnapshotPage) {
    into.add(snapshot_id, volume_of(snapshot_id).unwrap_or_default(), image.size, image.modified);
}

/// Whether a snapshot counts: one of a group that is not whole does not.
fn counts(snapshot_id: &str) -> Result<bool> {
    group_of(snapshot_id).map_or(Ok(true), is_whole)
}

/// The image of the snapshot with this handle.
///
/// # Errors
/// `not-found` when there is none; else the host's.
pub(crate) fn image(snapshot_id: &str) -> Result<Image> {
    let known = volume_of(snapshot_id).is_some() && counts(snapshot_id)?;
    let found = if known { images::find(&file(snapshot_id))? } else { None };
    found.ok_or_else(|| Error::not_found(format!("there is no snapshot {}", quoted(snapshot_id))))
}

/// The snapshot of this name, of any volume.
fn named(name: &str) -> Result<Option<String>> {
    let begin = format!("{FILE}{name}{OF}");
    for folder in loop_devices::folders() {
        let next = loop_devices::names(&folder, &begin, 1)?.pop();
        if let Some(found) = next.filter(|next| next.starts_with(&begin)) {
            return Ok(found.strip_prefix(FILE).map(str::to_owned));
        }
    }
    Ok(None)
}

impl Snapshotter for Loop {
    fn create_snapshot(wanted: &SnapshotRequest, into: &mut SnapshotPage) -> Result<()> {
        let (name, volume_id) = (handle_of(&wanted.name()), wanted.volume_id());
        let id = format!("{name}{OF}{volume_id}");
        match named(&name)? {
            Some(found) if found != id => {
                return Err(Error::conflict(format!("there is a snapshot {} of another volume", quoted(&name))));
            }
            Some(_) => {}
            None => {
                let volume = images::volume(&volume_id)?;
                if id.len() > HANDLE_BYTES {
                    return Err(Error::invalid_argument(format!(
                        "the handle {} would be longer than {HANDLE_BYTES} bytes; choose a shorter name",
                        quoted(&id)
                    )));
                }
                loop_devices::copy(&volume.path, &path_in(&volume.folder, &file(&id)))?;
            }
        }
        let made = image(&id)?;
        into.add(&id, &volume_id, made.size, made.modified);
        Ok(())
    }

    fn delete_snapshot(snapshot_id: &str) -> Result<()> {
        if let Some(group) = group_of(snapshot_id) {
            return Err(Error::invalid_argument(format!(
                "snapshot {} belongs to the group {}, and is deleted with it only; delete the group",
                quoted(snapshot_id),
                quoted(group)
            )));
        }
        match image(snapshot_id) {
            Ok(image) => loop_devices::discard(&image.path),
            Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn find_snapshot(snapshot_id: &str, into: &mut SnapshotPage) -> Result<()> {
        add(snapshot_id, &image(snapshot_id)?, into);
        group_of(snapshot_id).into_iter().for_each(|group| into.of_group(group));
        Ok(())
    }

    fn list_snapshots(volume_id: Option<&str>, start: &str, most: u32, into: &mut SnapshotPage) -> Result<()> {
        let mut left = most;
        let mut last: Option<Place> = None;
        images::each(Place::read(start, FILE)?, |folder, name, place| {
            let Some(id) = name.strip_prefix(FILE).filter(|id| id.len() <= LISTED_BYTES) else {
                return Ok(true);
            };
            let Some(volume) = volume_of(id).filter(|volume| volume_id.is_none_or(|wanted| wanted == *volume)) else {
                return Ok(true);
            };
            if !counts(id)? {
                return Ok(true);
            }
            if left == 0 {
                into.next(&last.take().unwrap_or_default().token(FILE));
                return Ok(false);
            }
            match loop_devices::facts(&path_in(folder, name)) {
                Ok((size, modified)) => {
                    into.add(id, volume, size, modified);
                    group_of(id).into_iter().for_each(|group| into.of_group(group));
                    left -= 1;
                    last = Some(place.clone());
                    Ok(true)
                }
                Err(Error::NotFound(_)) => Ok(true),
                Err(error) => Err(error),
            }
        })
    }
}
