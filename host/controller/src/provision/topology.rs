//! Where a volume must be reachable from: from what drivers registered, nodes' labels and classes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, TopologySelectorTerm, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::CSINode;
use thiserror::Error;
use volhost_proto::csi::{Topology, TopologyRequirement};

use crate::caches::Caches;

/// Labels that have these values.
type Term = BTreeMap<String, String>;

/// The most terms that a class may expand to.
const TERMS: usize = 10_000;

/// Why no requirement can be made.
#[derive(Debug, Error)]
pub(crate) enum TopologyError {
    /// The scheduler has to choose another node.
    #[error("the selected node {0} is not known")]
    NoNode(String),
    /// The driver may not have registered yet.
    #[error("the driver has registered no topology keys on the selected node {0}")]
    NoKeys(String),
    /// The labels are not there yet.
    #[error("the selected node {node} lacks one of the labels {keys:?}")]
    NoLabels {
        /// The node.
        node: String,
        /// What the driver has registered.
        keys: Vec<String>,
    },
    /// The class does not allow the node.
    #[error("the selected node {0} is in none of the topologies that the class allows")]
    NotAllowed(String),
    /// The driver runs nowhere yet.
    #[error("no node has registered the driver with topology keys and has these labels")]
    Nowhere,
    /// The class has a product of values.
    #[error("the class's allowedTopologies are more than {TERMS} topologies")]
    TooMany,
}

/// What a claim and its class ask for.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    /// The driver.
    pub(crate) driver: &'a str,
    /// The claim's name.
    pub(crate) claim: &'a str,
    /// The node of the first pod, if the scheduler waits for the volume.
    pub(crate) node: Option<&'a str>,
    /// The class's `allowedTopologies`.
    pub(crate) allowed: &'a [TopologySelectorTerm],
    /// Only the selected node's own topology is acceptable.
    pub(crate) strict: bool,
}

/// Makes the requirement of `CreateVolume`. The first preferred topology is the selected node's, or
/// is chosen by the claim's name so that the volumes of a StatefulSet are spread.
///
/// # Errors
/// [`TopologyError`].
pub(crate) fn requirement(caches: &Caches, wanted: &Wanted<'_>) -> Result<Option<TopologyRequirement>, TopologyError> {
    let selected = wanted.node.map(|node| selected(caches, wanted.driver, node)).transpose()?;
    let allowed = expand(wanted.allowed)?;
    let terms: BTreeSet<Term> = match &selected {
        Some((node, _, term)) if wanted.strict => {
            if !allowed.is_empty() && !allowed.iter().any(|allowed| is_within(allowed, term)) {
                return Err(TopologyError::NotAllowed(node.clone()));
            }
            [term.clone()].into()
        }
        _ if !wanted.allowed.is_empty() => allowed,
        Some((_, keys, _)) => everywhere(caches, keys),
        None => everywhere(caches, &any_keys(caches, wanted.driver).ok_or(TopologyError::Nowhere)?),
    };
    if terms.is_empty() {
        return if wanted.allowed.is_empty() { Err(TopologyError::Nowhere) } else { Ok(None) };
    }
    let terms: Vec<Term> = terms.into_iter().collect();
    let first = match &selected {
        Some((node, _, term)) => {
            terms.iter().position(|one| is_within(one, term)).ok_or_else(|| TopologyError::NotAllowed(node.clone()))?
        }
        None => spread(wanted.claim, terms.len()),
    };
    let mut preferred = terms.clone();
    preferred.rotate_left(first);
    Ok(Some(TopologyRequirement { requisite: topologies(terms), preferred: topologies(preferred) }))
}

fn topologies(terms: Vec<Term>) -> Vec<Topology> {
    terms.into_iter().map(|term| Topology { segments: term.into_iter().collect() }).collect()
}

fn selected(caches: &Caches, driver: &str, node: &str) -> Result<(String, Vec<String>, Term), TopologyError> {
    let csi_node = caches.csi_node(node).ok_or_else(|| TopologyError::NoNode(node.to_owned()))?;
    let keys = keys(&csi_node, driver).ok_or_else(|| TopologyError::NoKeys(node.to_owned()))?;
    let labels = caches.node(node).ok_or_else(|| TopologyError::NoNode(node.to_owned()))?;
    let term = term(labels.metadata.labels.as_ref(), &keys);
    let term = term.ok_or_else(|| TopologyError::NoLabels { node: node.to_owned(), keys: keys.clone() })?;
    Ok((node.to_owned(), keys, term))
}

/// The keys that the driver has registered on this node, unless there are none.
fn keys(csi_node: &CSINode, driver: &str) -> Option<Vec<String>> {
    let found = csi_node.spec.drivers.iter().find(|one| one.name == driver)?;
    found.topology_keys.clone().filter(|keys| !keys.is_empty())
}

fn any_keys(caches: &Caches, driver: &str) -> Option<Vec<String>> {
    caches.csi_nodes().iter().find_map(|csi_node| keys(csi_node, driver))
}

