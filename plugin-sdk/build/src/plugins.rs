//! All steps in one call.

use std::path::PathBuf;

use crate::build::{self, BuildError};
use crate::encode::{self, EncodeError};
use crate::publish::{self, PublishError, Written};
use crate::shipped;
use crate::toolchain::{NoToolchain, Search};
use crate::workspace::{Workspace, WorkspaceError};

/// The crates to build, and the folder for the components.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Crate names; empty means the crate of `manifest`.
    pub crates: Vec<String>,
    /// A `Cargo.toml` of the workspace; none means the current folder's.
    pub manifest: Option<PathBuf>,
    /// The folder the components go to; none means `plugins` in cargo's target folder.
    pub out: Option<PathBuf>,
    /// How to find a toolchain.
    pub search: Search,
}

/// A component in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// The crate's name.
    pub name: String,
    /// The component.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: usize,
    /// Whether the file changed.
    pub written: Written,
}

/// The step that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The crates could not be found.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// No compiler for the target.
    #[error(transparent)]
    Toolchain(#[from] NoToolchain),
    /// Compiling failed.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A crate compiled, but is not a plugin.
    #[error("crate '{name}' can't become a component")]
    Encode {
        /// The crate.
        name: String,
        /// The reason.
        #[source]
        source: EncodeError,
    },
    /// The component could not be written.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

/// Builds every crate of `request` and writes the components. Nothing is written unless all crates
/// compile and encode.
///
/// # Errors
/// The first step that fails ends it.
pub fn build_plugins(request: &Request) -> Result<Vec<Plugin>, Error> {
    let manifest = request.manifest.as_deref();
    let workspace = Workspace::read(&request.search.cargo, manifest)?;
    let crates = workspace.select(&request.crates, manifest)?;
    let toolchain = request.search.find()?;
    let modules = build::compile(&toolchain, &crates, manifest, &workspace.target_dir.join("wasm"))?;

    let mut components = Vec::with_capacity(modules.len());
    for module in modules {
        let bytes =
            encode::component(&module.bytes).map_err(|source| Error::Encode { name: module.name.clone(), source })?;
        components.push((module.name, bytes));
    }

    let out = request.out.clone().unwrap_or_else(|| workspace.target_dir.join("plugins"));
    // First: a host that sees a new component looks it up.
    if let Some(list) = shipped::stage(&workspace, &components)? {
        list.put()?;
    }
    let mut plugins = Vec::with_capacity(components.len());
    for (name, bytes) in components {
        let (path, written) = publish::write(&out, &name, &bytes)?;
        plugins.push(Plugin { name, path, size: bytes.len(), written });
    }
    Ok(plugins)
}
