//! The handles of snapshots, and the file that marks a group of them as whole.
//!
//! A snapshot's handle is `NAME@VOLUME`; one of a group has the name `+GROUP`.

use volhost_plugin_sdk::prelude::*;

use crate::images::{self, Image};
use crate::source::is_handle;

/// The separator in a snapshot's handle, between its own name and its volume's handle. No name of a
/// snapshot has one.
pub(crate) const OF: char = '@';
/// The prefix of the names of a group's snapshots. No single snapshot's name has it.
pub(crate) const MEMBER: char = '+';
/// CSI's limit for a handle, in bytes.
pub(crate) const HANDLE_BYTES: usize = 128;
/// The prefix of the file that marks a group as whole.
const WHOLE: &str = ".group-";

/// The volume in a snapshot's handle; none for another text.
pub(crate) fn volume_of(snapshot_id: &str) -> Option<&str> {
    let (name, volume) = snapshot_id.split_once(OF)?;
    (is_handle(name) && is_handle(volume)).then_some(volume)
}

/// The group of the snapshot with this handle; none for a single snapshot.
pub(crate) fn group_of(snapshot_id: &str) -> Option<&str> {
    snapshot_id.strip_prefix(MEMBER)?.split_once(OF).map(|(group, _)| group)
}

/// The name of the file that marks the group as whole.
pub(crate) fn mark_file(group: &str) -> String {
    format!("{WHOLE}{group}")
}

/// The file that marks the group as whole.
///
/// # Errors
/// The host's.
pub(crate) fn mark(group: &str) -> Result<Option<Image>> {
    images::find(&mark_file(group))
}

/// Whether all of the group's snapshots were made.
///
/// # Errors
/// The host's.
pub(crate) fn is_whole(group: &str) -> Result<bool> {
    Ok(mark(group)?.is_some_and(|mark| mark.size > 0))
}
