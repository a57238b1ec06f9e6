//! The manifests in `deploy/csi`, `deploy/csi-snapshots` and `deploy/csi-group-snapshots`, on a real API server that checks
//! permissions.

use serde_json::{Value, json};
use volhost_tests::cluster::Cluster;

use crate::controllers::{NAMESPACE, deploy};

/// A call to the API server: group, resource with its subresource, verb, and a namespace for one
/// that is in a Role.
type ApiCall = (String, String, String, Option<&'static str>);

/// Asks the API server which of these calls the account may make.
fn allowed(cluster: &Cluster, account: &str, calls: &[ApiCall]) -> Vec<bool> {
    let reviews = calls.iter().map(|(group, resource, verb, namespace)| {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": format!("system:serviceaccount:{NAMESPACE}:{account}"),
                "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{NAMESPACE}"), "system:authenticated"],
                "resourceAttributes": {
                    "group": group, "resource": resource, "subresource": subresource, "verb": verb, "namespace": namespace,
                },
            },
        })
    });
    let manifest: String = reviews.map(|review| format!("---\n{review}\n")).collect();
    let answers = cluster.kubectl_with(&["create", "-f", "-", "-o", "json"], &manifest);
    let answers = serde_json::Deserializer::from_str(&answers).into_iter::<Value>();
    let answers: Vec<bool> = answers.map(|answer| answer.unwrap()["status"]["allowed"] == true).collect();
    assert_eq!(answers.len(), calls.len());
    answers
}

#[test]
fn the_manifests_are_accepted_and_permit_not_much_more_than_what_is_called() {
    let cluster = Cluster::shared();
    // A cluster without custom resources, and then one with them.
    for more in ["--dry-run=none", "--dry-run=server"] {
        deploy(&cluster, "csi", &[more]);
    }
    cluster.install_snapshots();
    for more in ["--dry-run=server", "--dry-run=none"] {
        deploy(&cluster, "csi-snapshots", &[more]);
        deploy(&cluster, "csi-group-snapshots", &[more]);
    }

    let call = |group: &str, resource: &str, verb: &str| -> ApiCall {
        (group.to_owned(), resource.to_owned(), verb.to_owned(), Some(NAMESPACE))
    };
    let too_much = [
        call("", "secrets", "get"),
        call("", "pods", "create"),
        call("", "nodes", "patch"),
        call("rbac.authorization.k8s.io", "clusterroles", "create"),
        call("storage.k8s.io", "volumeattachments", "create"),
        // That of its own driver alone, by name.
        call("storage.k8s.io", "csidrivers", "create"),
        call("storage.k8s.io", "csidrivers", "delete"),
    ];
    assert!(!allowed(&cluster, "volhost-csi-controller", &too_much).contains(&true));
    // The driver on a node calls no API server.
    let node = [
        &too_much[..],
        &[
            call("", "pods", "list"),
            call("", "persistentvolumes", "get"),
            call("storage.k8s.io", "csinodes", "get"),
            call("", "nodes", "get"),
            call("", "events", "create"),
        ],
    ]
    .concat();
    assert!(!allowed(&cluster, "volhost-csi-node", &node).contains(&true));
}

#[test]
fn the_manifests_of_the_other_controllers_are_accepted() {
    let cluster = Cluster::shared();
    for (folder, namespace) in [("attach-detach", "volhost-attach-detach"), ("plugins", "volhost-plugins")] {
        // Nothing is looked up in a namespace that is not there.
        cluster.apply(&format!("{{ apiVersion: v1, kind: Namespace, metadata: {{ name: {namespace} }} }}"));
        deploy(&cluster, folder, &["--dry-run=server"]);
    }
}
