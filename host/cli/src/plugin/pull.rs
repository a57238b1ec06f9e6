//! `volhost plugin pull`.

use std::io;
use std::path::Path;

use volhost_plugin_build::publish::{Written, stage};
use volhost_registry::{Digest, PulledPlugin, pull};

use super::file::signature_of;
use super::registry;
use crate::arguments::PullArguments;
use crate::error::CliError;
use crate::format::printable;
use crate::output::Output;
use volhost_model::text::error_chain;

/// Pulls into a folder that a running daemon may watch: the signature first, so that the plugin is
/// never seen without it.
pub(super) fn run(arguments: &PullArguments, output: &mut Output) -> Result<(), CliError> {
    let reference = &arguments.reference;
    let name = arguments.name.as_deref().unwrap_or_else(|| reference.short_name());
    check_name(name)?;
    let limit = volhost_runtime::Limits::default().file_bytes;
    let PulledPlugin { component, digest, signature } =
        registry::within(&arguments.registry, reference, async |access| {
            let report = |what: &str| output.note(&format!("{reference}: {what}"));
            pull(access, reference, limit, &report).await.map_err(|error| CliError::Failed(error_chain(&error)))
        })?;
    let failed = |error: &dyn std::error::Error| CliError::Failed(error_chain(error));
    let write = |name: &str, content: &[u8]| stage(&arguments.out, name, content).map_err(|error| failed(&error));
    let file = format!("{name}.wasm");
    let staged = write(&file, &component)?;
    match &signature {
        Some(signature) => {
            let signature = write(&format!("{file}.minisig"), signature)?;
            signature.put().map_err(|error| failed(&error))?;
        }
        // That of another plugin would keep this one from being loaded.
        None => remove(&signature_of(&arguments.out.join(&file)))?,
    }
    let (path, written) = staged.put().map_err(|error| failed(&error))?;
    let unchanged = if written == Written::Unchanged { " (unchanged)" } else { "" };
    output.line(&format!("{}: {} bytes{unchanged}", path.display(), component.len()))?;
    output.line(&format!("  pinned:     {}", reference.pinned(digest)))?;
    output.line(&format!("  sha256:     {}", Digest::of(&component).hex()))?;
    output.line(&format!("  signature:  {}", if signature.is_some() { "beside it" } else { "none" }))
}

/// The name of a plugin's file in the folder.
fn check_name(name: &str) -> Result<(), CliError> {
    let plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(CliError::Usage(format!(
            "'{}' is no name for a plugin's file: letters, digits, . _ -, and no . first; --name gives another",
            printable(name)
        )));
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), CliError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(CliError::File { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_folder_and_no_other_place() {
        for good in ["archive", "a.b-c_1"] {
            check_name(good).unwrap();
        }
        for wrong in ["", ".", "..", ".hidden", "a/b", "/etc/x", "a\n"] {
            assert!(check_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
