//! Which pods of a node are volhost's.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use thiserror::Error;
use volhost_model::label_selector::{LabelSelector, LabelSelectorError};
use volhost_model::names::{NameError, check_dns_subdomain};

/// Which pods of a node are volhost's: all, or those that a label, an annotation or a RuntimeClass
/// marks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct PodScope {
    text: String,
    mark: Mark,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Mark {
    /// Every pod has it.
    #[default]
    None,
    Labels(LabelSelector),
    /// With a value, or with any.
    Annotation(String, Option<String>),
    RuntimeClass(String),
}

/// A text that is no scope.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PodScopeError {
    /// It has another form.
    #[error(
        "{0:?} is no scope; write node, label:SELECTOR, annotation:KEY, annotation:KEY=VALUE or runtime-class:NAME"
    )]
    Form(String),
    /// It names no label.
    #[error(transparent)]
    Selector(#[from] LabelSelectorError),
    /// A selector that every pod meets.
    #[error("label: needs a selector; for every pod of the node, write node")]
    NoSelector,
    /// It names no annotation.
    #[error("annotation: needs a key, as in annotation:example.com/volumes=volhost")]
    NoKey,
    /// It names no RuntimeClass.
    #[error(transparent)]
    RuntimeClass(#[from] NameError),
}

/// The parts of a pod that a scope may name.
#[derive(Debug, Clone, Copy)]
pub struct PodMarks<'a> {
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: &'a BTreeMap<String, String>,
    /// `spec.runtimeClassName`; empty without one.
    pub runtime_class: &'a str,
}

impl PodScope {
    /// Whether every pod of the node is in it.
    pub const fn is_whole_node(&self) -> bool {
        matches!(self.mark, Mark::None)
    }

    /// Whether a pod with these marks is in it.
    pub fn includes(&self, pod: PodMarks<'_>) -> bool {
        match &self.mark {
            Mark::None => true,
            Mark::Labels(selector) => selector.matches(pod.labels),
            Mark::Annotation(key, None) => pod.annotations.contains_key(key),
            Mark::Annotation(key, value) => pod.annotations.get(key) == value.as_ref(),
            Mark::RuntimeClass(name) => pod.runtime_class == name,
        }
    }
}

impl fmt::Display for PodScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_whole_node() { "node" } else { &self.text })
    }
}

impl FromStr for PodScope {
    type Err = PodScopeError;

    fn from_str(text: &str) -> Result<Self, PodScopeError> {
        let mark = match text.split_once(':') {
            None if text == "node" => Mark::None,
            Some(("label", selector)) => {
                let selector: LabelSelector = selector.parse()?;
                if selector.selects_all() {
                    return Err(PodScopeError::NoSelector);
                }
                Mark::Labels(selector)
            }
            Some(("annotation", rest)) => {
                let (key, value) = rest.split_once('=').map_or((rest, None), |(key, value)| (key, Some(value)));
                if key.trim().is_empty() {
                    return Err(PodScopeError::NoKey);
                }
                Mark::Annotation(key.to_owned(), value.map(str::to_owned))
            }
            Some(("runtime-class", name)) => {
                check_dns_subdomain("RuntimeClass name", name)?;
                Mark::RuntimeClass(name.to_owned())
            }
            _ => return Err(PodScopeError::Form(text.to_owned())),
        };
        Ok(Self { text: text.to_owned(), mark })
    }
}

impl TryFrom<String> for PodScope {
    type Error = PodScopeError;
    fn try_from(text: String) -> Result<Self, PodScopeError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_names_pods_by_one_mark() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let annotations = BTreeMap::from([("example.com/volumes".to_owned(), "volhost".to_owned())]);
        let marked = PodMarks { labels: &labels, annotations: &annotations, runtime_class: "micro" };
        let none = BTreeMap::new();
        let plain = PodMarks { labels: &none, annotations: &none, runtime_class: "" };
        for (text, is_marked, is_plain) in [
            ("node", true, true),
            ("label:app=web", true, false),
            ("label:app in (web, db)", true, false),
            ("label:!app", false, true),
            ("annotation:example.com/volumes", true, false),
            ("annotation:example.com/volumes=volhost", true, false),
            ("annotation:example.com/volumes=", false, false),
            ("annotation:example.com/volumes=kubelet", false, false),
            ("runtime-class:micro", true, false),
            ("runtime-class:other", false, false),
        ] {
            let scope: PodScope = text.parse().unwrap();
            assert_eq!((scope.includes(marked), scope.includes(plain)), (is_marked, is_plain), "{text}");
            assert_eq!(scope.to_string().parse::<PodScope>(), Ok(scope), "{text}");
        }
        assert!(PodScope::default().is_whole_node() && "node".parse::<PodScope>().unwrap().is_whole_node());
    }

    #[test]
    fn what_is_no_scope_is_refused() {
        for text in [
            "",
            "all",
            "label:",
            "label:a b",
            "annotation:",
            "annotation:=x",
            "runtime-class:",
            "runtime-class:A",
            "pod:x",
        ] {
            assert!(text.parse::<PodScope>().is_err(), "{text}");
        }
    }
}
