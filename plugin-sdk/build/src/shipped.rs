//! The list of a workspace's plugins that come with its host, by the SHA-256 of their components:
//! it decides whose file gets the host's built-in grants, so only the build writes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use sha2::{Digest, Sha256};

use crate::publish::{self, PublishError, Staged};
use crate::workspace::Workspace;

/// The list's file, in cargo's target folder: `target/debug/volhost` finds it there, whatever
/// folder the components go to.
pub const FILE: &str = "shipped-plugins.sha256";

/// Writes the list anew with these components, beside its place; none when the workspace marks no
/// plugin as shipped. Entries of other shipped plugins stay.
///
/// # Errors
/// When the file cannot be written.
pub fn stage(workspace: &Workspace, components: &[(String, Vec<u8>)]) -> Result<Option<Staged>, PublishError> {
    if !workspace.crates.iter().any(|one| one.shipped) {
        return Ok(None);
    }
    let before = fs::read_to_string(workspace.target_dir.join(FILE)).unwrap_or_default();
    publish::stage(&workspace.target_dir, FILE, list(workspace, &before, components).as_bytes()).map(Some)
}

/// The list's new text.
fn list(workspace: &Workspace, before: &str, components: &[(String, Vec<u8>)]) -> String {
    let is_shipped = |name: &str| workspace.crates.iter().any(|one| one.shipped && one.name == name);
    let old = before.lines().filter_map(|line| {
        let (digest, file) = line.split_once("  ")?;
        Some((file.strip_suffix(".wasm")?.to_owned(), digest.to_owned()))
    });
    let new = components.iter().map(|(name, bytes)| (name.clone(), digest(bytes)));
    let all: BTreeMap<String, String> = old.chain(new).filter(|(name, _)| is_shipped(name)).collect();
    all.iter().fold(String::new(), |mut text, (name, digest)| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{digest}  {name}.wasm");
        text
    })
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Crate;

    #[test]
    fn a_build_of_one_plugin_keeps_the_others_and_lists_nothing_that_is_not_shipped() {
        let one = |name: &str, shipped| Crate { name: name.into(), manifest: "".into(), cdylib: None, shipped };
        let workspace = Workspace {
            target_dir: "".into(),
            crates: vec![one("loop", true), one("local", true), one("fixture-loop", false)],
        };
        let (old, gone) = ("a".repeat(64), "b".repeat(64));
        let before = format!("{old}  local.wasm\n{old}  loop.wasm\n{gone}  gone.wasm\n");
        let built = [("loop".to_owned(), b"test".to_vec()), ("fixture-loop".to_owned(), b"other".to_vec())];
        let test = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        assert_eq!(list(&workspace, &before, &built), format!("{old}  local.wasm\n{test}  loop.wasm\n"));
    }
}
