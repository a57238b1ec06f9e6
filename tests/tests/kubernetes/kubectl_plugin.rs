//! `kubectl volhost`, which kubectl finds in PATH.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use volhost_tests::artifacts;
use volhost_tests::cluster::Cluster;
use volhost_tests::wait::eventually;

use crate::controllers::{Controller, kubeconfig};
use crate::kit::{Driver, MIB};

/// Runs the cluster's kubectl as who has this kubeconfig file.
fn kubectl(cluster: &Cluster, kubeconfig: &Path, arguments: &[&str]) -> Output {
    let path = std::env::var("PATH").unwrap();
    let plugins = artifacts::volhost();
    let mut command = Command::new(cluster.programs().join("kubectl"));
    command
        .env("PATH", format!("{}:{path}", plugins.parent().unwrap().display()))
        .env("KUBECONFIG", kubeconfig)
        .args(arguments)
        .stdin(Stdio::null());
    command.output().unwrap()
}

/// What it says on success.
fn said(cluster: &Cluster, arguments: &[&str]) -> String {
    let output = kubectl(cluster, &cluster.kubeconfig(), arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_pod_is_explained_from_its_claim_to_its_mount() {
    let driver = Driver::start_attached("explained", &[]);
    let cluster = &driver.cluster;
    driver.image("explained-a", 16 * MIB);
    cluster.apply(
        "apiVersion: v1
kind: PersistentVolume
metadata: { name: explained-a }
spec:
  capacity: { storage: 16Mi }
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ''
  claimRef: { namespace: default, name: explained-a-claim }
  csi: { driver: explained.test, volumeHandle: explained-a }
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { name: explained-a-claim }
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ''
  volumeName: explained-a
  resources: { requests: { storage: 16Mi } }
",
    );
    cluster.wait(&["pvc", "explained-a-claim"], "jsonpath={.status.phase}=Bound");
    driver.apply_pod("explained-pod", "explained-a", "volumeMounts: [{ name: data, mountPath: /data }]", "");
    let explained = || said(cluster, &["volhost", "explain", "pod/explained-pod"]);
    // Nothing attaches it: its controller does not run.
    let waits = "not attached to 127.0.0.1, asked for ";
    assert!(eventually(|| explained().contains(waits)), "{}", explained());
    let text = explained();
    for words in [
        "pod default/explained-pod on 127.0.0.1: Pending",
        "data: claim explained-a-claim",
        "done   bound to explained-a",
        "done   explained.test is registered on 127.0.0.1",
        "who acts: the controller of explained.test, which tries again",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let rows = said(cluster, &["volhost", "volumes", "--waiting", "--no-headers"]);
    assert!(rows.lines().any(|row| row.contains("explained-pod") && row.contains("Attaching")), "{rows}");

    let controller = Controller::start(&driver, "explained-controller", &[]);
    cluster.wait_running("explained-pod");
    let text = explained();
    assert!(text.contains("done   attached to 127.0.0.1") && text.contains("done   mounted"), "{text}");
    let rows: Value = serde_json::from_str(&said(cluster, &["volhost", "volumes", "-o", "json"])).unwrap();
    let row = rows.as_array().unwrap().iter().find(|row| row["pod"] == "explained-pod").unwrap();
    assert_eq!((&row["state"], &row["driver"]), (&Value::from("Mounted"), &Value::from("explained.test")));
    let drivers: Value = serde_json::from_str(&said(cluster, &["volhost", "drivers", "-o", "json"])).unwrap();
    let row = drivers.as_array().unwrap().iter().find(|row| row["name"] == "explained.test").unwrap();
    assert_eq!((&row["nodes"], &row["attachments"], &row["attach"]), (&1.into(), &1.into(), &true.into()));
    assert!(row["controller"].as_str().is_some_and(|holder| !holder.is_empty()), "{row}");

    cluster.kubectl(&["delete", "pod", "explained-pod", "--timeout=180s"]);
    assert!(eventually(|| !cluster.kubectl(&["get", "volumeattachments"]).contains("explained-a")));
    // The controller takes its finalizer from the volume.
    driver.assert_gone(&["explained-a"]);
    drop(controller);
}

#[test]
fn a_claim_that_nobody_serves_names_the_cause_and_check_finds_it_when_it_is_late() {
    let cluster = Cluster::shared();
    cluster.apply(
        "apiVersion: v1
kind: PersistentVolumeClaim
metadata: { name: unserved }
spec: { accessModes: [ReadWriteOnce], storageClassName: no-such-class, resources: { requests: { storage: 1Mi } } }
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { name: classless }
spec: { accessModes: [ReadWriteOnce], storageClassName: '', resources: { requests: { storage: 1Mi } } }
",
    );
    let text = said(&cluster, &["volhost", "explain", "pvc", "unserved"]);
    assert!(text.contains("stuck  the StorageClass no-such-class does not exist"), "{text}");
    let text = said(&cluster, &["volhost", "explain", "pvc/classless"]);
    assert!(text.contains("stuck  the claim names no class"), "{text}");

    let check = || kubectl(&cluster, &cluster.kubeconfig(), &["volhost", "check", "--late", "1s", "-o", "json"]);
    let finds = |output: &Output| String::from_utf8_lossy(&output.stdout).contains("pvc/default/unserved");
    assert!(eventually(|| finds(&check())), "{:?}", check());
    assert_eq!(check().status.code(), Some(1));
    cluster.kubectl(&["delete", "pvc", "unserved", "classless"]);
    assert!(!finds(&check()));

    let missing = kubectl(&cluster, &cluster.kubeconfig(), &["volhost", "explain", "pod", "nowhere"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("pod default/nowhere does not exist"), "{missing:?}");
    let wrong = kubectl(&cluster, &cluster.kubeconfig(), &["volhost", "explain", "node/a"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn a_user_who_may_not_read_everything_learns_what_is_missing() {
    let cluster = Cluster::shared();
    let user = "explained-user";
    cluster.apply(&format!(
        "apiVersion: v1
kind: ServiceAccount
metadata: {{ name: {user} }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{ name: {user} }}
rules: [{{ apiGroups: [''], resources: [pods, events], verbs: [get, list] }}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{ name: {user} }}
roleRef: {{ apiGroup: rbac.authorization.k8s.io, kind: Role, name: {user} }}
subjects: [{{ kind: ServiceAccount, name: {user}, namespace: default }}]
---
apiVersion: v1
kind: Pod
metadata: {{ name: {user}-pod }}
spec:
  nodeSelector: {{ no: node }}
  containers: [{{ name: main, image: none, volumeMounts: [{{ name: data, mountPath: /data }}] }}]
  volumes: [{{ name: data, persistentVolumeClaim: {{ claimName: secret-claim }} }}]
"
    ));
    let file = kubeconfig(&cluster, user, "default", user);
    let output = kubectl(&cluster, &file, &["volhost", "explain", &format!("{user}-pod")]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("has no node yet"), "{text}");
    assert!(
        text.contains("the claim secret-claim cannot be read: persistentvolumeclaims \"secret-claim\" is forbidden"),
        "{text}"
    );
    let list = kubectl(&cluster, &file, &["volhost", "volumes"]);
    assert_eq!(list.status.code(), Some(1));
    let refused = String::from_utf8_lossy(&list.stderr);
    assert!(refused.contains("cannot list persistentvolumeclaims") && refused.contains("forbidden"), "{refused}");
    cluster.kubectl(&["delete", "pod", &format!("{user}-pod"), "--now"]);
}
