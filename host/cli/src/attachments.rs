//! `volhost attachments`: the part of a controller that attaches volumes to this node.

use std::collections::BTreeSet;
use std::path::Path;

use super::arguments::AttachmentsCommand;
use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::format::printable;
use super::output::Output;
use volhost_api::pb;

/// Lists the volumes in use, or sets the attached ones.
pub(super) async fn run(command: &AttachmentsCommand, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let mut client = Client::connect(socket).await?;
    let in_use = within(ANSWER_TIME, socket, client.manager.get_volumes_in_use(pb::GetVolumesInUseRequest {})).await?;
    match command {
        AttachmentsCommand::List => list(&mut client, &in_use.volumes, socket, output).await,
        AttachmentsCommand::Set { volumes } => {
            let attachments: Vec<pb::NodeAttachment> = volumes.iter().map(|text| attachment(text)).collect();
            // A controller that sets attachments has seen which volumes are in use.
            let named: BTreeSet<String> = attachments.iter().map(|one| one.volume.clone()).collect();
            let reported = pb::VolumesInUse { volumes: in_use.volumes.into_iter().chain(named).collect() };
            within(ANSWER_TIME, socket, client.manager.set_node_attachments(pb::NodeAttachments { attachments }))
                .await?;
            within(ANSWER_TIME, socket, client.manager.mark_volumes_as_reported_in_use(reported)).await?;
            Ok(())
        }
    }
}

async fn list(client: &mut Client, in_use: &[String], socket: &Path, output: &mut Output) -> Result<(), CliError> {
    for volume in in_use {
        let request = pb::VolumeIsAttachedRequest { volume: volume.clone() };
        let answer = within(ANSWER_TIME, socket, client.manager.volume_is_attached(request)).await?;
        let state = if answer.attached { "attached" } else { "not attached" };
        output.line(&format!("{} {state}", printable(volume)))?;
    }
    Ok(())
}

/// `NAME` or `NAME=DEVICE`. A plugin's own name for a volume may have a `=`: the last one counts.
fn attachment(text: &str) -> pb::NodeAttachment {
    let (volume, device_path) = text.rsplit_once('=').unwrap_or((text, ""));
    pb::NodeAttachment { volume: volume.to_owned(), device_path: device_path.to_owned() }
}
