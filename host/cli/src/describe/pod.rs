//! The description of a pod.

use std::path::Path;

use volhost_model::view::{PodPhase, PodView};

use super::super::client::{ANSWER_TIME, Client, within};
use super::super::error::CliError;
use super::super::format::{age, took};
use super::super::list::{self, Query, View};
use super::super::text::Text;
use super::volume;
use volhost_api::pb;
use volhost_table::Cell;

/// Everything: state, errors, volumes with their last failures and next tries, mounts, operations,
/// events.
pub(super) async fn describe(
    text: &mut Text,
    pod: &PodView,
    client: &mut Client,
    socket: &Path,
) -> Result<(), CliError> {
    let phase = match pod.phase {
        PodPhase::Mounting => "Mounting",
        PodPhase::Mounted => "Mounted",
        PodPhase::Unmounting => "Unmounting",
    };
    text.field("Name", &pod.name);
    text.field("Namespace", &pod.namespace);
    text.field("UID", &pod.uid);
    text.field("Status", &format!("{phase}, {} of {} volumes ready", pod.ready, pod.total));
    text.field("Known since", &age(pod.since, text.now_us));
    if pod.ready_at.is_some() {
        text.field("Took", &took(pod.since, pod.ready_at));
    }
    if !pod.errors.is_empty() {
        text.block("Errors", |text| {
            for error in &pod.errors {
                text.line(&super::super::format::printable(error));
            }
        });
    }
    if pod.volumes.is_empty() {
        text.field("Volumes", "none");
    } else {
        text.block("Volumes", |text| {
            for each in &pod.volumes {
                let name = if each.name.is_empty() { &each.spec_name } else { &each.name };
                text.block(name, |text| {
                    volume::fields(text, &volhost_model::view::VolumeView { pod: String::new(), ..each.clone() })
                });
            }
        });
    }
    mounts(text, pod, client, socket).await?;
    let full_name = format!("{}/{}", pod.namespace, pod.name);
    let operations = list::all(client, socket, Query::new(pb::Kind::Operations, None, None)).await?;
    let ours = |view: &View| matches!(view, View::Operation(operation) if operation.pod == full_name || operation.pod == pod.uid);
    let operations: Vec<View> = operations.into_iter().filter(ours).collect();
    volume::running(text, &operations);
    text.table("Operations", pb::Kind::Operations, &operations);
    let events = list::all(client, socket, Query::events(format!("pod {full_name}"))).await?;
    text.table("Events", pb::Kind::Events, &events);
    Ok(())
}

/// The pod's mounts. An error (a pod that has just gone) is shown in their place, and the rest is
/// shown all the same.
async fn mounts(text: &mut Text, pod: &PodView, client: &mut Client, socket: &Path) -> Result<(), CliError> {
    const TITLE: &str = "Mounts";
    let request = pb::PodRequest { pod: Some(pb::PodSelector { uid: pod.uid.clone(), ..pb::PodSelector::default() }) };
    match within(ANSWER_TIME, socket, client.manager.get_mounts(request)).await {
        Ok(answer) => {
            let rows = answer.mounts.iter().map(|mount| {
                [&mount.point, &mount.fs_type, &mount.source, &mount.root, &mount.options]
                    .into_iter()
                    .map(Cell::new)
                    .collect::<Vec<_>>()
            });
            text.cells(TITLE, &["MOUNT POINT", "TYPE", "SOURCE", "ROOT", "OPTIONS"], &rows.collect::<Vec<_>>());
            Ok(())
        }
        Err(CliError::Refused(why)) => {
            text.field(TITLE, &why);
            Ok(())
        }
        Err(error) => Err(error),
    }
}
