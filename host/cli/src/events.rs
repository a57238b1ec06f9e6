//! `volhost events`.

use std::path::Path;

use super::arguments::EventsArguments;
use super::client::Client;
use super::error::CliError;
use super::get::{OutputFormat, Printer};
use super::list::{self, Query};
use super::names;
use super::output::Output;
use volhost_api::pb::Kind;

/// Shows the kept events, and watches with `-w`.
pub(super) async fn run(arguments: &EventsArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let object = arguments.object.as_deref().map(names::event_object).transpose()?.unwrap_or_default();
    let mut client = Client::connect(socket).await?;
    let (views, watch) = list::begin(&mut client, socket, Query::events(object)).await?;
    let mut printer = Printer::new(Kind::Events, arguments.output.clone(), output.colour());
    if arguments.watch {
        return printer.follow(views, watch, &client, output).await;
    }
    if views.is_empty() && matches!(arguments.output, None | Some(OutputFormat::Wide)) {
        output.note("No events found.");
        return Ok(());
    }
    output.write(&printer.list(&views, false)?)
}
