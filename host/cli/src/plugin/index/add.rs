//! `volhost plugin index add`.

use volhost_model::names::PluginName;

use super::super::file::read_plugin;
use super::super::{identity, surface};
use super::entry::IndexEntry;
use super::folder;
use crate::arguments::IndexAddArguments;
use crate::error::CliError;
use crate::output::Output;

/// Writes what the plugin says of itself, and where it is, into the index.
pub(super) fn run(arguments: &IndexAddArguments, output: &mut Output) -> Result<(), CliError> {
    let file = &arguments.file;
    let failed = |why: String| CliError::Failed(format!("{}: {why}", file.display()));
    let component = read_plugin(file)?;
    let surface = surface::read(&component).map_err(|why| failed(why.to_string()))?;
    let described = identity::ask(file, volhost_config::grants(None)?, None);
    let (Some(name), Some(version)) = (described.name, described.version) else {
        return Err(failed(described.problem.unwrap_or_else(|| "it does not say its name".to_owned())));
    };
    let entry = IndexEntry {
        name,
        version,
        description: arguments.description.clone(),
        sources: described.sources,
        interfaces: surface.imports,
        contract: surface.contract.unwrap_or_default(),
        reference: arguments.reference.to_string(),
    };
    entry.check().map_err(|why| CliError::Usage(why.to_string()))?;
    let name = PluginName::new(&entry.name).map_err(|why| failed(why.to_string()))?;
    let written = folder::write(&arguments.index, &name, &entry)?;
    output.line(&written.display().to_string())
}
