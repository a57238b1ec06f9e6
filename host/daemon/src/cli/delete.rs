//! `volhost delete`.

use std::path::Path;

use super::arguments::DeleteArguments;
use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::names;
use super::output::Output;
use volhost::api::pb;

/// Removes a pod that `apply` added.
pub(super) async fn run(arguments: &DeleteArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let pod = names::pod(&arguments.name, None)?;
    let name = format!("{}/{}", pod.namespace, pod.name);
    let mut client = Client::connect(socket).await?;
    within(ANSWER_TIME, socket, client.manager.remove_pod(pb::RemovePodRequest { pod: Some(pod) })).await?;
    output.line(&format!(
        "pod {name} removed; its volumes are being taken away (volhost wait pod {name} --for unmounted)"
    ))
}
