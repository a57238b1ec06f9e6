//! What a node is to have while the VolumePlugin of one of its plugins cannot be written. Pure.

use std::collections::BTreeSet;

use volhost_cluster_client::plugins::{AssignedPlugin, NodePlugins};

/// The plugins of a node, from what was decided for it: those whose VolumePlugin could not be
/// written stay as they are on the node. None if nothing is to be written to the node now.
pub(super) fn assignable(
    decided: &[AssignedPlugin],
    node: &NodePlugins,
    unwritten: &BTreeSet<&str>,
) -> Option<Vec<AssignedPlugin>> {
    let is_unwritten = |name: &str| unwritten.contains(name);
    // A first list without a plugin that the node has would remove it there.
    let has_one = node.status.plugins.iter().any(|report| is_unwritten(&report.name));
    if node.spec.plugins.is_none() && has_one {
        return None;
    }
    let kept = node.spec.plugins.iter().flatten().filter(|plugin| is_unwritten(&plugin.name));
    let decided = decided.iter().filter(|plugin| !is_unwritten(&plugin.name));
    let mut list: Vec<AssignedPlugin> = decided.chain(kept).cloned().collect();
    list.sort_by(|one, other| one.name.cmp(&other.name));
    (node.spec.plugins.as_ref() != Some(&list)).then_some(list)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn assigned(name: &str, digest: &str) -> Value {
        json!({
            "name": name, "revision": digest, "plugin": format!("example.com/{name}"), "image": "r.example/a",
            "digest": digest, "since": "2026-01-01T00:00:00Z",
        })
    }

    fn list(plugins: &[(&str, &str)]) -> Vec<AssignedPlugin> {
        plugins.iter().map(|(name, digest)| serde_json::from_value(assigned(name, digest)).unwrap()).collect()
    }

    fn node(plugins: Option<&[(&str, &str)]>, reported: &[&str]) -> NodePlugins {
        let reports: Vec<Value> = reported.iter().map(|name| json!({ "name": name })).collect();
        let mut node = NodePlugins::default();
        node.spec.plugins = plugins.map(list);
        node.status.plugins = serde_json::from_value(json!(reports)).unwrap();
        node
    }

    #[test]
    fn a_plugin_that_cannot_be_written_stays_as_it_is_and_the_others_change() {
        let unwritten = BTreeSet::from(["b"]);
        let decided = list(&[("a", "2"), ("b", "2"), ("c", "2")]);
        let has = node(Some(&[("a", "1"), ("b", "1")]), &["a", "b"]);
        assert_eq!(assignable(&decided, &has, &unwritten), Some(list(&[("a", "2"), ("b", "1"), ("c", "2")])));
        // Neither is it removed.
        assert_eq!(assignable(&list(&[("a", "2")]), &has, &unwritten), Some(list(&[("a", "2"), ("b", "1")])));
        // Nor does it come.
        let fresh = node(None, &[]);
        assert_eq!(assignable(&decided, &fresh, &unwritten), Some(list(&[("a", "2"), ("c", "2")])));
        assert_eq!(assignable(&decided, &fresh, &BTreeSet::new()), Some(decided));
    }

    #[test]
    fn nothing_is_written_where_nothing_else_changes() {
        let unwritten = BTreeSet::from(["b"]);
        let has = node(Some(&[("b", "1")]), &["b"]);
        assert_eq!(assignable(&list(&[("b", "2")]), &has, &unwritten), None);
    }

    #[test]
    fn a_node_without_a_list_keeps_a_plugin_that_cannot_be_written() {
        let unwritten = BTreeSet::from(["b"]);
        assert_eq!(assignable(&list(&[("a", "2"), ("b", "2")]), &node(None, &["b"]), &unwritten), None);
        assert!(assignable(&list(&[("a", "2"), ("b", "2")]), &node(None, &["a"]), &unwritten).is_some());
    }
}
