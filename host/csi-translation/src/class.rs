//! StorageClasses of in-tree plugins as classes of the CSI drivers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{TopologySelectorLabelRequirement, TopologySelectorTerm};
use k8s_openapi::api::storage::v1::StorageClass;

use crate::error::{TranslationError, TranslationProblem};
use crate::migration::Migration;
use crate::topology::{VSPHERE_ZONE, is_zone};
use crate::volume::PORTWORX_ANNOTATIONS;

const FS_TYPE: &str = "fstype";
const CSI_FS_TYPE: &str = "csi.storage.k8s.io/fstype";
const ZONE: &str = "zone";
const ZONES: &str = "zones";
/// The secrets of calls that a Portworx class's one secret is for.
const PORTWORX_CALLS: [&str; 6] =
    ["provisioner", "controller-publish", "node-stage", "node-publish", "controller-expand", "node-expand"];
/// vSphere's parameters, and their names for the driver. The driver knows no others.
const VSPHERE: [(&str, &str); 10] = [
    (FS_TYPE, CSI_FS_TYPE),
    ("storagepolicyname", "storagepolicyname"),
    ("datastore", "datastore-migrationparam"),
    ("diskformat", "diskformat-migrationparam"),
    ("hostfailurestotolerate", "hostfailurestotolerate-migrationparam"),
    ("forceprovisioning", "forceprovisioning-migrationparam"),
    ("cachereservation", "cachereservation-migrationparam"),
    ("diskstripes", "diskstripes-migrationparam"),
    ("objectspacereservation", "objectspacereservation-migrationparam"),
    ("iopslimit", "iopslimit-migrationparam"),
];

/// Parameters, and the zones that one of them names.
type Translated = (BTreeMap<String, String>, Vec<String>);

/// Translates a StorageClass: provisioner, parameters and allowed topologies.
///
/// # Errors
/// [`TranslationError`] naming the field; also for a class of no plugin in the table.
pub fn class_to_csi(class: &StorageClass) -> Result<StorageClass, TranslationError> {
    let not_migrated = || TranslationError::new("provisioner", TranslationProblem::NotMigrated);
    let migration = Migration::of_plugin(&class.provisioner).ok_or_else(not_migrated)?;
    let none = BTreeMap::new();
    let given = class.parameters.as_ref().unwrap_or(&none);
    let (parameters, zones) = match migration {
        Migration::AwsElasticBlockStore => amazon(given)?,
        Migration::GcePersistentDisk => with_zones(given, true)?,
        Migration::AzureDisk => with_zones(given, false)?,
        Migration::Cinder => (renamed(given, |key| (key == FS_TYPE).then_some(CSI_FS_TYPE)), Vec::new()),
        Migration::VsphereVolume => (vsphere(given), Vec::new()),
        Migration::PortworxVolume => (portworx(given), Vec::new()),
        Migration::AzureFile => (given.clone(), Vec::new()),
    };
    let allowed = class.allowed_topologies.as_ref().filter(|terms| !terms.is_empty());
    let key = if migration == Migration::VsphereVolume { Some(VSPHERE_ZONE) } else { migration.zone_key() };
    let allowed_topologies = match (key, allowed, zones.is_empty()) {
        (_, Some(_), false) => {
            return Err(TranslationError::new("parameters.zone", TranslationProblem::Twice("allowedTopologies")));
        }
        (Some(key), None, false) => Some(vec![term(key, zones)]),
        (Some(key), Some(terms), true) => Some(terms.iter().map(|term| with_key(term, key)).collect()),
        (_, other, _) => other.cloned(),
    };
    let allowed_topologies = match migration {
        Migration::AzureDisk => allowed_topologies.map(without_failure_domains),
        _ => allowed_topologies,
    };
    Ok(StorageClass {
        provisioner: migration.driver().to_owned(),
        parameters: Some(parameters).filter(|all| !all.is_empty()),
        allowed_topologies,
        ..class.clone()
    })
}

