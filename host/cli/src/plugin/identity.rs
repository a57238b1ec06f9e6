//! A plugin's own description. For that it must run, in the sandbox in which the daemon would load
//! it, without a grant. All that it can create there are detached mounts, which the kernel discards
//! with the sandbox.

use std::io;
use std::path::Path;
use std::sync::Arc;
use volhost_process::linux_kernel;

use super::setting::SettingView;
use crate::compiled::CompiledPlugins;
use crate::error::CliError;
use thiserror::Error;
use volhost_model::text::error_chain;
use volhost_runtime::{Compiler, GrantPolicy, Inspection, Limits, LoadError, Runtime, RuntimeConfig, RuntimeError};

/// The plugin's description of itself, as far as it could be asked.
#[derive(Debug, Default)]
pub(super) struct PluginDescription {
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    pub(super) sources: Vec<String>,
    pub(super) sdk: Option<String>,
    /// The interfaces that its name is granted.
    pub(super) granted: Vec<String>,
    /// The interfaces that it imports and is not granted.
    pub(super) missing: Vec<String>,
    /// The values that the operator may give it, and gives.
    pub(super) settings: Vec<SettingView>,
    /// Why volhost would not load it, or would not without a grant.
    pub(super) problem: Option<String>,
}

/// Why the plugin could not be asked.
#[derive(Debug, Error)]
enum AskError {
    /// There is no folder for compiled code.
    #[error("it cannot be asked for its name: no temporary folder: {0}")]
    Folder(#[source] CliError),
    /// The path of this program, which compiles, is unknown.
    #[error("it cannot be asked for its name: {0}")]
    Program(#[source] io::Error),
    /// The sandbox cannot be set up.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

/// Asks the plugin. A failure is part of the answer: the rest of the inspection does not need it.
/// Compiled plugins are kept in `cache_dir`, or in the user's folder for them.
pub(super) fn ask(file: &Path, grants: GrantPolicy, cache_dir: Option<&Path>) -> PluginDescription {
    load(file, grants, cache_dir).unwrap_or_else(|error| PluginDescription {
        problem: Some(error_chain(&error)),
        ..PluginDescription::default()
    })
}

fn load(file: &Path, grants: GrantPolicy, cache_dir: Option<&Path>) -> Result<PluginDescription, AskError> {
    let compiled = CompiledPlugins::open(cache_dir).map_err(AskError::Folder)?;
    let program = std::env::current_exe().map_err(AskError::Program)?;
    let config = RuntimeConfig {
        cache_dir: compiled.path().to_owned(),
        limits: Limits::default(),
        compiler: Compiler { program, args: vec!["internal".into(), "compile-plugin".into()] },
        grants,
    };
    let runtime = Runtime::new(config, Arc::new(linux_kernel()))?;
    match runtime.inspect(file) {
        Ok(Inspection { info, granted, ungranted, values }) => Ok(PluginDescription {
            settings: info
                .settings
                .iter()
                .map(|setting| SettingView::new(setting, values.get(&setting.name)))
                .collect(),
            name: Some(info.name.to_string()),
            version: Some(info.version),
            sources: info.sources,
            sdk: info.sdk,
            granted,
            missing: ungranted,
            // Its description is known; this is whether it would be loaded.
            problem: runtime.load(file).err().map(|error| error_chain(&error.problem)),
        }),
        Err(LoadError { problem, .. }) => {
            Ok(PluginDescription { problem: Some(error_chain(&problem)), ..PluginDescription::default() })
        }
    }
}
