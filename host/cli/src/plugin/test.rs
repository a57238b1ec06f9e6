//! `volhost plugin test`.

use std::path::{Path, PathBuf};
use std::process::Command;

use volhost_plugin_build::Request;
use volhost_plugin_build::toolchain::Search;

use super::build::build;
use crate::arguments::TestArguments;
use crate::conformance::{self, ConformanceArguments};
use crate::error::CliError;
use crate::output::Output;

/// The case file of a crate.
pub(super) const CASES: &str = "conformance.yaml";

/// Runs the crate's own tests, builds it, and runs the conformance suite. Stops at the first
/// failure.
pub(super) fn run(arguments: &TestArguments, output: &mut Output) -> Result<(), CliError> {
    let search = Search::default();
    let tested = Command::new(&search.cargo)
        .arg("test")
        .status()
        .map_err(|source| CliError::File { path: search.cargo.clone(), source })?;
    if !tested.success() {
        return Err(CliError::Failed(format!("the crate's own tests failed ({tested})")));
    }
    let request = Request { crates: Vec::new(), manifest: None, out: None, search };
    let Some(plugin) = build(&request)?.into_iter().next() else {
        return Err(CliError::Failed("nothing was built".to_owned()));
    };
    let config = arguments.config.clone().or_else(|| Some(PathBuf::from(CASES)).filter(|file| Path::exists(file)));
    conformance::run(&ConformanceArguments::of(plugin.path, config), output)
}
