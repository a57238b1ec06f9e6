//! A Kubernetes label selector.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use thiserror::Error;

/// The longest selector, in bytes: Kubernetes' limit for trust bundles.
const LONGEST: usize = 100 << 10;

/// A selector that cannot be used.
#[derive(Debug, Error)]
pub(super) enum SelectorError {
    /// It is too long.
    #[error("labelSelector has {0} bytes, {LONGEST} at most")]
    TooLong(usize),
    /// It is no selector.
    #[error("labelSelector is not well formed: {0}")]
    Json(#[from] serde_json::Error),
    /// An expression cannot be evaluated.
    #[error(
        "labelSelector.matchExpressions.{index}: operator {operator:?} is not known or its values do not go with it; In and NotIn take values, Exists and DoesNotExist take none"
    )]
    Expression { index: usize, operator: String },
}

/// `matchLabels` and `matchExpressions`: all must match. An empty selector matches everything.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Selector(LabelSelector);

impl Selector {
    /// Reads a selector's JSON.
    ///
    /// # Errors
    /// [`SelectorError`].
    pub(super) fn parse(json: &str) -> Result<Self, SelectorError> {
        if json.len() > LONGEST {
            return Err(SelectorError::TooLong(json.len()));
        }
        let selector: LabelSelector = serde_json::from_str(json)?;
        for (index, one) in selector.match_expressions.iter().flatten().enumerate() {
            let with_values = one.values.as_ref().is_some_and(|values| !values.is_empty());
            let fits = match one.operator.as_str() {
                "In" | "NotIn" => with_values,
                "Exists" | "DoesNotExist" => !with_values,
                _ => false,
            };
            if !fits {
                let operator = one.operator.chars().take(64).collect();
                return Err(SelectorError::Expression { index, operator });
            }
        }
        Ok(Self(selector))
    }

    /// Whether these labels satisfy it.
    pub(super) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let equal = self.0.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
        equal
            && self.0.match_expressions.iter().flatten().all(|one| {
                let found = labels.get(&one.key);
                let listed = |value: &String| one.values.iter().flatten().any(|other| other == value);
                match one.operator.as_str() {
                    "In" => found.is_some_and(listed),
                    "NotIn" => !found.is_some_and(listed),
                    "Exists" => found.is_some(),
                    _ => found.is_none(),
                }
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_matches_as_kubernetes_says() {
        let labels = BTreeMap::from([("tier".to_owned(), "front".to_owned())]);
        for (json, matches) in [
            ("{}", true),
            (r#"{"matchLabels": {"tier": "front"}}"#, true),
            (r#"{"matchLabels": {"tier": "back"}}"#, false),
            (r#"{"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "front"]}]}"#, true),
            (r#"{"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]}"#, false),
            (r#"{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}"#, true),
            (r#"{"matchExpressions": [{"key": "tier", "operator": "Exists"}]}"#, true),
            (r#"{"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}"#, false),
        ] {
            assert_eq!(Selector::parse(json).unwrap().matches(&labels), matches, "{json}");
        }
    }

    #[test]
    fn a_bad_selector_is_refused() {
        for json in [
            "",
            "[]",
            r#"{"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}"#,
            r#"{"matchExpressions": [{"key": "a", "operator": "In"}]}"#,
            r#"{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}"#,
        ] {
            assert!(Selector::parse(json).is_err(), "{json}");
        }
        assert!(Selector::parse(&format!("{{{}}}", " ".repeat(LONGEST))).unwrap_err().to_string().contains("at most"));
    }
}
