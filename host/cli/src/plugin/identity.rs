//! Who a plugin says it is. For that it must run: in the sandbox that the daemon would use when it
//! loads the plugin, without a grant. All that it can make there are detached mounts, which the
//! kernel discards with the sandbox.

use std::path::Path;
use std::sync::Arc;
use volhost_process::linux_kernel;

use volhost_runtime::{Compiler, GrantPolicy, Inspection, Limits, LoadError, Runtime, RuntimeConfig};

use super::super::error::chain;

/// What the plugin says of itself, as far as it could be asked.
#[derive(Debug, Default)]
pub(super) struct Identity {
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    pub(super) sources: Vec<String>,
    pub(super) sdk: Option<String>,
    /// The interfaces that its name is granted.
    pub(super) granted: Vec<String>,
    /// The interfaces that it imports and is not granted.
    pub(super) missing: Vec<String>,
    /// Why volhost would not load it, or would not without a grant.
    pub(super) problem: Option<String>,
}

/// Asks. Whatever goes wrong is part of the answer: the rest of the inspection stands without it.
/// Compiled plugins are kept in `cache_dir`; without one, they are removed again.
pub(super) fn ask(file: &Path, grants: GrantPolicy, cache_dir: Option<&Path>) -> Identity {
    match load(file, grants, cache_dir) {
        Ok(identity) => identity,
        Err(problem) => Identity { problem: Some(problem), ..Identity::default() },
    }
}

fn load(file: &Path, grants: GrantPolicy, cache_dir: Option<&Path>) -> Result<Identity, String> {
    // Removed with everything in it when this returns.
    let temporary = tempfile::tempdir()
        .map_err(|error| format!("it cannot be asked for its name: no temporary folder: {error}"))?;
    let program = std::env::current_exe().map_err(|error| format!("it cannot be asked for its name: {error}"))?;
    let config = RuntimeConfig {
        cache_dir: cache_dir.unwrap_or(temporary.path()).to_owned(),
        limits: Limits::default(),
        compiler: Compiler { program, args: vec!["internal".into(), "compile-plugin".into()] },
        grants,
    };
    let runtime = Runtime::new(config, Arc::new(linux_kernel())).map_err(|error| chain(&error))?;
    match runtime.inspect(file) {
        Ok(Inspection { info, granted, ungranted }) => Ok(Identity {
            name: Some(info.name.to_string()),
            version: Some(info.version),
            sources: info.sources,
            sdk: info.sdk,
            granted,
            missing: ungranted,
            // What was found out about it is not in the way of what would become of it.
            problem: runtime.load(file).err().map(|error| chain(&error.problem)),
        }),
        Err(LoadError { problem, .. }) => Ok(Identity { problem: Some(chain(&problem)), ..Identity::default() }),
    }
}
