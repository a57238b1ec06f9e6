//! Groups of snapshots: copies `.snapshot-+GROUP@VOLUME`, whole once there is `.group-GROUP`. They
//! are made together, of one moment.

use std::collections::BTreeSet;

use volhost_plugin_sdk::prelude::*;

use crate::Loop;
use crate::handles::{HANDLE_BYTES, MEMBER, OF, is_whole, mark, mark_file, volume_of};
use crate::images::{self, Image, handle_of, path_in};
use crate::snapshots;

/// The size of the file that marks a group as whole, in bytes.
const WHOLE_BYTES: u64 = 4096;
/// Whether a group can have this handle.
fn is_group(group_id: &str) -> bool {
    handle_of(group_id) == group_id
}

/// The handles and images of the group's existing snapshots.
fn members(group: &str) -> Result<Vec<(String, Image)>> {
    snapshots::beginning_with(&format!("{MEMBER}{group}{OF}"))
}

/// Removes the group: its snapshots first, so that a group whose deletion was cut off is still
/// found.
fn remove(group: &str) -> Result<()> {
    for (_, image) in members(group)? {
        loop_devices::discard(&image.path)?;
    }
    mark(group)?.map_or(Ok(()), |mark| loop_devices::discard(&mark.path))
}

fn answer(group: &str, members: &[(String, Image)], into: &mut SnapshotPage) {
    for (id, image) in members {
        snapshots::add(id, image, into);
        into.of_group(group);
    }
}

/// Copies the volumes, and marks the group as whole.
fn copy_all(group: &str, volumes: &[(String, Image)]) -> Result<()> {
    let copies: Vec<(String, String)> = volumes
        .iter()
        .map(|(volume_id, image)| {
            let file = snapshots::file(&format!("{MEMBER}{group}{OF}{volume_id}"));
            (image.path.clone(), path_in(&image.folder, &file))
        })
        .collect();
    loop_devices::copy_together(&copies).map_err(|error| match error {
        Error::Busy(text) => Error::precondition(format!("the volumes cannot be copied as of one moment: {text}")),
        error => error,
    })?;
    let folder = volumes.first().map_or("", |(_, image)| image.folder.as_str());
    loop_devices::ensure_image(&path_in(folder, &mark_file(group)), WHOLE_BYTES).map(drop)
}

impl GroupSnapshotter for Loop {
    fn create_group(wanted: &GroupRequest, into: &mut SnapshotPage) -> Result<()> {
        let (group, volume_ids) = (handle_of(&wanted.name()), wanted.volume_ids());
        if is_whole(&group)? {
            let there = members(&group)?;
            let of: BTreeSet<&str> = there.iter().filter_map(|(id, _)| volume_of(id)).collect();
            if !of.into_iter().eq(volume_ids.iter().map(String::as_str)) {
                return Err(Error::conflict(format!("there is a group {} of other volumes", quoted(&group))));
            }
            answer(&group, &there, into);
            return Ok(());
        }
        let volumes: Vec<(String, Image)> =
            volume_ids.into_iter().map(|id| images::volume(&id).map(|image| (id, image))).collect::<Result<_>>()?;
        if let Some((long, _)) = volumes.iter().find(|(id, _)| id.len() + group.len() + 2 > HANDLE_BYTES) {
            return Err(Error::invalid_argument(format!(
                "the handle of the snapshot of {} would be longer than {HANDLE_BYTES} bytes; choose a shorter name",
                quoted(long)
            )));
        }
        // An earlier, unfinished call's copies are of another moment.
        remove(&group)?;
        if let Err(error) = copy_all(&group, &volumes) {
            remove(&group)?;
            return Err(error);
        }
        answer(&group, &members(&group)?, into);
        Ok(())
    }

    fn delete_group(group_id: &str) -> Result<()> {
        // No group can have had another handle.
        if is_group(group_id) { remove(group_id) } else { Ok(()) }
    }

    fn find_group(group_id: &str, into: &mut SnapshotPage) -> Result<()> {
        let there = if is_group(group_id) && is_whole(group_id)? { members(group_id)? } else { Vec::new() };
        if there.is_empty() {
            return Err(Error::not_found(format!("there is no group of snapshots {}", quoted(group_id))));
        }
        answer(group_id, &there, into);
        Ok(())
    }
}
