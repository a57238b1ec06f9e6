//! `volhost force-unmount`.

use std::path::Path;

use super::arguments::ForceUnmountArguments;
use super::client::{Client, within};
use super::error::CliError;
use super::names;
use super::output::Output;
use volhost_api::pb;

/// How long the kernel may take: it does not wait for the storage, but a machine with many mounts
/// is slow.
const TIME: std::time::Duration = std::time::Duration::from_secs(60);

/// Detaches the mount of a volume, even if it is in use.
pub(super) async fn run(arguments: &ForceUnmountArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let (pod, volume) = match arguments.of_node {
        true => (None, arguments.name.clone()),
        false => names::volume(&arguments.name).map(|(pod, volume)| (Some(pod), volume))?,
    };
    let mut client = Client::connect(socket).await?;
    let request = pb::ForceUnmountRequest { pod, volume, end_server: arguments.end_server, of_node: arguments.of_node };
    let done = within(TIME, socket, client.manager.force_unmount(request)).await?;
    let server = if done.server_ended { "the connection to its server was aborted, and " } else { "" };
    output.line(&format!("{server}volume {} is detached; the kernel releases it with its last user", arguments.name))
}
