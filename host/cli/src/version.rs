//! `volhost version`.

use std::path::Path;

use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::format::printable;
use super::output::Output;
use volhost_api::pb;

/// This program's version.
pub(super) fn print_client(output: &mut Output) -> Result<(), CliError> {
    output.line(&format!("Client: {} (plugin contract {})", env!("CARGO_PKG_VERSION"), volhost_runtime::VERSION))
}

/// This program's version and the daemon's.
pub(super) async fn print(socket: &Path, output: &mut Output) -> Result<(), CliError> {
    print_client(output)?;
    let mut client = Client::connect(socket).await?;
    let server = within(ANSWER_TIME, socket, client.inspect.version(pb::VersionRequest {})).await?;
    output.line(&format!(
        "Server: {} (API {}, process {})",
        printable(&server.version),
        printable(&server.api),
        server.pid
    ))
}
