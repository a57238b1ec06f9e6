//! The plugin crates of a workspace, and cargo's target folder.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

/// A cargo workspace, or a single crate, as far as building plugins needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Cargo's target folder: `CARGO_TARGET_DIR` or the configuration's, else `target`
    /// beside the lock file.
    pub target_dir: PathBuf,
    /// Every crate of the workspace, plugin or not.
    pub crates: Vec<Crate>,
}

/// One crate of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crate {
    /// The package's name, as in `cargo build -p NAME`.
    pub name: String,
    /// Its `Cargo.toml`.
    pub manifest: PathBuf,
    /// The library's name if cargo builds it as a `cdylib`, which is what links to a `.wasm` file.
    pub cdylib: Option<String>,
    /// Whether it is one of the plugins that come with the workspace's host:
    /// `package.metadata.volhost.shipped` in its `Cargo.toml`.
    pub shipped: bool,
}

/// The reasons for which a workspace could not be read, or lacks a requested crate.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// Cargo could not be started.
    #[error("could not start {}", cargo.display())]
    Start {
        /// The cargo that was tried.
        cargo: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Cargo found no workspace, or a broken one.
    #[error("cargo can't read the workspace: {message}")]
    Cargo {
        /// Cargo's own words.
        message: String,
    },
    /// Cargo's answer has another shape than the one every cargo gives.
    #[error("cargo described the workspace in a way this version does not understand")]
    Answer(#[source] serde_json::Error),
    /// The workspace has no crate of that name.
    #[error("there is no crate '{name}' in the workspace; it has: {}", present.join(", "))]
    NoSuchCrate {
        /// The requested name.
        name: String,
        /// The workspace's crates.
        present: Vec<String>,
    },
    /// The crate is a library for other Rust code, or a program.
    #[error(
        "crate '{name}' can't become a component: {} must say\n    [lib]\n    crate-type = [\"cdylib\", \"rlib\"]",
        manifest.display()
    )]
    NotAPlugin {
        /// The crate.
        name: String,
        /// Where to write it.
        manifest: PathBuf,
    },
    /// No crate was named, and the current folder is not a plugin's.
    #[error("name the plugin crates to build: {} is no crate of its own, or not a plugin", .0.display())]
    NothingToBuild(PathBuf),
}

impl Workspace {
    /// Asks `cargo` for the workspace around `manifest` (or around the current folder). Touches no
    /// file and no network.
    ///
    /// # Errors
    /// When cargo does not start, finds no valid manifest, or answers nonsense.
    pub fn read(cargo: &Path, manifest: Option<&Path>) -> Result<Self, WorkspaceError> {
        let mut command = Command::new(cargo);
        command.args(["metadata", "--no-deps", "--format-version", "1"]).stdin(Stdio::null());
        if let Some(manifest) = manifest {
            command.arg("--manifest-path").arg(manifest);
        }
        let output = command.output().map_err(|source| WorkspaceError::Start { cargo: cargo.to_owned(), source })?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("error: ").to_owned();
            return Err(WorkspaceError::Cargo { message });
        }
        Self::parse(&output.stdout)
    }

    /// Reads the answer of `cargo metadata --no-deps`.
    fn parse(json: &[u8]) -> Result<Self, WorkspaceError> {
        let metadata: Metadata = serde_json::from_slice(json).map_err(WorkspaceError::Answer)?;
        let crates = metadata.packages.into_iter().map(Package::into_crate).collect();
        Ok(Self { target_dir: metadata.target_directory, crates })
    }

    /// The crates called `names`, in that order. Without names: the crate of `manifest` (default:
    /// the `Cargo.toml` in the current folder), as a plugin author in the plugin's own folder means
    /// it.
    ///
    /// # Errors
    /// When a name is unknown, or a crate builds no `cdylib`.
    pub fn select(&self, names: &[String], manifest: Option<&Path>) -> Result<Vec<Crate>, WorkspaceError> {
        if names.is_empty() {
            return Ok(vec![self.crate_of(manifest)?]);
        }
        names.iter().map(|name| self.plugin(name)).collect()
    }

    fn plugin(&self, name: &str) -> Result<Crate, WorkspaceError> {
        let found = self.crates.iter().find(|one| one.name == name).ok_or_else(|| WorkspaceError::NoSuchCrate {
            name: name.to_owned(),
            present: self.crates.iter().map(|one| one.name.clone()).collect(),
        })?;
        if found.cdylib.is_none() {
            return Err(WorkspaceError::NotAPlugin { name: name.to_owned(), manifest: found.manifest.clone() });
        }
        Ok(found.clone())
    }

    fn crate_of(&self, manifest: Option<&Path>) -> Result<Crate, WorkspaceError> {
        let manifest = manifest.unwrap_or(Path::new("Cargo.toml"));
        let absolute = manifest.canonicalize().unwrap_or_else(|_| manifest.to_owned());
        match self.crates.iter().find(|one| one.manifest == absolute || one.manifest == manifest) {
            Some(found) => self.plugin(&found.name),
            None => Err(WorkspaceError::NothingToBuild(manifest.to_owned())),
        }
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
    /// The table `package.metadata`, of any content.
    #[serde(default)]
    metadata: serde_json::Value,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    crate_types: Vec<String>,
}

impl Package {
    fn into_crate(self) -> Crate {
        let is_library = |target: &Target| {
            target.crate_types.iter().any(|kind| kind == "cdylib") && !target.kind.iter().any(|kind| kind == "example")
        };
        let cdylib = self.targets.into_iter().find(is_library).map(|target| target.name);
        let shipped = self.metadata.pointer("/volhost/shipped").and_then(serde_json::Value::as_bool).unwrap_or(false);
        Crate { name: self.name, manifest: self.manifest_path, cdylib, shipped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Workspace {
        Workspace::parse(
            br#"{"target_directory": "/w/target", "packages": [
                {"name": "empty-dir", "manifest_path": "/w/empty-dir/Cargo.toml", "targets": [
                    {"name": "empty_dir", "kind": ["cdylib", "rlib"], "crate_types": ["cdylib", "rlib"]}]},
                {"name": "tool", "manifest_path": "/w/tool/Cargo.toml", "targets": [
                    {"name": "tool", "kind": ["bin"], "crate_types": ["bin"]}]}]}"#,
        )
        .unwrap()
    }

    #[test]
    fn a_plugin_crate_is_found_by_its_name_with_dashes() {
        let found = workspace().select(&["empty-dir".to_owned()], None).unwrap();
        assert_eq!(found[0].cdylib.as_deref(), Some("empty_dir"));
    }

    #[test]
    fn the_error_for_an_unknown_crate_lists_the_existing_ones() {
        let error = workspace().select(&["empty_dir".to_owned()], None).unwrap_err().to_string();
        assert!(error.contains("no crate 'empty_dir'") && error.contains("empty-dir, tool"), "{error}");
    }

    #[test]
    fn the_error_for_a_crate_without_cdylib_has_the_lines_to_write() {
        let error = workspace().select(&["tool".to_owned()], None).unwrap_err().to_string();
        assert!(error.contains("crate-type = [\"cdylib\"") && error.contains("/w/tool/Cargo.toml"), "{error}");
    }

    #[test]
    fn without_names_the_manifest_decides() {
        let found = workspace().select(&[], Some(Path::new("/w/empty-dir/Cargo.toml"))).unwrap();
        assert_eq!(found[0].name, "empty-dir");
        let error = workspace().select(&[], Some(Path::new("/w/Cargo.toml"))).unwrap_err();
        assert!(matches!(error, WorkspaceError::NothingToBuild(_)), "{error}");
    }
}
