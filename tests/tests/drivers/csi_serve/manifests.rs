//! The manifests for a cluster are of the types that an API server takes, and fit together and to
//! the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Namespace, PodSpec, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::Value;
use volhost_tests::artifacts::{self, workspace};

use crate::csi_serve::kit::Host;

const NAMESPACE: &str = "volhost-csi";

fn objects(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(workspace().join("deploy").join(file)).unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The files that make the whole: the driver, and then snapshots on top of it, and groups of them.
const KUSTOMIZATIONS: [&str; 3] = ["csi", "csi-snapshots", "csi-group-snapshots"];

fn all() -> Vec<Value> {
    let mut all = Vec::new();
    for folder in KUSTOMIZATIONS {
        let listed: Value = objects(&format!("{folder}/kustomization.yaml")).remove(0);
        let resources = listed["resources"].as_array().unwrap().iter().map(|file| file.as_str().unwrap());
        all.extend(
            resources.filter(|file| !file.starts_with("../")).flat_map(|file| objects(&format!("{folder}/{file}"))),
        );
    }
    all
}

/// The object as this type, whole: a field that the type does not have is an error.
fn typed<T: serde::de::DeserializeOwned + serde::Serialize>(object: &Value) -> T {
    let typed: T = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
    assert_eq!(normal(&serde_json::to_value(&typed).unwrap()), normal(object), "a field is not of its type");
    typed
}

/// Without what says nothing.
fn normal(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), normal(value)))
                .filter(|(_, value)| !value.is_null() && *value != Value::Object(serde_json::Map::new()))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(normal).collect()),
        other => other.clone(),
    }
}

fn pods() -> Vec<PodSpec> {
    let mut pods = Vec::new();
    for object in all() {
        match object["kind"].as_str().unwrap() {
            "DaemonSet" => pods.push(typed::<DaemonSet>(&object).spec.unwrap().template.spec.unwrap()),
            "Deployment" => pods.push(typed::<Deployment>(&object).spec.unwrap().template.spec.unwrap()),
            _ => {}
        }
    }
    assert_eq!(pods.len(), 2);
    pods
}

#[test]
fn every_manifest_is_of_its_type_and_in_its_place() {
    for object in all() {
        let kind = object["kind"].as_str().unwrap();
        match kind {
            "Namespace" => assert_eq!(typed::<Namespace>(&object).metadata.name.as_deref(), Some(NAMESPACE)),
            "StorageClass" => assert_eq!(typed::<StorageClass>(&object).provisioner, "loop.volhost.io"),
            "ServiceAccount" => drop(typed::<ServiceAccount>(&object)),
            "ClusterRole" => drop(typed::<ClusterRole>(&object)),
            "ClusterRoleBinding" => drop(typed::<ClusterRoleBinding>(&object)),
            "Role" => drop(typed::<Role>(&object)),
            "RoleBinding" => drop(typed::<RoleBinding>(&object)),
            "DaemonSet" => drop(typed::<DaemonSet>(&object)),
            "Deployment" => drop(typed::<Deployment>(&object)),
            // A custom resource.
            "VolumeSnapshotClass" | "VolumeGroupSnapshotClass" => assert_eq!(object["driver"], "loop.volhost.io"),
            other => panic!("{other} is looked at by no test"),
        }
        let clusters = [
            "Namespace",
            "StorageClass",
            "VolumeSnapshotClass",
            "VolumeGroupSnapshotClass",
            "ClusterRole",
            "ClusterRoleBinding",
        ];
        let expected = if clusters.contains(&kind) { Value::Null } else { Value::from(NAMESPACE) };
        assert_eq!(object["metadata"]["namespace"], expected, "{kind}");
    }
}

