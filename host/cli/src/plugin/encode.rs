//! `volhost plugin encode`.

use std::fs;
use std::path::Path;

use volhost_plugin_build::foreign;
use volhost_plugin_build::publish::{self, Written};

use super::surface;
use crate::arguments::EncodeArguments;
use crate::error::CliError;
use crate::output::Output;
use volhost_model::text::error_chain;

/// Reads, encodes, writes atomically, and prints the component's size, exports and imports.
pub(super) fn run(arguments: &EncodeArguments, output: &mut Output) -> Result<(), CliError> {
    let EncodeArguments { module: path, wit, world, out } = arguments;
    let (folder, name) = place(out)?;
    let module = fs::read(path).map_err(|source| CliError::File { path: path.clone(), source })?;
    let component = foreign::component(&module, wit, world.as_deref())
        .map_err(|error| CliError::Failed(format!("{}: {}", path.display(), error_chain(&error))))?;
    let surface = surface::read(&component).map_err(|why| CliError::Failed(format!("{}: {why}", path.display())))?;
    let (written, whether) =
        publish::write(folder, name, &component).map_err(|error| CliError::Failed(error_chain(&error)))?;
    let unchanged = if whether == Written::Unchanged { " (unchanged)" } else { "" };
    output.line(&format!("{}: {} bytes{unchanged}", written.display(), component.len()))?;
    output.line(&format!("  exports:      {}", surface.exports.join(", ")))?;
    output.line(&format!("  imports:      {}", surface.imports.join(", ")))
}

/// The folder and the name without its ending.
fn place(out: &Path) -> Result<(&Path, &str), CliError> {
    let name = out.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".wasm"));
    let name = name
        .filter(|name| !name.is_empty())
        .ok_or_else(|| CliError::Usage(format!("--out {}: a component's name ends in .wasm", out.display())))?;
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((folder, name))
}
