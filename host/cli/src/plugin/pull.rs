//! `volhost plugin pull`.

use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use volhost_plugin_build::publish::{PublishError, Staged, Written, stage};
use volhost_registry::{Digest, PulledPlugin, pull};
use volhost_runtime::{ArtifactSignature, ArtifactSignatures, signature_files};

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
    let pulled = registry::within(&arguments.registry, reference, async |access| {
        let report = |what: &str| output.note(&format!("{reference}: {what}"));
        pull(access, reference, limit, &report).await.map_err(|error| CliError::Failed(error_chain(&error)))
    })?;
    let failed = |error: PublishError| CliError::Failed(error_chain(&error));
    let file = format!("{name}.wasm");
    let staged = stage(&arguments.out, &file, &pulled.component).map_err(failed)?;
    let [minisign, cosign_blob, cosign] = signature_files(&arguments.out.join(&file));
    put_or_remove(&minisign, pulled.signature.as_deref())?;
    put_or_remove(&cosign, artifact_signatures(&pulled)?.as_deref())?;
    // Not from the registry, but for this file if it was there before.
    if std::fs::read(arguments.out.join(&file)).is_ok_and(|present| present != pulled.component) {
        remove(&cosign_blob)?;
    }
    let (path, written) = staged.put().map_err(failed)?;
    let PulledPlugin { component, digest, .. } = &pulled;
    let unchanged = if written == Written::Unchanged { " (unchanged)" } else { "" };
    output.line(&format!("{}: {} bytes{unchanged}", path.display(), component.len()))?;
    output.line(&format!("  pinned:     {}", reference.pinned(digest.clone())))?;
    output.line(&format!("  sha256:     {}", Digest::of(component).hex()))?;
    output.line(&format!("  signature:  {}", signed_by(&pulled)))
}

fn signed_by(pulled: &PulledPlugin) -> &'static str {
    match (&pulled.signature, pulled.cosign.is_empty()) {
        (None, true) => "none",
        (Some(_), true) => "beside it",
        (None, false) => "beside it, of cosign",
        (Some(_), false) => "beside it, of minisign and of cosign",
    }
}

/// The signatures of cosign, with what they are for.
fn artifact_signatures(pulled: &PulledPlugin) -> Result<Option<Vec<u8>>, CliError> {
    if pulled.cosign.is_empty() {
        return Ok(None);
    }
    let signatures = pulled
        .cosign
        .iter()
        .map(|one| ArtifactSignature { payload: BASE64.encode(&one.payload), signature: one.signature.clone() });
    let file = ArtifactSignatures { manifest: BASE64.encode(&pulled.manifest), signatures: signatures.collect() };
    serde_json::to_vec_pretty(&file).map(Some).map_err(|error| CliError::Encode(error.to_string()))
}

/// Writes the signature that came with a plugin. That of another plugin would keep this one from
/// being loaded.
fn put_or_remove(path: &Path, signature: Option<&[u8]>) -> Result<(), CliError> {
    let (Some(signature), Some(folder), Some(name)) =
        (signature, path.parent(), path.file_name().and_then(|name| name.to_str()))
    else {
        return remove(path);
    };
    let failed = |error: PublishError| CliError::Failed(error_chain(&error));
    stage(folder, name, signature).and_then(Staged::put).map(drop).map_err(failed)
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
