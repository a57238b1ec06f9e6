//! Two volumes of different storage on one node.

use std::sync::Arc;

use volhost_model::Pod;

use super::data;
use crate::lifecycle::{Lifecycle, LifecycleStep};
use crate::look::{NodeSnapshot, TargetView};
use crate::test_node::TestNode;
use crate::verdict::{Verdict, fail};

/// The volume of the case file and its `other`, which is up.
struct TwoVolumes {
    first: Lifecycle,
    first_pod: Arc<Pod>,
    other: Lifecycle,
    other_pod: Arc<Pod>,
    /// The node while only the other volume is up.
    node: NodeSnapshot,
    /// What the other volume's pod sees.
    seen: Option<TargetView>,
}

impl TwoVolumes {
    /// Brings the other volume up. The first one was up before, so its storage exists.
    fn new(test_node: &TestNode, first: Lifecycle, other: Lifecycle) -> Verdict<Self> {
        let (first_pod, other_pod) = (test_node.pod("a")?, test_node.pod("b")?);
        test_node.bring_up(&first, &first_pod)?;
        test_node.bring_down(&first, &first_pod)?;
        test_node.bring_up(&other, &other_pod)?;
        let (node, seen) = (test_node.snapshot()?, seen(test_node, &other, &other_pod)?);
        Ok(Self { first, first_pod, other, other_pod, node, seen })
    }

    fn bring_first_up(&self, test_node: &TestNode) -> Verdict {
        test_node.bring_up(&self.first, &self.first_pod)
    }

    /// The other volume is as before.
    fn check_other(&self, test_node: &TestNode, did: &str) -> Verdict {
        match (&self.seen, seen(test_node, &self.other, &self.other_pod)?) {
            (Some(before), Some(now)) => match before.difference(&now) {
                Some(difference) => fail(did, "the other volume as before", difference),
                None => Ok(()),
            },
            (None, None) => Ok(()),
            _ => fail(did, "the other volume is published", "it is not"),
        }
    }

    /// Brings the first volume down; the node has the other one as before.
    fn bring_first_down(&self, test_node: &TestNode) -> Verdict {
        test_node.bring_down(&self.first, &self.first_pod)?;
        let did = "bringing one of two volumes down";
        // The storage may have the volume's data where the suite looks for what is left.
        let now = test_node.snapshot()?;
        if let Some(what) = self.node.left_over(&now, &now).or_else(|| self.node.missing_units(&now)) {
            return fail(did, "the node as with the other volume alone", what);
        }
        self.check_other(test_node, did)
    }

    fn bring_other_down(&self, test_node: &TestNode) -> Verdict {
        test_node.bring_down(&self.other, &self.other_pod)
    }

    /// Nothing of what the first volume's pod wrote is in the other one.
    fn check_not_in_other(&self, test_node: &TestNode, did: &str) -> Verdict {
        match data::is_there(test_node, &self.other, &self.other_pod) {
            true => fail(did, "it is not in the other one", "it is there"),
            false => Ok(()),
        }
    }
}

/// What a pod sees of a volume; none for a device.
fn seen(test_node: &TestNode, lifecycle: &Lifecycle, pod: &Pod) -> Verdict<Option<TargetView>> {
    Ok(test_node.target(lifecycle, LifecycleStep::Publish, pod)?.map(|(found, _)| found))
}

/// N7: what a pod writes into one is not in the other, and each goes alone.
pub(super) fn stay_apart(test_node: &TestNode) -> Verdict {
    let other = test_node.lifecycle_of(test_node.other()?)?;
    let two = TwoVolumes::new(test_node, test_node.lifecycle()?, other)?;
    two.bring_first_up(test_node)?;
    if data::writable(test_node) {
        data::write(test_node, &two.first, &two.first_pod)
            .or_else(|error| fail("writing a file into the volume", "ok", data::not_written(&error)))?;
        let did = "writing a file into one of two volumes";
        two.check_not_in_other(test_node, did)?;
        two.check_other(test_node, did)?;
    }
    two.bring_first_down(test_node)?;
    two.bring_other_down(test_node)?;
    // The storage may have it only now.
    test_node.bring_up(&two.other, &two.other_pod)?;
    two.check_not_in_other(test_node, "writing a file into one of two volumes, and bringing the other one up again")?;
    two.bring_other_down(test_node)
}

/// N7: the two have devices of their own, and each goes alone.
pub(super) fn devices_stay_apart(test_node: &TestNode) -> Verdict {
    let first = test_node.block_lifecycle()?;
    let other = test_node.block_lifecycle_of(test_node.other()?)?;
    let two = TwoVolumes::new(test_node, first, other)?;
    two.bring_first_up(test_node)?;
    two.bring_first_down(test_node)?;
    two.bring_other_down(test_node)
}