/// The topology segments of the driver: those of the nodes where it has registered.
pub(crate) fn segments(caches: &Caches, driver: &str) -> BTreeSet<Term> {
    let segment = |csi_node: &CSINode| {
        let node = caches.node(csi_node.metadata.name.as_deref()?)?;
        term(node.metadata.labels.as_ref(), &keys(csi_node, driver)?)
    };
    caches.csi_nodes().iter().filter_map(|csi_node| segment(csi_node)).collect()
}

fn term(labels: Option<&Term>, keys: &[String]) -> Option<Term> {
    keys.iter().map(|key| Some((key.clone(), labels?.get(key)?.clone()))).collect()
}

fn everywhere(caches: &Caches, keys: &[String]) -> BTreeSet<Term> {
    caches.nodes().iter().filter_map(|node| term(node.metadata.labels.as_ref(), keys)).collect()
}

/// Whether `term` has all that `wider` has.
fn is_within(wider: &Term, term: &Term) -> bool {
    wider.iter().all(|(key, value)| term.get(key) == Some(value))
}

/// Multiplies the class's alternatives out.
fn expand(allowed: &[TopologySelectorTerm]) -> Result<BTreeSet<Term>, TopologyError> {
    let mut all = BTreeSet::new();
    for selector in allowed {
        let mut terms = vec![Term::new()];
        for expression in selector.match_label_expressions.iter().flatten() {
            if terms.len().saturating_mul(expression.values.len()) > TERMS {
                return Err(TopologyError::TooMany);
            }
            let with = |term: &Term, value: &String| {
                let mut term = term.clone();
                term.insert(expression.key.clone(), value.clone());
                term
            };
            terms =
                terms.iter().flat_map(|term| expression.values.iter().map(move |value| with(term, value))).collect();
        }
        all.extend(terms.into_iter().filter(|term| !term.is_empty()));
    }
    Ok(all)
}

/// Spreads claims named `CLAIM-SET-NUMBER` by the number, all claims of one number together.
fn spread(claim: &str, terms: usize) -> usize {
    let numbered = claim.rsplit_once('-').and_then(|(set, number)| Some((set, number.parse::<u32>().ok()?)));
    let (set, number) = numbered.unwrap_or((claim, 0));
    let set = if numbered.is_some() { set.rsplit_once('-').map_or(set, |(_, set)| set) } else { set };
    // FNV-1, as upstream: volumes of one set stay where its other volumes are.
    let hash = set.bytes().fold(0x811c_9dc5_u32, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte));
    usize::try_from(hash.wrapping_add(number)).unwrap_or_default() % terms.max(1)
}

/// Where pods with the volume may run. No topology: anywhere.
pub(crate) fn affinity(topology: &[Topology]) -> Option<VolumeNodeAffinity> {
    let requirement = |(key, value): (&String, &String)| NodeSelectorRequirement {
        key: key.clone(),
        operator: "In".to_owned(),
        values: Some(vec![value.clone()]),
    };
    let terms: Vec<NodeSelectorTerm> = topology
        .iter()
        .filter(|one| !one.segments.is_empty())
        .map(|one| {
            let segments: BTreeMap<&String, &String> = one.segments.iter().collect();
            let expressions = segments.into_iter().map(requirement).collect();
            NodeSelectorTerm { match_expressions: Some(expressions), match_fields: None }
        })
        .collect();
    let required = NodeSelector { node_selector_terms: terms };
    (!required.node_selector_terms.is_empty()).then_some(VolumeNodeAffinity { required: Some(required) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::TopologySelectorLabelRequirement;

    fn selector(expressions: &[(&str, &[&str])]) -> TopologySelectorTerm {
        let expression = |(key, values): &(&str, &[&str])| TopologySelectorLabelRequirement {
            key: (*key).to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        TopologySelectorTerm { match_label_expressions: Some(expressions.iter().map(expression).collect()) }
    }

    #[test]
    fn alternatives_are_multiplied_out() {
        let terms = expand(&[selector(&[("zone", &["a", "b"]), ("rack", &["1", "2"])]), selector(&[])]).unwrap();
        assert_eq!(terms.len(), 4);
        let many: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let huge = selector(&[("a", &many), ("b", &many), ("c", &many)]);
        assert!(matches!(expand(&[huge]), Err(TopologyError::TooMany)));
    }

    #[test]
    fn the_volumes_of_a_stateful_set_are_spread() {
        let at = |claim| spread(claim, 3);
        assert_eq!(at("data-web-1"), at("logs-web-1"));
        assert_eq!((at("data-web-0") + 1) % 3, at("data-web-1"));
        assert_eq!(spread("x", 1), 0);
    }

    #[test]
    fn no_topology_is_no_affinity() {
        assert_eq!(affinity(&[]), None);
        assert_eq!(affinity(&[Topology::default()]), None);
        let one = Topology { segments: [("zone".to_owned(), "a".to_owned())].into() };
        assert!(affinity(&[one]).is_some());
    }
}
