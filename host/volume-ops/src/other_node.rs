//! A volume that another node has: which node it is, and detaching the volume from a node that is
//! out of service.
//!
//! Only that node knows whether a pod uses the volume there. So a volume is not detached from a
//! node because a pod wants it here: that node's host detaches it, or an operator declares the node
//! out of service.

use std::collections::BTreeSet;

use tracing::warn;
use volhost_core::Operation;
use volhost_model::names::SpecName;
use volhost_model::view::EventKind;
use volhost_model::{Failure, FailureClass};
use volhost_runtime::{Call, Capability, Plugin};

use super::layout;
use super::plugin_calls::PluginCalls;

/// The nodes that an operator declared out of service, by the storage's names for them.
#[derive(Debug)]
pub(super) struct OtherNodes {
    plugins: PluginCalls,
    out_of_service: BTreeSet<String>,
}

impl OtherNodes {
    pub(super) fn new(plugins: PluginCalls, out_of_service: BTreeSet<String>) -> Self {
        Self { plugins, out_of_service }
    }

    pub(super) fn is_out_of_service(&self, node: &str) -> bool {
        self.out_of_service.contains(node)
    }

    /// Returns the node that the volume is attached to, as far as the plugin can tell.
    pub(super) fn find(&self, operation: &Operation, call: &Call, plugin: &Plugin) -> Option<String> {
        if !plugin.exports(Capability::OtherNodes) {
            return None;
        }
        let answer = plugin.attached_to(call, layout::volume_name(&operation.plugin, &operation.volume));
        self.plugins.note(operation, call, answer.as_ref().err());
        answer.unwrap_or_else(|error| {
            let error = error.message();
            warn!(volume = %operation.volume, error, "the node that has the volume could not be found out");
            None
        })
    }

    /// Detaches the volume from a node that is out of service. However it ends, nothing of the
    /// volume is attached to this node yet.
    pub(super) fn detach_from(
        &self,
        operation: &Operation,
        call: &Call,
        plugin: &Plugin,
        node: &str,
    ) -> Result<(), Failure> {
        let done = plugin.detach_from(call, layout::volume_name(&operation.plugin, &operation.volume), node);
        self.plugins.note(operation, call, done.as_ref().err());
        done.map_err(|error| {
            let message = format!(
                "node {node} has the volume, and is out of service (nodes-out-of-service); it could not be detached from there: {}",
                error.message()
            );
            Failure::new(FailureClass::Final, "AttachVolume.DetachFromNode", message)
        })?;
        let message = format!(
            "volume \"{}\" was detached from node {node}, which is out of service (nodes-out-of-service)",
            operation.spec_name
        );
        call.sink().event(EventKind::Warning, "DetachedFromNode", &message);
        Ok(())
    }
}

/// Returns the message for a volume that another node has.
pub(super) fn multi_attach(volume: &SpecName, said: &str, node: Option<&str>) -> String {
    let way_out = node.map_or_else(String::new, |node| {
        format!(
            "; node {node} has it, and it is attached here once {node} has detached it; if {node} is gone for good, name it in nodes-out-of-service"
        )
    });
    format!(
        "Multi-Attach error for volume \"{volume}\": Volume is already exclusively attached to one node and can't be attached to another: {said}{way_out}"
    )
}
