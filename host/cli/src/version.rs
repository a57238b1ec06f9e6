//! `volhost version`.

use std::path::Path;

use serde::Serialize;

use super::arguments::DocumentFormat;
use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::format::printable;
use super::output::Output;
use super::structured;
use volhost_api::pb;

/// The versions, as a document.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    api_version: &'static str,
    kind: &'static str,
    client: ClientVersion,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<ServerVersion>,
}

/// This program's.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClientVersion {
    version: &'static str,
    /// Of the plugin contract.
    contract: String,
}

/// The daemon's.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerVersion {
    version: String,
    /// Of the API.
    api: String,
    pid: u32,
}

impl Versions {
    fn new(server: Option<ServerVersion>) -> Self {
        let client =
            ClientVersion { version: env!("CARGO_PKG_VERSION"), contract: volhost_runtime::VERSION.to_string() };
        Self { api_version: "volhost.io/v1", kind: "Version", client, server }
    }

    /// The versions as text.
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("Client: {} (plugin contract {})", self.client.version, self.client.contract)];
        lines.extend(self.server.iter().map(|server| {
            format!("Server: {} (API {}, process {})", printable(&server.version), printable(&server.api), server.pid)
        }));
        lines
    }
}

/// This program's version.
pub(super) fn print_client(format: Option<DocumentFormat>, output: &mut Output) -> Result<(), CliError> {
    let versions = Versions::new(None);
    match format {
        Some(format) => output.line(&structured::document(&versions, format)?),
        None => versions.lines().iter().try_for_each(|line| output.line(line)),
    }
}

/// This program's version and the daemon's. As text, this program's is printed before the daemon is
/// asked.
pub(super) async fn print(socket: &Path, format: Option<DocumentFormat>, output: &mut Output) -> Result<(), CliError> {
    if format.is_none() {
        print_client(None, output)?;
    }
    let mut client = Client::connect(socket).await?;
    let server = within(ANSWER_TIME, socket, client.inspect.version(pb::VersionRequest {})).await?;
    let server = ServerVersion { version: server.version, api: server.api, pid: server.pid };
    let versions = Versions::new(Some(server));
    match format {
        Some(format) => output.line(&structured::document(&versions, format)?),
        None => versions.lines().iter().skip(1).try_for_each(|line| output.line(line)),
    }
}
