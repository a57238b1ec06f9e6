//! By which right a plugin serves a source.

use std::collections::BTreeMap;
use std::sync::Arc;

use volhost_model::PluginName;
use volhost_runtime::{GrantPolicy, SourceRight};

/// The right by which a plugin serves a source. A better one takes the source over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClaimRight {
    /// It was the only one that claimed the source.
    First,
    /// It comes with volhost.
    Shipped,
    /// The operator granted the source to it.
    Granted,
}

/// The grants and the record of owners: they decide which of the plugins in service serves a
/// source.
#[derive(Debug)]
pub(super) struct SourceRights {
    grants: Arc<GrantPolicy>,
    /// Recorded plugins, by source.
    owners: BTreeMap<String, String>,
}

impl SourceRights {
    /// Creates the rights from the grants and the recorded owners.
    pub(super) fn new(grants: Arc<GrantPolicy>, owners: BTreeMap<String, String>) -> Self {
        Self { grants, owners }
    }

    /// The right of a plugin to serve this source; none if it may not. `unrecorded` holds the
    /// owners that could not be written to the record.
    pub(super) fn of(
        &self,
        source: &str,
        plugin: &PluginName,
        unrecorded: &BTreeMap<String, PluginName>,
    ) -> Option<ClaimRight> {
        match self.grants.source_right(source, plugin) {
            SourceRight::Granted => Some(ClaimRight::Granted),
            SourceRight::Shipped => Some(ClaimRight::Shipped),
            SourceRight::Open => {
                let recorded = self.owners.get(source).map(String::as_str);
                let owner = recorded.or_else(|| unrecorded.get(source).map(PluginName::as_str));
                (owner == Some(plugin.as_str())).then_some(ClaimRight::First)
            }
            SourceRight::Reserved | SourceRight::GrantedToSeveral(_) => None,
        }
    }
}