fn renamed(given: &BTreeMap<String, String>, new: impl Fn(&str) -> Option<&'static str>) -> BTreeMap<String, String> {
    let pair = |(key, value): (&String, &String)| {
        let key = new(&key.to_ascii_lowercase()).map_or_else(|| key.clone(), str::to_owned);
        (key, value.clone())
    };
    given.iter().map(pair).collect()
}

/// `zone` and `zones` become topologies. `names_fs_type`: the driver gets `fstype` by CSI's name.
fn with_zones(given: &BTreeMap<String, String>, names_fs_type: bool) -> Result<Translated, TranslationError> {
    let of = |wanted: &str| given.iter().find(|(key, _)| key.eq_ignore_ascii_case(wanted)).map(|(_, value)| value);
    let zones = match (of(ZONE), of(ZONES)) {
        (Some(_), Some(_)) => {
            return Err(TranslationError::new("parameters.zone", TranslationProblem::Twice("parameters.zones")));
        }
        (Some(zone), None) => vec![zone.clone()],
        (None, Some(zones)) => zones.split(',').map(str::to_owned).collect(),
        (None, None) => Vec::new(),
    };
    let mut parameters = renamed(given, |key| (names_fs_type && key == FS_TYPE).then_some(CSI_FS_TYPE));
    parameters.retain(|key, _| !key.eq_ignore_ascii_case(ZONE) && !key.eq_ignore_ascii_case(ZONES));
    Ok((parameters, zones))
}

fn amazon(given: &BTreeMap<String, String>) -> Result<Translated, TranslationError> {
    let (mut parameters, zones) = with_zones(given, true)?;
    // The in-tree plugin raised IOPS that are too low for the size.
    if parameters.keys().any(|key| key.eq_ignore_ascii_case("iopspergb")) {
        parameters.insert("allowautoiopspergbincrease".to_owned(), "true".to_owned());
    }
    Ok((parameters, zones))
}

fn vsphere(given: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let known = |(key, value): (&String, &String)| {
        let key = key.to_ascii_lowercase();
        let (_, new) = VSPHERE.iter().find(|(old, _)| *old == key)?;
        Some(((*new).to_owned(), value.clone()))
    };
    let mut parameters: BTreeMap<String, String> = given.iter().filter_map(known).collect();
    // The driver then says the volume's path, by which in-tree volumes are named.
    parameters.insert("csimigration".to_owned(), "true".to_owned());
    parameters
}

fn portworx(given: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut parameters = BTreeMap::new();
    for (key, value) in given {
        let part = PORTWORX_ANNOTATIONS.iter().position(|name| key.eq_ignore_ascii_case(name));
        let Some(part) = part else {
            parameters.insert(key.clone(), value.clone());
            continue;
        };
        let end = if part == 0 { "name" } else { "namespace" };
        for call in PORTWORX_CALLS {
            parameters.insert(format!("csi.storage.k8s.io/{call}-secret-{end}"), value.clone());
        }
    }
    parameters
}

fn term(key: &str, values: Vec<String>) -> TopologySelectorTerm {
    let expression = TopologySelectorLabelRequirement { key: key.to_owned(), values };
    TopologySelectorTerm { match_label_expressions: Some(vec![expression]) }
}

/// The term with the driver's key for Kubernetes' zone.
fn with_key(term: &TopologySelectorTerm, key: &str) -> TopologySelectorTerm {
    let mut term = term.clone();
    for one in term.match_label_expressions.iter_mut().flatten().filter(|one| is_zone(&one.key)) {
        key.clone_into(&mut one.key);
    }
    term
}

/// Where Azure has no zones, Kubernetes counted failure domains; the driver says an empty zone.
fn without_failure_domains(mut terms: Vec<TopologySelectorTerm>) -> Vec<TopologySelectorTerm> {
    let key = Migration::AzureDisk.zone_key();
    let expressions = terms.iter_mut().flat_map(|term| term.match_label_expressions.iter_mut().flatten());
    let values = expressions.filter(|one| Some(one.key.as_str()) == key).flat_map(|one| &mut one.values);
    for value in values.filter(|value| !value.is_empty() && value.chars().all(|one| one.is_ascii_digit())) {
        value.clear();
    }
    terms
}
