//! The parsed contract.

use std::path::{Path, PathBuf};

use thiserror::Error;
use wit_component::WitPrinter;
use wit_parser::{Interface, PackageId, Resolve, World};

/// The world that a host is built for: every interface that a plugin may export. It grows with each
/// capability, and no plugin targets it.
pub const HOST_WORLD: &str = "every-capability";

/// The reasons for which it cannot be read or printed.
#[derive(Debug, Error)]
pub enum ContractError {
    /// It is not valid WIT.
    #[error("{path} is not a contract: {words}")]
    Parse {
        /// The folder or file.
        path: PathBuf,
        /// The parser's words, with the place.
        words: String,
    },
    /// It cannot be printed.
    #[error("the contract cannot be printed: {0}")]
    Print(String),
}

/// A WIT package, with its dependencies.
pub struct Contract {
    pub(crate) resolve: Resolve,
    package: PackageId,
}

impl Contract {
    /// Reads a folder of WIT files, or one file.
    ///
    /// # Errors
    /// [`ContractError::Parse`].
    pub fn read(path: &Path) -> Result<Self, ContractError> {
        let failed = |error| ContractError::Parse { path: path.to_owned(), words: format!("{error:#}") };
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_path(path).map_err(failed)?;
        Ok(Self { resolve, package })
    }

    /// Reads WIT from text; errors use `name` for it.
    ///
    /// # Errors
    /// [`ContractError::Parse`].
    pub fn parse(name: &str, text: &str) -> Result<Self, ContractError> {
        let failed = |error| ContractError::Parse { path: name.into(), words: format!("{error:#}") };
        let mut resolve = Resolve::default();
        let package = resolve.push_str(name, text).map_err(failed)?;
        Ok(Self { resolve, package })
    }

    /// Its name, with the version: `volhost:plugin@0.1.0`.
    pub fn name(&self) -> String {
        self.resolve.packages.get(self.package).map(|package| package.name.to_string()).unwrap_or_default()
    }

    /// The whole of it as one WIT file, without its documentation: the record of a release.
    ///
    /// # Errors
    /// [`ContractError::Print`].
    pub fn text(&self) -> Result<String, ContractError> {
        let mut printer = WitPrinter::default();
        printer.emit_docs(false);
        printer.print(&self.resolve, self.package, &[]).map_err(|error| ContractError::Print(format!("{error:#}")))?;
        Ok(printer.output.to_string())
    }

    /// Its interfaces, in the order of their names.
    pub fn interfaces(&self) -> Vec<(&str, &Interface)> {
        let package = self.resolve.packages.get(self.package);
        let all = package.into_iter().flat_map(|package| &package.interfaces);
        let mut found: Vec<_> =
            all.filter_map(|(name, id)| Some((name.as_str(), self.resolve.interfaces.get(*id)?))).collect();
        found.sort_by_key(|(name, _)| *name);
        found
    }

    /// Its worlds, in the order of their names.
    pub fn worlds(&self) -> Vec<(&str, &World)> {
        let package = self.resolve.packages.get(self.package);
        let all = package.into_iter().flat_map(|package| &package.worlds);
        let mut found: Vec<_> =
            all.filter_map(|(name, id)| Some((name.as_str(), self.resolve.worlds.get(*id)?))).collect();
        found.sort_by_key(|(name, _)| *name);
        found
    }

    /// Whether plugins export this interface, rather than import it.
    pub fn is_exported(&self, interface: &str) -> bool {
        self.worlds().iter().any(|(_, world)| self.names(world.exports.keys()).iter().any(|name| name == interface))
    }

    /// The short names of a world's interfaces.
    pub(crate) fn names<'a>(&self, keys: impl Iterator<Item = &'a wit_parser::WorldKey>) -> Vec<String> {
        let short = |full: String| {
            let short = full.rsplit('/').next().and_then(|name| name.split('@').next()).map(str::to_owned);
            short.unwrap_or(full)
        };
        keys.map(|key| short(self.resolve.name_world_key(key))).collect()
    }
}
