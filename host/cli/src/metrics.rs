//! `volhost metrics`.

use std::path::Path;

use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::output::Output;
use volhost_api::pb;

/// Prints the daemon's metrics in Prometheus' format.
pub(super) async fn print(socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let mut client = Client::connect(socket).await?;
    let answer = within(ANSWER_TIME, socket, client.inspect.metrics(pb::MetricsRequest {})).await?;
    output.write(&answer.text)
}