#[test]
fn what_a_manifest_names_is_there() {
    let named = |kind: &str| -> BTreeSet<String> {
        let names = all().into_iter().filter(|object| object["kind"] == kind);
        names.map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    for object in all().iter().filter(|object| object["kind"].as_str().unwrap().ends_with("Binding")) {
        let (role, subject) = (&object["roleRef"], &object["subjects"][0]);
        assert!(named(role["kind"].as_str().unwrap()).contains(role["name"].as_str().unwrap()), "{object}");
        assert!(named("ServiceAccount").contains(subject["name"].as_str().unwrap()), "{object}");
        assert_eq!(subject["namespace"], NAMESPACE);
    }
    let listed = KUSTOMIZATIONS.map(|folder| objects(&format!("{folder}/kustomization.yaml")).remove(0));
    let images = listed.iter().flat_map(|listed| listed["images"].as_array().into_iter().flatten());
    let images: BTreeSet<&str> = images.map(|image| image["name"].as_str().unwrap()).collect();
    let mut used = BTreeSet::new();
    for pod in pods() {
        assert!(named("ServiceAccount").contains(pod.service_account_name.as_deref().unwrap()));
        let volumes: BTreeSet<String> = pod.volumes.unwrap().into_iter().map(|volume| volume.name).collect();
        let mut mounted = BTreeSet::new();
        for container in &pod.containers {
            used.insert(container.image.clone().unwrap());
            mounted.extend(container.volume_mounts.iter().flatten().map(|mount| mount.name.clone()));
            let arguments = container.args.as_ref().unwrap();
            let has = |argument: &str| arguments.iter().any(|one| one == argument);
            let has_socket = match container.name.as_str() {
                // Where the kubelet looks, or beside the controller.
                "driver" => has("--kubernetes") != has("--endpoint=unix:///csi/csi.sock"),
                "controller" => has("--csi=unix:///csi/csi.sock"),
                other => panic!("{other}"),
            };
            assert!(has_socket, "{}", container.name);
        }
        assert_eq!(mounted, volumes, "every volume is mounted, and every mount is of a volume");
    }
    assert_eq!(used.iter().map(String::as_str).collect::<BTreeSet<_>>(), images);
}

/// The program that speaks to the API server, beside `volhost`.
fn controller() -> PathBuf {
    artifacts::volhost().with_file_name("volhost-controller")
}

/// Checks that the program has this command with these options.
fn check_options(program: &Path, command: &str, arguments: &[String]) {
    let help = Command::new(program).args([command, "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert_eq!(arguments[0], command);
    for argument in arguments[1..].iter().filter(|argument| *argument != command) {
        let option = argument.split('=').next().unwrap();
        assert!(help.contains(&format!("{option} ")) || help.contains(&format!("{option}\n")), "{option}");
    }
}

#[test]
fn a_probe_says_whether_a_driver_is_ready() {
    let mut host = Host::start(&[]);
    let endpoint = format!("--csi=unix://{}", host.served.socket().display());
    let probe = || Command::new(artifacts::volhost()).args(["csi-probe", &endpoint]).output().unwrap();
    let answer = probe();
    assert!(answer.status.success() && answer.stdout.is_empty() && answer.stderr.is_empty(), "{answer:?}");
    host.served.kill();
    let answer = probe();
    let said = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert_eq!(answer.status.code(), Some(1), "{said}");
    assert!(said.contains("csi.sock does not answer Probe"), "{said}");
}

#[test]
fn the_programs_are_started_as_they_can_be() {
    for pod in pods() {
        let named = |name: &str| pod.containers.iter().find(|container| container.name == name);
        let driver = named("driver").unwrap();
        check_options(&artifacts::volhostd(), "csi-serve", driver.args.as_ref().unwrap());
        let probe = driver.liveness_probe.as_ref().unwrap().exec.as_ref().unwrap().command.as_ref().unwrap();
        assert_eq!(probe[0], "volhost-controller");
        check_options(&controller(), "csi-probe", &probe[1..]);
        if let Some(container) = named("controller") {
            assert_eq!(container.command.as_deref(), Some(&["volhost-controller".to_owned()][..]));
            check_options(&controller(), "controller", container.args.as_ref().unwrap());
        }
    }
    let node = &pods()[0].containers[0];
    let kubelet = node.volume_mounts.as_ref().unwrap().iter().find(|mount| mount.name == "kubelet").unwrap().clone();
    assert_eq!(
        (kubelet.mount_path.as_str(), kubelet.mount_propagation.as_deref()),
        ("/var/lib/kubelet", Some("Bidirectional"))
    );
}
