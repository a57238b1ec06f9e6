//! `volhost volume prune`: deletes the volumes that nobody uses, once a person agrees.

use std::io;
use std::path::Path;

use tonic::transport::Channel;
use volhost_api::pb;
use volhost_api::pb::named_volumes_client::NamedVolumesClient;

use super::{list, remove};
use crate::answer::is_yes;
use crate::error::CliError;
use crate::format::printable;
use crate::output::Output;

/// Deletes every volume without a user. Without `force`, lists them and asks first.
///
/// # Errors
/// [`CliError::Failed`] if the answer is not yes, or a volume cannot be deleted: the others are.
pub(super) async fn run(
    volumes: &mut NamedVolumesClient<Channel>,
    socket: &Path,
    force: bool,
    output: &mut Output,
) -> Result<(), CliError> {
    let listed = list(volumes, socket).await?;
    let unused: Vec<pb::NamedVolume> = listed.into_iter().filter(|volume| volume.users.is_empty()).collect();
    if unused.is_empty() {
        return Ok(());
    }
    if !force {
        output.note("These volumes have no user. They and their data will be deleted:");
        for volume in &unused {
            output.note(&format!(
                "  {} ({} bytes)",
                printable(&volume.name),
                volume.capacity_bytes.max(volume.requested_bytes)
            ));
        }
        output.note("Delete them? [y/N]");
        if !is_yes(io::stdin().lock())? {
            return Err(CliError::Failed("nothing was deleted; --force deletes without asking".to_owned()));
        }
    }
    let mut failures = Vec::new();
    for volume in unused {
        // The daemon refuses one that has a user by now.
        match remove(volumes, socket, volume.name.clone()).await {
            Ok(()) => output.line(&printable(&volume.name))?,
            Err(error) => failures.push(error.to_string()),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(CliError::Failed(failures.join("\n"))) }
}
