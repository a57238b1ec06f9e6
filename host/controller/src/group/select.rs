//! Label selectors.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Whether the selector has these labels, as the API server decides. One without any requirement
/// has all labels. An unknown operator has none.
pub(super) fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let value = |key: &str| labels.and_then(|labels| labels.get(key));
    let has_labels = selector.match_labels.iter().flatten().all(|(key, wanted)| value(key) == Some(wanted));
    has_labels
        && selector.match_expressions.iter().flatten().all(|expression| {
            let value = value(&expression.key);
            let is_listed = || value.is_some_and(|value| expression.values.iter().flatten().any(|one| one == value));
            match expression.operator.as_str() {
                "In" => is_listed(),
                "NotIn" => !is_listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_have_the_labels_that_kubernetes_says() {
        let labels = BTreeMap::from([("app".to_owned(), "db".to_owned())]);
        let of = |text: &str| selects(&serde_json::from_str(text).unwrap(), Some(&labels));
        let expression = |operator: &str, values: &str| {
            of(&format!(r#"{{"matchExpressions": [{{"key": "app", "operator": "{operator}", "values": {values}}}]}}"#))
        };
        assert!(of("{}"));
        assert!(of(r#"{"matchLabels": {"app": "db"}}"#));
        assert!(!of(r#"{"matchLabels": {"app": "db", "tier": "1"}}"#));
        assert!(expression("In", r#"["web", "db"]"#));
        assert!(!expression("NotIn", r#"["db"]"#));
        assert!(expression("Exists", "[]"));
        assert!(!expression("DoesNotExist", "[]"));
        assert!(!expression("Near", "[]"));
        assert!(!selects(&serde_json::from_str(r#"{"matchLabels": {"app": "db"}}"#).unwrap(), None));
    }
}
