//! What a plugin says of itself.

use volhost_runtime::NodeFacts;

use super::identify;
use crate::test_node::TestNode;
use crate::verdict::{Verdict, fail};

/// P1: always the same answer.
pub(super) fn stable(test_node: &TestNode) -> Verdict {
    let loaded = test_node.plugin.info().clone();
    for node in [test_node.case.node(), NodeFacts::default(), test_node.case.node()] {
        let did = format!("describe on a node that is called {:?}", node.name);
        let said = test_node.describe(node).or_fail(&did)?;
        if said != loaded {
            let word = |info: &volhost_runtime::PluginInfo| {
                let flags = (info.accepts_mount_options, info.follows_its_source, info.read_only);
                format!("{} {} serving {:?} {flags:?}", info.name, info.version, info.sources)
            };
            return fail(did, format!("what it said when it was loaded: {}", word(&loaded)), word(&said));
        }
    }
    Ok(())
}

/// P10: describe reaches nothing but what the host knows.
pub(super) fn reaches_nothing(test_node: &TestNode) -> Verdict {
    let called = test_node.describe(test_node.case.node());
    identify::reached_nothing("describe", called.calls.first().map(|call| call.name.clone()))
}

/// P2: describe changes nothing.
pub(super) fn changes_nothing(test_node: &TestNode) -> Verdict {
    let called = test_node.describe(test_node.case.node());
    match called.calls.iter().find(|call| call.changes) {
        Some(call) => fail("describe", "no host call that may change something", call.name.clone()),
        None => called.or_fail("describe").map(|_| ()),
    }
}
