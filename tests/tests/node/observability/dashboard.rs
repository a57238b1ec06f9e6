//! The dashboard and the alerts ask for nothing that is not there.

use std::collections::BTreeSet;

use serde_json::Value;
use volhost_tests::artifacts::workspace;

use crate::observability::alerts::alerts;
use crate::observability::figures::{Figures, node_with_a_driver};

/// Every `expr` in the dashboard.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_str() {
                    Some(text) if key == "expr" => found.push(text.to_owned()),
                    _ => queries(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

/// The metrics of a query: names with an underscore that are no label, function or grouping.
fn metrics(query: &str) -> BTreeSet<String> {
    let mut outside = String::new();
    let mut depth = 0;
    for c in query.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            c if depth == 0 => outside.push(c),
            _ => {}
        }
    }
    let words = outside.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let known = [
        "volume_manager_",
        "storage_operation_",
        "volume_operation_",
        "reconstruct_",
        "kubelet_",
        "csi_operations_",
        "plugin_manager_",
        "force_cleaned_",
        "volhost_",
        "process_",
    ];
    words.filter(|word| known.iter().any(|prefix| word.starts_with(prefix))).map(str::to_owned).collect()
}

#[test]
fn every_metric_that_the_dashboard_and_the_alerts_ask_for_is_served() {
    let text = std::fs::read_to_string(workspace().join("deploy/grafana/volhost.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut asked = Vec::new();
    queries(&dashboard, &mut asked);
    assert!(asked.len() >= 10, "{asked:?}");
    // Prometheus itself knows whether it reaches a node. What controllers count, their own test looks for.
    let of_nodes = |query: &String| !query.starts_with("up{") && !query.contains(r#"controller""#);
    asked.extend(alerts().into_iter().map(|alert| alert.expression).filter(of_nodes));
    let (node, _driver) = node_with_a_driver(&[]);
    let figures = Figures::once(&node, |figures| figures.has("kubelet_volume_stats_capacity_bytes", &[]));
    for query in &asked {
        let names = metrics(query);
        assert!(!names.is_empty(), "{query} asks for nothing of volhost's");
        for name in names {
            assert!(figures.has(&name, &[]), "{query}: nothing is called {name} in\n{}", figures.0);
        }
    }
}
