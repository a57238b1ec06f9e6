//! Against what Kubernetes' own library makes of the same inputs: `tests/translation` says how the
//! file is made.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolume, Volume};
use k8s_openapi::api::storage::v1::StorageClass;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

const CASES: &str = include_str!("../../../tests/translation/cases.json");

#[derive(Deserialize)]
struct Case {
    name: String,
    to: String,
    #[serde(default)]
    namespace: String,
    input: Value,
    expected: Option<Value>,
}

fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn volume(value: &Value) -> PersistentVolume {
    // Go writes an empty status.
    PersistentVolume { status: None, ..read(value) }
}

/// What a direction makes of the input, and what it should make of it.
type Outcome<T> = (Result<T, TranslationError>, Option<T>);

fn check<T: PartialEq + std::fmt::Debug>(name: &str, (made, expected): Outcome<T>) {
    match (made, expected) {
        (Ok(made), Some(expected)) => assert_eq!(made, expected, "{name}"),
        (Err(_), None) => {}
        (made, expected) => panic!("{name}: {made:?} instead of {expected:?}"),
    }
}

#[test]
fn every_translation_is_that_of_kubernetes_own_library() {
    let cases: Vec<Case> = serde_json::from_str(CASES).unwrap();
    let mut seen = BTreeSet::new();
    for Case { name, to, namespace, input, expected } in &cases {
        seen.insert(to.as_str());
        let expected = expected.as_ref();
        match to.as_str() {
            "volume" => check(name, (to_csi(&read(input)), expected.map(volume))),
            "inline" => check(name, (inline_to_csi(&read::<Volume>(input), namespace), expected.map(volume))),
            "class" => check(name, (class_to_csi(&read::<StorageClass>(input)), expected.map(read))),
            "back" => check(name, (from_csi(&read(input)), expected.map(volume))),
            other => panic!("{name}: {other}"),
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["back", "class", "inline", "volume"]);
    assert!(cases.len() > 100, "{}", cases.len());
}

#[test]
fn the_table_names_each_plugin_by_source_plugin_and_driver() {
    for migration in Migration::all() {
        assert_eq!(Migration::of_source(migration.source()), Some(migration));
        assert_eq!(Migration::of_plugin(migration.plugin()), Some(migration));
        assert_eq!(Migration::of_driver(migration.driver()), Some(migration));
        assert!(removed(migration.source()).is_none());
    }
    assert_eq!(Migration::all().count(), 7);
    for source in ["csi", "nfs", "rbd", "emptyDir", ""] {
        assert_eq!(Migration::of_source(source), None, "{source}");
    }
    for source in ["cephfs", "flocker", "glusterfs", "photonPersistentDisk", "quobyte", "rbd", "scaleIO", "storageos"] {
        assert!(removed(source).is_some(), "{source}");
    }
}

fn refused(spec: Value, labels: Value) -> String {
    let volume = json!({ "metadata": { "name": "pv", "labels": labels }, "spec": spec });
    to_csi(&read(&volume)).map_or_else(|error| error.to_string(), |volume| format!("{volume:?}"))
}

#[test]
fn a_value_that_would_change_the_meaning_of_a_handle_is_refused_with_its_field() {
    for (spec, said) in [
        (json!({ "awsElasticBlockStore": { "volumeID": "" } }), "awsElasticBlockStore.volumeID: is missing"),
        (json!({ "awsElasticBlockStore": { "volumeID": "aws://z/vol-1?x" } }), "awsElasticBlockStore.volumeID: \"aws"),
        (json!({ "awsElasticBlockStore": { "volumeID": "vol-1\n" } }), "awsElasticBlockStore.volumeID: "),
        (json!({ "gcePersistentDisk": { "pdName": "a/../b" } }), "gcePersistentDisk.pdName: "),
        (json!({ "gcePersistentDisk": { "pdName": "" } }), "gcePersistentDisk.pdName: is missing"),
        (json!({ "azureDisk": { "diskName": "d", "diskURI": "u", "kind": "Dedicated" } }), "azureDisk.kind: "),
        (json!({ "azureDisk": { "diskName": "d", "diskURI": "" } }), "azureDisk.diskURI: is missing"),
        (
            json!({ "azureFile": { "shareName": "a#b", "secretName": "s", "secretNamespace": "n" } }),
            "azureFile.shareName: ",
        ),
        (
            json!({ "azureFile": { "shareName": "a", "secretName": "../s", "secretNamespace": "n" } }),
            "azureFile.secretName: ",
        ),
        (
            json!({ "azureFile": { "shareName": "a", "secretName": "s", "secretNamespace": "n/m" } }),
            "azureFile.secretNamespace: ",
        ),
        (json!({ "azureFile": { "shareName": "a", "secretName": "s" } }), "azureFile.secretNamespace: is missing"),
        (json!({ "vsphereVolume": { "volumePath": "" } }), "vsphereVolume.volumePath: is missing"),
        (json!({ "cinder": { "volumeID": "\u{0}" } }), "cinder.volumeID: "),
        (json!({ "portworxVolume": { "volumeID": "" } }), "portworxVolume.volumeID: is missing"),
        (json!({ "nfs": { "server": "s", "path": "/" } }), "spec: is none of"),
    ] {
        let words = refused(spec.clone(), json!({}));
        assert!(words.starts_with(said), "{spec}: {words}");
    }
    let labels = json!({ "topology.kubernetes.io/zone": "a/b" });
    let words = refused(json!({ "gcePersistentDisk": { "pdName": "disk" } }), labels);
    assert!(words.starts_with("metadata.labels: "), "{words}");
}

#[test]
fn a_storage_policy_of_a_pods_own_vsphere_volume_is_passed_on() {
    // Kubernetes' library dereferences a null pointer here.
    let policy =
        json!({ "name": "data", "vsphereVolume": { "volumePath": "[s] d.vmdk", "storagePolicyName": "gold" } });
    let made = inline_to_csi(&read::<Volume>(&policy), "shop").unwrap();
    let attributes = made.spec.unwrap().csi.unwrap().volume_attributes.unwrap();
    assert_eq!(attributes.get("storagepolicyname").map(String::as_str), Some("gold"));
}

#[test]
fn zone_and_zones_of_a_class_exclude_each_other() {
    let class = json!({ "provisioner": "kubernetes.io/gce-pd", "parameters": { "zone": "a", "zones": "b" } });
    let said = class_to_csi(&read::<StorageClass>(&class)).unwrap_err().to_string();
    assert!(said.starts_with("parameters.zone: "), "{said}");
}
