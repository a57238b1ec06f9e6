//! Node affinity and labels: Kubernetes' zones and regions, and those of the drivers.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume, VolumeNodeAffinity};

use crate::error::{TranslationError, TranslationProblem};

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
/// What is between the zones in the label of a volume that is in several.
const BETWEEN_ZONES: &str = "__";

/// The keys of vSphere's driver, which has regions, too.
pub(crate) const VSPHERE_ZONE: &str = "topology.csi.vmware.com/zone";
const VSPHERE_REGION: &str = "topology.csi.vmware.com/region";

/// Reads the one region of some zones.
pub(crate) type RegionOf = fn(&[String]) -> Result<String, TranslationError>;

/// Returns whether a key names Kubernetes' zone.
pub(crate) fn is_zone(key: &str) -> bool {
    key == ZONE || key == BETA_ZONE
}

/// Returns the zones in a PersistentVolume's labels: the older label first, as its driver's
/// translation reads it.
pub(crate) fn labelled_zones(volume: &PersistentVolume) -> Vec<String> {
    let label = [BETA_ZONE, ZONE].into_iter().filter_map(|key| label(volume, key)).find(|zones| !zones.is_empty());
    label.map(|zones| zones.split(BETWEEN_ZONES).map(str::to_owned).collect()).unwrap_or_default()
}

/// Replaces Kubernetes' zone by the driver's in the volume's node affinity, or adds the zone that a
/// label says.
pub(crate) fn to_csi(volume: &mut PersistentVolume, zone_key: &str) {
    let (zone, region) = labels_of(volume);
    if values(volume, zone).is_empty() {
        let zones: Vec<String> =
            label(volume, zone).map(|all| all.split(BETWEEN_ZONES).map(str::to_owned).collect()).unwrap_or_default();
        add(volume, zone_key, &zones);
    } else {
        replace(volume, zone, zone_key);
    }
    if region == BETA_REGION {
        replace(volume, BETA_REGION, REGION);
    }
}

/// As [`to_csi`], for vSphere: zone and region each become the driver's.
pub(crate) fn to_vsphere(volume: &mut PersistentVolume) {
    let (zone, region) = labels_of(volume);
    for (from, to) in [(zone, VSPHERE_ZONE), (region, VSPHERE_REGION)] {
        if values(volume, from).is_empty() {
            // This label is of one zone.
            let labelled = label(volume, from).map(str::to_owned);
            add(volume, to, labelled.as_slice());
        } else {
            replace(volume, from, to);
        }
    }
}

/// Replaces the driver's zone by Kubernetes', and adds the region and both labels, as far as they
/// are missing. `region_of`: the region of some zones; none where zones do not say their region.
pub(crate) fn from_csi(
    volume: &mut PersistentVolume,
    zone_key: &str,
    region_of: Option<RegionOf>,
) -> Result<(), TranslationError> {
    let (zone, _) = labels_of(volume);
    replace(volume, zone_key, zone);
    if let Some(region_of) = region_of {
        add_regions(volume, region_of)?;
    }
    let zones = values(volume, zone);
    if !zones.is_empty() {
        let text = zones.into_iter().collect::<Vec<_>>().join(BETWEEN_ZONES);
        set_label(volume, zone, text);
    }
    Ok(())
}

/// As [`from_csi`], for vSphere.
pub(crate) fn from_vsphere(volume: &mut PersistentVolume) {
    let (zone, region) = labels_of(volume);
    replace(volume, VSPHERE_ZONE, zone);
    replace(volume, VSPHERE_REGION, region);
    for key in [zone, region] {
        if let Some(first) = values(volume, key).into_iter().next() {
            set_label(volume, key, first);
        }
    }
}

fn add_regions(volume: &mut PersistentVolume, region_of: RegionOf) -> Result<(), TranslationError> {
    let (zone, region) = labels_of(volume);
    for term in terms_mut(volume) {
        let all = term.match_expressions.get_or_insert_default();
        if all.iter().any(|one| one.key == region) {
            continue;
        }
        let of_zone = all.iter().filter(|one| one.key == zone);
        let zones: Vec<String> = of_zone.flat_map(|one| one.values.clone().unwrap_or_default()).collect();
        let value = region_of(&zones)?;
        all.push(is_in(region, vec![value]));
    }
    let regions = values(volume, region);
    if let (Some(only), 1) = (regions.first(), regions.len()) {
        set_label(volume, region, only.clone());
    }
    Ok(())
}

