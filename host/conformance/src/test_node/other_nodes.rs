//! Calls for other nodes, as a controller makes them, and calls that ask of those.

use std::sync::Arc;

use volhost_runtime::{Call, CallError, NodeFacts};

use super::TestNode;
use crate::lifecycle::Lifecycle;
use crate::verdict::CallResult;
use crate::watch::HostCallPlan;

impl TestNode {
    /// A call for the node of this name, of which nothing else is known.
    fn for_node<T>(&self, node: &str, ask: impl FnOnce(&Call) -> Result<T, CallError>) -> CallResult<T> {
        let node = Arc::new(NodeFacts { name: node.to_owned(), ..NodeFacts::default() });
        self.watched(HostCallPlan::Watch, None, |call| ask(&call.clone().with_node(node)))
    }

    /// `attach`, for this node. What it is attached as is that node's affair.
    pub(crate) fn attach_for(&self, node: &str, lifecycle: &Lifecycle) -> CallResult<String> {
        self.for_node(node, |call| self.plugin.attach(call, &lifecycle.spec))
    }

    /// `detach`, for this node.
    pub(crate) fn detach_for(&self, node: &str, lifecycle: &Lifecycle) -> CallResult {
        self.for_node(node, |call| self.plugin.detach(call, &lifecycle.name))
    }

    /// `are-attached` of one volume, for this node.
    pub(crate) fn is_attached_for(&self, node: &str, lifecycle: &Lifecycle) -> CallResult<bool> {
        self.for_node(node, |call| {
            let found = self.plugin.are_attached(call, std::slice::from_ref(&lifecycle.name))?;
            Ok(found.first().copied().unwrap_or_default())
        })
    }

    /// `other-nodes.attached-to`.
    pub(crate) fn attached_to(&self, lifecycle: &Lifecycle) -> CallResult<Option<String>> {
        self.watched(HostCallPlan::Watch, None, |call| self.plugin.attached_to(call, &lifecycle.name))
    }

    /// `other-nodes.detach-from`.
    pub(crate) fn detach_from(&self, lifecycle: &Lifecycle, node: &str, plan: HostCallPlan) -> CallResult {
        self.watched(plan, None, |call| self.plugin.detach_from(call, &lifecycle.name, node))
    }
}
