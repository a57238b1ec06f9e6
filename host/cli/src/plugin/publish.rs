//! `volhost plugin publish`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use volhost_registry::publish;
use volhost_registry::publish::PluginArtifact;

use super::file::{read_plugin, signature_of};
use super::{registry, surface};
use crate::arguments::PublishArguments;
use crate::error::CliError;
use crate::output::Output;
use volhost_model::text::error_chain;

/// Publishes, with the signature if there is one, and prints the pinning reference.
pub(super) fn run(arguments: &PublishArguments, output: &mut Output) -> Result<(), CliError> {
    let file = &arguments.file;
    let failed = |source| CliError::File { path: file.clone(), source };
    let component = read_plugin(file)?;
    let surface = surface::read(&component).map_err(|why| CliError::Failed(format!("{}: {why}", file.display())))?;
    let made = std::fs::metadata(file).and_then(|metadata| metadata.modified()).map_err(failed)?;
    let created = prost_types::Timestamp::from(made).to_string();
    let signature = signature_beside(file)?;
    if signature.is_none() {
        output.note(&format!("not signed: there is no {}", signature_of(file).display()));
    }
    let plugin = PluginArtifact {
        component: &component,
        exports: &surface.full_exports,
        imports: &surface.full_imports,
        created: &created,
        signature: signature.as_deref(),
    };
    let reference = &arguments.reference;
    let published = registry::within(&arguments.registry, reference, async |access| {
        let report = |what: &str| output.note(&format!("{reference}: {what}"));
        publish(access, reference, plugin, arguments.force, &report)
            .await
            .map_err(|error| CliError::Failed(error_chain(&error)))
    })?;
    output.line(&reference.pinned(published.digest).to_string())
}

fn signature_beside(file: &Path) -> Result<Option<Vec<u8>>, CliError> {
    /// More than the registry's side takes, so that it says what is wrong.
    const BOUND: u64 = 64 << 10;
    let path = signature_of(file);
    let mut signature = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(BOUND).read_to_end(&mut signature));
    match read {
        Ok(_) => Ok(Some(signature)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CliError::File { path, source }),
    }
}
