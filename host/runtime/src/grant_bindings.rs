//! To which content the operator's grants belong that name none by `sha256`.

use std::fmt::Debug;

use volhost_model::PluginName;

/// Knows which content was the first to use the grant of a plugin.
pub trait GrantBindings: Send + Sync + Debug {
    /// The SHA-256 of that content; none while no file has used the grant.
    fn bound(&self, plugin: &PluginName) -> Option<String>;
}

/// No grant is bound: for programs that load one file, which their user names.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBindings;

impl GrantBindings for NoBindings {
    fn bound(&self, _: &PluginName) -> Option<String> {
        None
    }
}
