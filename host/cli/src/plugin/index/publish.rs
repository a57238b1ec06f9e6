//! `volhost plugin index publish`.

use volhost_model::text::error_chain;
use volhost_registry::publish_document;

use super::super::registry;
use super::{INDEX_BYTES, INDEX_TYPE, folder};
use crate::arguments::IndexPublishArguments;
use crate::error::CliError;
use crate::output::Output;

/// Publishes the index of a folder, and prints the pinning reference.
pub(super) fn run(arguments: &IndexPublishArguments, output: &mut Output) -> Result<(), CliError> {
    let entries = folder::read(&arguments.index, output)?;
    let folder = arguments.index.display();
    if entries.is_empty() {
        return Err(CliError::Failed(format!("{folder} has no plugin; `volhost plugin index add` adds one")));
    }
    let content = serde_json::to_vec(&entries).map_err(|error| CliError::Encode(error.to_string()))?;
    if content.len() as u64 > INDEX_BYTES {
        return Err(CliError::Failed(format!("{folder} has more than {INDEX_BYTES} bytes of entries")));
    }
    let reference = &arguments.reference;
    let published = registry::within(&arguments.registry, reference, async |access| {
        let published = publish_document(access, reference, (INDEX_TYPE, &content), arguments.force).await;
        published.map_err(|error| CliError::Failed(error_chain(&error)))
    })?;
    output.line(&reference.pinned(published.digest).to_string())
}