/// The labels by which this volume names zone and region.
fn labels_of(volume: &PersistentVolume) -> (&'static str, &'static str) {
    let in_affinity =
        |key: &str| terms(volume).any(|term| term.match_expressions.iter().flatten().any(|one| one.key == key));
    let is_beta = if in_affinity(ZONE) {
        false
    } else if in_affinity(BETA_ZONE) {
        true
    } else {
        label(volume, ZONE).is_none() && label(volume, BETA_ZONE).is_some()
    };
    if is_beta { (BETA_ZONE, BETA_REGION) } else { (ZONE, REGION) }
}

fn label<'a>(volume: &'a PersistentVolume, key: &str) -> Option<&'a str> {
    volume.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn set_label(volume: &mut PersistentVolume, key: &str, value: String) {
    volume.metadata.labels.get_or_insert_with(BTreeMap::new).entry(key.to_owned()).or_insert(value);
}

fn terms(volume: &PersistentVolume) -> impl Iterator<Item = &NodeSelectorTerm> {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    affinity
        .and_then(|affinity| affinity.required.as_ref())
        .into_iter()
        .flat_map(|required| &required.node_selector_terms)
}

fn terms_mut(volume: &mut PersistentVolume) -> impl Iterator<Item = &mut NodeSelectorTerm> {
    let affinity = volume.spec.as_mut().and_then(|spec| spec.node_affinity.as_mut());
    let required = affinity.and_then(|affinity| affinity.required.as_mut());
    required.into_iter().flat_map(|required| &mut required.node_selector_terms)
}

/// The values of a key in every term, sorted, each once.
fn values(volume: &PersistentVolume, key: &str) -> BTreeSet<String> {
    let expressions = terms(volume).flat_map(|term| term.match_expressions.iter().flatten());
    expressions.filter(|one| one.key == key).flat_map(|one| one.values.iter().flatten().cloned()).collect()
}

fn replace(volume: &mut PersistentVolume, old: &str, new: &str) {
    let expressions = terms_mut(volume).flat_map(|term| term.match_expressions.iter_mut().flatten());
    for one in expressions.filter(|one| one.key == old) {
        new.clone_into(&mut one.key);
    }
}

/// Requires one of the zones in every term; nothing without a zone.
fn add(volume: &mut PersistentVolume, key: &str, zones: &[String]) {
    let zones: BTreeSet<&str> = zones.iter().map(|zone| zone.trim()).filter(|zone| !zone.is_empty()).collect();
    if zones.is_empty() {
        return;
    }
    let affinity: &mut VolumeNodeAffinity = volume.spec.get_or_insert_default().node_affinity.get_or_insert_default();
    let terms = &mut affinity.required.get_or_insert_default().node_selector_terms;
    if terms.is_empty() {
        terms.push(NodeSelectorTerm::default());
    }
    for term in terms {
        let zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
        term.match_expressions.get_or_insert_default().push(is_in(key, zones));
    }
}

fn is_in(key: &str, values: Vec<String>) -> NodeSelectorRequirement {
    NodeSelectorRequirement { key: key.to_owned(), operator: "In".to_owned(), values: Some(values) }
}

/// The region of Google's zones: `us-central1-a` is in `us-central1`.
pub(crate) fn google_region(zones: &[String]) -> Result<String, TranslationError> {
    one_region(zones, |zone| match zone.split('-').collect::<Vec<_>>().as_slice() {
        [locale, region, _] => Some(format!("{locale}-{region}")),
        _ => None,
    })
}

/// The region of Amazon's zones: `us-west-2a`, `us-gov-east-1a`, the local zone `us-west-2-lax-1a`,
/// the wavelength zone `us-east-1-wl1-bos-wlz-1`.
pub(crate) fn amazon_region(zones: &[String]) -> Result<String, TranslationError> {
    one_region(zones, |zone| {
        let parts: Vec<&str> = zone.split('-').collect();
        match (parts.as_slice(), parts.len()) {
            ([before @ .., last], 3 | 4) if last.len() == 2 => {
                Some(format!("{}-{}", before.join("-"), last.chars().next()?))
            }
            ([a, b, c, ..], 5 | 7) => Some(format!("{a}-{b}-{c}")),
            _ => None,
        }
    })
}

fn one_region(zones: &[String], region_of: impl Fn(&str) -> Option<String>) -> Result<String, TranslationError> {
    const FIELD: &str = "nodeAffinity";
    let mut regions = BTreeSet::new();
    for zone in zones {
        let wrong = || TranslationError::new(FIELD, TranslationProblem::Zone(crate::values::shown(zone)));
        regions.insert(region_of(zone).ok_or_else(wrong)?);
    }
    match (regions.first(), regions.len()) {
        (Some(region), 1) => Ok(region.clone()),
        _ => Err(TranslationError::new(FIELD, TranslationProblem::Regions(crate::values::shown(&zones.join(", "))))),
    }
}
