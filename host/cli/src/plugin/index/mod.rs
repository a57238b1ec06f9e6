//! An index of plugins, for those who look for one: a folder with a file for each plugin, which may
//! be a git repository, or an artifact in an OCI registry.
//!
//! An index is no authority: what a plugin may do is what the operator grants, and whose it is shows
//! its signature. Entries name plugins by digest, so that what was looked at is what is pulled.

mod add;
mod entry;
mod folder;
mod info;
mod publish;
mod search;

use std::path::Path;

use volhost_model::text::error_chain;
use volhost_registry::{Reference, pull_document};

use super::registry;
use crate::arguments::{IndexCommand, IndexSource, RegistryArguments};
use crate::error::CliError;
use crate::output::Output;
use entry::IndexEntry;

/// The type of an index in a registry.
const INDEX_TYPE: &str = "application/vnd.volhost.plugin-index.v1+json";
/// The largest index, in bytes: some ten thousand plugins.
const INDEX_BYTES: u64 = 16 << 20;

pub(super) use info::run as info;
pub(super) use search::run as search;

/// `plugin index`.
pub(super) fn run(command: &IndexCommand, output: &mut Output) -> Result<(), CliError> {
    match command {
        IndexCommand::Add(arguments) => add::run(arguments, output),
        IndexCommand::Publish(arguments) => publish::run(arguments, output),
    }
}

/// Returns the entries of an index, by name. One that cannot be used is named on standard error, and
/// left out.
///
/// # Errors
/// When the index itself cannot be read.
fn read(source: &IndexSource, access: &RegistryArguments, output: &mut Output) -> Result<Vec<IndexEntry>, CliError> {
    let folder = Path::new(&source.index);
    if folder.is_dir() {
        return folder::read(folder, output);
    }
    let text = source.index.strip_prefix("oci://").unwrap_or(&source.index);
    let reference: Reference = text.parse().map_err(|error| {
        CliError::Usage(format!("--index {}: no folder, and no reference of a registry: {error}", source.index))
    })?;
    let pulled = registry::within(access, &reference, async |access| {
        let pulled = pull_document(access, &reference, INDEX_TYPE, INDEX_BYTES).await;
        pulled.map_err(|error| CliError::Failed(error_chain(&error)))
    })?;
    let texts: Vec<serde_json::Value> = serde_json::from_slice(&pulled)
        .map_err(|error| CliError::Failed(format!("{reference}: it is no list of plugins: {error}")))?;
    let mut entries = Vec::new();
    for (number, text) in texts.into_iter().enumerate() {
        match IndexEntry::from_json(text) {
            Ok(entry) => entries.push(entry),
            Err(why) => output.note(&format!("{reference}: entry {number} is left out: {why}")),
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}
