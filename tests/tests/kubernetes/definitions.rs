//! The definitions in `deploy/plugins` against the types that read and write the objects: the API
//! server drops a field that the definition lacks, and shows one that no program writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use volhost_cluster_client::plugins::{
    AssignedPlugin, FailedRevision, MaxUnavailable, NodeCounts, NodePluginsSpec, NodePluginsStatus, PluginReport,
    PluginState, Revision, Rollout, StoredRevision, VolumePluginSpec, VolumePluginStatus,
};
use volhost_runtime::{ClusterGrant, Grant};
use volhost_tests::artifacts::workspace;

/// The schema of a kind.
fn schema(kind: &str) -> Value {
    let text = fs::read_to_string(workspace().join("deploy/plugins/crds.yaml")).unwrap();
    let definitions = text.split("\n---\n").map(|one| serde_saphyr::from_str::<Value>(one).unwrap());
    let definition = definitions.into_iter().find(|one| one["spec"]["names"]["kind"] == kind).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Where an object in which every field is set, and its schema, have not the same fields.
fn differences(value: &Value, schema: &Value, path: &str) -> Vec<String> {
    // Programs read it, or the schema says that it knows no more.
    let is_opaque =
        schema["x-kubernetes-preserve-unknown-fields"] == true || schema["additionalProperties"].is_object();
    let fits = match value {
        Value::String(_) => schema["type"] == "string" || schema["x-kubernetes-int-or-string"] == true,
        Value::Number(_) => schema["type"] == "integer",
        Value::Bool(_) => schema["type"] == "boolean",
        Value::Array(_) => schema["type"] == "array",
        Value::Object(_) => schema["type"] == "object",
        Value::Null => false,
    };
    if !fits {
        return vec![format!("{path} is {value} in the type, and {} in the schema", schema["type"])];
    }
    match value {
        Value::Array(items) => {
            let of_item = |item| differences(item, &schema["items"], &format!("{path}[]"));
            items.iter().flat_map(of_item).collect()
        }
        Value::Object(_) if is_opaque => Vec::new(),
        Value::Object(fields) => {
            let nothing = serde_json::Map::new();
            let properties = schema["properties"].as_object().unwrap_or(&nothing);
            let of_field = |(name, field): (&String, &Value)| match properties.get(name) {
                Some(property) => differences(field, property, &format!("{path}.{name}")),
                None => vec![format!("the schema lacks {path}.{name}")],
            };
            let unknown = properties.keys().filter(|name| !fields.contains_key(*name));
            let unknown = unknown.map(|name| format!("the type lacks {path}.{name}"));
            fields.iter().flat_map(of_field).chain(unknown).collect()
        }
        _ => Vec::new(),
    }
}

fn time() -> Time {
    Time(Timestamp::UNIX_EPOCH)
}

// In what follows every field is named, so that one that is new has to be here, and so in the schema.

fn revision() -> Revision {
    Revision {
        plugin: "example.com/archive".to_owned(),
        image: "r.example/archive".to_owned(),
        digest: "sha256:00".to_owned(),
        grants: [("memory".to_owned(), json!("1Mi"))].into_iter().collect(),
        settings: [("server".to_owned(), json!("a"))].into_iter().collect(),
    }
}

fn stored() -> StoredRevision {
    StoredRevision { revision: "a".to_owned(), content: revision() }
}

fn volume_plugin() -> Value {
    let spec = VolumePluginSpec {
        revision: revision(),
        node_selector: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
        rollout: Rollout {
            max_unavailable: MaxUnavailable::Part("10%".to_owned()),
            paused: true,
            progress_deadline_seconds: Some(60),
        },
    };
    let status = VolumePluginStatus {
        observed_generation: 1,
        current: Some(stored()),
        previous: Some(stored()),
        rolled_back: Some(FailedRevision {
            revision: "a".to_owned(),
            node: "b".to_owned(),
            reason: "c".to_owned(),
            message: "d".to_owned(),
        }),
        nodes: NodeCounts { desired: 4, updated: 3, ready: 2, failed: 1 },
        short_digest: "00".to_owned(),
        phase: "RolledBack".to_owned(),
        conditions: vec![Condition {
            last_transition_time: time(),
            message: "a".to_owned(),
            observed_generation: Some(1),
            reason: "b".to_owned(),
            status: "True".to_owned(),
            type_: "Ready".to_owned(),
        }],
    };
    json!({ "spec": spec, "status": status })
}

fn node_plugins() -> Value {
    let assigned = AssignedPlugin { name: "archive".to_owned(), revision: stored(), since: time() };
    let report = PluginReport {
        name: "archive".to_owned(),
        plugin: "example.com/archive".to_owned(),
        revision: "a".to_owned(),
        digest: "sha256:00".to_owned(),
        state: PluginState::Ready,
        reason: "b".to_owned(),
        message: "c".to_owned(),
        missing: vec!["d".to_owned()],
        since: Some(time()),
    };
    json!({
        "spec": NodePluginsSpec { plugins: Some(vec![assigned]) },
        "status": NodePluginsStatus { accepts_plugins: true, plugins: vec![report] },
    })
}

#[test]
fn the_definitions_have_the_fields_of_the_types_and_no_others() {
    let mut plugins = schema("VolumePlugin");
    // The daemon interprets its keys: see below.
    plugins["properties"]["spec"]["properties"]["grants"]["x-kubernetes-preserve-unknown-fields"] = json!(true);
    assert_eq!(differences(&volume_plugin(), &plugins, ""), Vec::<String>::new());
    assert_eq!(differences(&node_plugins(), &schema("NodePlugins"), ""), Vec::<String>::new());

    // The comparison finds what is missing on either side, and another type.
    let mut fewer = volume_plugin();
    fewer["status"]["nodes"].as_object_mut().unwrap().remove("failed");
    fewer["spec"]["rollout"]["paused"] = json!("yes");
    fewer["status"]["conditions"][0]["more"] = json!(1);
    let found = differences(&fewer, &plugins, "");
    for words in [
        "the type lacks .status.nodes.failed",
        ".spec.rollout.paused is \"yes\"",
        "the schema lacks .status.conditions[].more",
    ] {
        assert!(found.iter().any(|difference| difference.contains(words)), "{words}: {found:?}");
    }
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn the_states_of_a_plugin_are_those_of_the_definition() {
    use PluginState::{Failed, GrantNeeded, Loading, Ready, Removing};
    let all = [Loading, Ready, GrantNeeded, Failed, Removing];
    // A state that is new does not compile here.
    let _known = |state: PluginState| match state {
        Loading | Ready | GrantNeeded | Failed | Removing => (),
    };
    let schema = schema("NodePlugins");
    let states = &schema["properties"]["status"]["properties"]["plugins"]["items"]["properties"]["state"]["enum"];
    assert_eq!(states, &json!(all));
}

#[test]
fn the_grants_of_the_definition_are_those_that_the_daemon_knows() {
    let error = ClusterGrant::read(r#"{"no-such-grant":1}"#, "{}", &Grant::default()).unwrap_err().to_string();
    let known = error.split("expected one of ").nth(1).unwrap_or_else(|| panic!("{error}"));
    let known = known.split('`').skip(1).step_by(2);
    // The cluster names the content by `spec.digest`.
    let known: BTreeSet<&str> = known.filter(|key| *key != "sha256").collect();
    let schema = schema("VolumePlugin");
    let grants = schema["properties"]["spec"]["properties"]["grants"]["properties"].as_object().unwrap();
    assert_eq!(grants.keys().map(String::as_str).collect::<BTreeSet<&str>>(), known);
}
