//! A volume that another node has: which node that is, and taking the volume away from a node that is out of service.
//!
//! Whether a pod uses the volume there only that node knows. So it is not taken from a node because it is wanted here: that node's host lets go of
//! it, or a person says that the node is out of service.

use tracing::warn;
use volhost_core::Operation;
use volhost_model::names::SpecName;
use volhost_model::view::EventKind;
use volhost_model::{Failure, FailureClass};
use volhost_runtime::{Call, Capability, Plugin};

use super::layout;
use super::volume_ops::VolumeOps;

impl VolumeOps {
    /// The node that has the volume, as far as the plugin can tell.
    pub(super) fn node_that_has(&self, operation: &Operation, call: &Call, plugin: &Plugin) -> Option<String> {
        if !plugin.exports(Capability::OtherNodes) {
            return None;
        }
        let answer = plugin.attached_to(call, layout::volume_name(&operation.plugin, &operation.volume));
        self.note_conduct(operation, call, answer.as_ref().err());
        answer.unwrap_or_else(|error| {
            let error = error.message();
            warn!(volume = %operation.volume, error, "which node has the volume could not be found out");
            None
        })
    }

    /// Takes the volume away from a node that is out of service. Whatever the end, nothing of it is attached to this node yet.
    pub(super) fn take_from(
        &self,
        operation: &Operation,
        call: &Call,
        plugin: &Plugin,
        node: &str,
    ) -> Result<(), Failure> {
        let done = plugin.detach_from(call, layout::volume_name(&operation.plugin, &operation.volume), node);
        self.note_conduct(operation, call, done.as_ref().err());
        done.map_err(|error| {
            let message = format!(
                "node {node} has the volume, and is out of service (nodes-out-of-service); it could not be taken away from there: {}",
                error.message()
            );
            Failure::new(FailureClass::Final, "AttachVolume.DetachFromNode", message)
        })?;
        let message = format!(
            "volume \"{}\" was taken away from node {node}, which is out of service (nodes-out-of-service)",
            operation.spec_name
        );
        call.sink().event(EventKind::Warning, "DetachedFromNode", &message);
        Ok(())
    }
}

/// What is said of a volume that another node has.
pub(super) fn multi_attach(volume: &SpecName, said: &str, node: Option<&str>) -> String {
    let way_out = node.map_or_else(String::new, |node| {
        format!(
            "; node {node} has it, and it is attached here once {node} has let go of it; if {node} is gone for good, name it in nodes-out-of-service"
        )
    });
    format!(
        "Multi-Attach error for volume \"{volume}\": Volume is already exclusively attached to one node and can't be attached to another: {said}{way_out}"
    )
}
