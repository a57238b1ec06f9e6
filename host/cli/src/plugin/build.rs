//! `volhost plugin build`.

use std::path::Path;

use volhost_plugin_build::publish::Written;
use volhost_plugin_build::toolchain::Search;
use volhost_plugin_build::{Plugin, Request, build_plugins};

use super::surface;
use crate::arguments::BuildArguments;
use crate::error::CliError;
use crate::output::Output;
use volhost_model::text::error_chain;

/// Builds, and prints each component's size, exports and imports.
pub(super) fn run(arguments: &BuildArguments, output: &mut Output) -> Result<(), CliError> {
    let request = Request {
        crates: arguments.crates.clone(),
        manifest: arguments.manifest_path.clone(),
        out: arguments.out.clone(),
        search: Search::default(),
    };
    for plugin in build(&request)? {
        let unchanged = if plugin.written == Written::Unchanged { " (unchanged)" } else { "" };
        output.line(&format!("{}: {} bytes{unchanged}", plugin.path.display(), plugin.size))?;
        let (imports, exports) = surface_of(&plugin.path)?;
        output.line(&format!("  exports:      {exports}"))?;
        output.line(&format!("  imports:      {imports}"))?;
    }
    Ok(())
}

/// Builds the crates of `request`. Cargo's output goes to standard error.
///
/// # Errors
/// The build's.
pub(super) fn build(request: &Request) -> Result<Vec<Plugin>, CliError> {
    build_plugins(request).map_err(|error| CliError::Failed(error_chain(&error)))
}

fn surface_of(file: &Path) -> Result<(String, String), CliError> {
    let wasm = std::fs::read(file).map_err(|source| CliError::File { path: file.to_owned(), source })?;
    let surface = surface::read(&wasm).map_err(|why| CliError::Failed(format!("{}: {why}", file.display())))?;
    Ok((surface.imports.join(", "), surface.exports.join(", ")))
}
