//! Who a plugin says it is. For that it must run: in the sandbox that the daemon would use, without a grant,
//! against a kernel that exists only in memory.

use std::path::Path;
use std::sync::Arc;

use volhost_kernel::TwinKernel;
use volhost_runtime::{Compiler, GrantPolicy, Limits, LoadError, LoadProblem, Runtime, RuntimeConfig};

use super::super::error::chain;

/// What the plugin says of itself, as far as it could be asked.
#[derive(Debug, Default)]
pub(super) struct Identity {
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    pub(super) sources: Vec<String>,
    pub(super) sdk: Option<String>,
    /// Why volhost would not load it, or would not without a grant.
    pub(super) problem: Option<String>,
}

/// Asks. Whatever goes wrong is part of the answer: the rest of the inspection stands without it.
pub(super) fn ask(file: &Path) -> Identity {
    match load(file) {
        Ok(identity) => identity,
        Err(problem) => Identity { problem: Some(problem), ..Identity::default() },
    }
}

fn load(file: &Path) -> Result<Identity, String> {
    // Removed with everything in it when this returns.
    let cache = tempfile::tempdir()
        .map_err(|error| format!("it cannot be asked for its name: no temporary folder: {error}"))?;
    let program = std::env::current_exe().map_err(|error| format!("it cannot be asked for its name: {error}"))?;
    let config = RuntimeConfig {
        cache_dir: cache.path().to_path_buf(),
        limits: Limits::default(),
        compiler: Compiler { program, args: vec!["internal".into(), "compile-plugin".into()] },
        grants: GrantPolicy::builtin(),
    };
    let runtime = Runtime::new(config, Arc::new(TwinKernel::new())).map_err(|error| chain(&error))?;
    match runtime.load(file) {
        Ok(plugin) => {
            let info = plugin.info();
            Ok(Identity {
                name: Some(info.name.to_string()),
                version: Some(info.version.clone()),
                sources: info.sources.clone(),
                sdk: info.sdk.clone(),
                problem: None,
            })
        }
        Err(LoadError { problem, .. }) => Ok(Identity {
            name: match problem.as_ref() {
                LoadProblem::NotGranted { plugin, .. } => Some(plugin.to_string()),
                _ => None,
            },
            problem: Some(chain(&problem)),
            ..Identity::default()
        }),
    }
}
