//! A stock cluster without csi-snapshotter and without snapshot-controller: `volhost controller`
//! takes, restores and deletes snapshots.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use volhost_tests::cluster::Cluster;
use volhost_tests::wait::eventually;

use crate::controllers::Controller;
use crate::kit::Driver;
use crate::storage::Storage;

const ANNOTATIONS: &str = "snapshot.storage.kubernetes.io";

/// A driver with a class of snapshots of its name, and a controller.
struct Snapshots {
    storage: Storage,
    controller: Controller,
    name: String,
}

impl Snapshots {
    fn start(name: &str) -> Self {
        Self::with(name, "Immediate")
    }

    fn with(name: &str, binding: &str) -> Self {
        let storage = Storage::start(name, binding);
        storage.driver.cluster.install_snapshots();
        let started = Self::without_class(storage, name);
        started.class(name, "Delete", "");
        started
    }

    /// Without a class of snapshots.
    fn without_class(storage: Storage, name: &str) -> Self {
        let controller = Controller::start(&storage.driver, &format!("{name}-controller"), &[]);
        Self { storage, controller, name: name.to_owned() }
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        self.storage.driver.cluster.kubectl(arguments)
    }

    fn apply(&self, manifest: &str) {
        self.storage.driver.cluster.apply(manifest);
    }

    /// Makes a class. `more`: further fields.
    fn class(&self, class: &str, policy: &str, more: &str) {
        let driver = self.storage.driver.driver();
        self.apply(&format!(
            "apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata:
  name: {class}
  {more}
driver: {driver}
deletionPolicy: {policy}
"
        ));
    }

    /// Makes a claim, and a file in its volume with this word.
    fn written_claim(&self, claim: &str, word: &str) {
        self.storage.claim(claim, "");
        self.write(claim, word);
    }

    /// Writes this word into the file. The volume is not used afterwards: images are copied at once
    /// only on file systems that share blocks.
    fn write(&self, claim: &str, word: &str) {
        let pod = format!("{claim}-writer");
        self.storage.pod(&pod, claim);
        self.storage.driver.cluster.exec(&pod, &format!("echo {word} > /data/word; sync"));
        self.storage.driver.cluster.delete_pod(&pod);
        let has_device = || !self.storage.driver.devices.all().is_empty();
        assert!(eventually(|| !has_device()), "{}", self.storage.driver.served.log());
    }

    /// The word in the file.
    fn read(&self, claim: &str) -> String {
        let pod = format!("{claim}-reader");
        self.storage.pod(&pod, claim);
        let word = self.storage.driver.cluster.exec(&pod, "cat /data/word");
        self.storage.driver.cluster.delete_pod(&pod);
        word.trim().to_owned()
    }

    /// A claim that is made of a snapshot.
    fn restored_claim(&self, claim: &str, snapshot: &str) {
        let source =
            format!("dataSource: {{ apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: {snapshot} }}");
        self.storage.claim(claim, &source);
    }

    /// Asks for a snapshot of a claim, by this class or by the default one.
    fn snapshot(&self, snapshot: &str, claim: &str, class: Option<&str>) {
        let class = class.map(|class| format!("volumeSnapshotClassName: {class}")).unwrap_or_default();
        self.apply(&snapshot_of(snapshot, &format!("persistentVolumeClaimName: {claim}"), &class));
    }

    fn wait_ready(&self, snapshot: &str) {
        let is_ready = || self.field("volumesnapshot", snapshot, ".status.readyToUse") == "true";
        assert!(eventually(is_ready), "{snapshot}\n{}\n{}", self.controller.known(), self.storage.driver.served.log());
    }

    /// A field of an object: empty where it has none.
    fn field(&self, kind: &str, name: &str, path: &str) -> String {
        let path = format!("jsonpath={{{path}}}");
        self.storage.driver.cluster.try_kubectl(&["get", kind, name, "-o", &path]).unwrap_or_default()
    }

    /// The name of the content of this snapshot.
    fn content(&self, snapshot: &str) -> String {
        self.field("volumesnapshot", snapshot, ".status.boundVolumeSnapshotContentName")
    }

    /// The reasons and the notes of the events on the object of this name.
    fn said(&self, name: &str) -> String {
        let of = format!("involvedObject.name={name}");
        let what = "jsonpath={range .items[*]}{.reason} {.message}{\"\\n\"}{end}";
        self.kubectl(&["get", "events", "-A", "--field-selector", &of, "-o", what])
    }

    fn wait_said(&self, name: &str, reason: &str, note: &str) {
        let is_said =
            || self.said(name).lines().any(|line| line.starts_with(&format!("{reason} ")) && line.contains(note));
        assert!(eventually(is_said), "{name}: {reason} {note}: {}\n{}", self.said(name), self.controller.known());
    }

    /// The snapshots that the driver has.
    fn taken(&self) -> Vec<String> {
        let files = fs::read_dir(self.storage.driver.images()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().display().to_string());
        names.filter(|name| name.starts_with(".snapshot-")).collect()
    }

    /// The contents of this driver.
    fn contents(&self) -> Vec<String> {
        let of_driver = format!(
            "jsonpath={{range .items[?(@.spec.driver==\"{}\")]}}{{.metadata.name}} {{end}}",
            self.storage.driver.driver()
        );
        let found = self.kubectl(&["get", "volumesnapshotcontents", "-o", &of_driver]);
        found.split_whitespace().map(str::to_owned).collect()
    }

    /// Deletes without waiting for the end.
    fn delete(&self, kind: &str, names: &[&str]) {
        self.kubectl(&[&["delete", kind, "--wait=false"], names].concat());
    }

    /// The snapshots of this test that exist.
    fn existing(&self) -> Vec<String> {
        let all = self.kubectl(&["get", "volumesnapshots", "-o", "jsonpath={.items[*].metadata.name}"]);
        all.split_whitespace().filter(|name| name.starts_with(&self.name)).map(str::to_owned).collect()
    }

    /// Waits until no snapshot of this test is left: none in the cluster, none of the driver.
    fn assert_no_snapshot(&self, controller: &Controller) {
        let is_gone = || self.existing().is_empty() && self.contents().is_empty() && self.taken().is_empty();
        let left = || (self.existing(), self.contents(), self.taken());
        assert!(eventually(is_gone), "{:?}\n{}\n{}", left(), controller.known(), self.storage.driver.served.log());
    }

    /// Deletes these claims, and waits until nothing is left at all.
    fn assert_gone(&self, controller: &Controller, claims: &[&str]) {
        self.assert_no_snapshot(controller);
        for claim in claims {
            self.kubectl(&["delete", "pvc", claim]);
        }
        self.storage.assert_gone(controller);
        controller.assert_permitted();
    }
}

fn snapshot_of(snapshot: &str, source: &str, more: &str) -> String {
    format!(
        "---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {{ name: {snapshot}, namespace: default }}
spec:
  source: {{ {source} }}
  {more}
"
    )
}

#[test]
fn a_snapshot_keeps_what_a_container_wrote_and_is_restored_and_deleted() {
    let test = Snapshots::start("kept");
    test.class("kept", "Delete", &format!("annotations: {{ {ANNOTATIONS}/is-default-class: 'true' }}"));
    test.written_claim("kept-claim", "early");
    // Restored as soon as the snapshot is there.
    test.restored_claim("kept-restored", "kept-snapshot");
    test.snapshot("kept-snapshot", "kept-claim", None);
    test.wait_ready("kept-snapshot");
    let field = |path: &str| test.field("volumesnapshot", "kept-snapshot", path);
    assert_eq!(field(".spec.volumeSnapshotClassName"), "kept");
    assert_eq!(field(".status.restoreSize"), "16Mi");
    assert!(field(".status.creationTime").ends_with('Z'), "{}", field(".status"));
    assert_eq!(field(".status.error"), "");
    for (reason, note) in [
        ("CreatingSnapshot", "to be created by the CSI driver"),
        ("SnapshotCreated", "default/kept-snapshot"),
        ("SnapshotReady", "is ready to use"),
    ] {
        test.wait_said("kept-snapshot", reason, note);
    }
    let content = test.content("kept-snapshot");
    assert_eq!(content, format!("snapcontent-{}", field(".metadata.uid")));
    let annotations = || test.field("volumesnapshotcontent", &content, ".metadata.annotations");
    assert!(eventually(|| annotations().is_empty()), "{}", annotations());
    let finalizers = || test.field("pvc", "kept-claim", ".metadata.finalizers");
    assert!(eventually(|| !finalizers().contains("pvc-as-source-protection")), "{}", finalizers());

    test.write("kept-claim", "late");
    assert_eq!(test.read("kept-restored"), "early");
    // Its source is gone.
    test.kubectl(&["delete", "pvc", "kept-claim"]);
    test.restored_claim("kept-again", "kept-snapshot");
    assert_eq!(test.read("kept-again"), "early");
    test.kubectl(&["delete", "volumesnapshot", "kept-snapshot"]);
    test.assert_gone(&test.controller, &["kept-restored", "kept-again"]);
}

#[test]
fn snapshots_contents_and_claims_go_in_every_order() {
    let test = Snapshots::with("order", "WaitForFirstConsumer");
    test.written_claim("order-claim", "word");
    for snapshot in ["order-a", "order-b", "order-c"] {
        test.snapshot(snapshot, "order-claim", Some("order"));
    }
    for snapshot in ["order-a", "order-b", "order-c"] {
        test.wait_ready(snapshot);
    }
    assert_eq!(test.taken().len(), 3);
    // The content waits for its snapshot.
    let content = test.content("order-a");
    test.delete("volumesnapshotcontent", &[&content]);
    assert!(test.controller.log().contains("this replica leads"));
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(test.taken().len(), 3);
    assert_eq!(test.field("volumesnapshotcontent", &content, ".metadata.name"), content);
    test.kubectl(&["delete", "volumesnapshot", "order-a"]);
    test.storage.driver.cluster.wait(&["volumesnapshotcontent", &content], "delete");
    assert!(eventually(|| test.taken().len() == 2), "{:?}", test.taken());

    // The snapshot waits for the claim that is to be made of it.
    test.restored_claim("order-waiting", "order-b");
    test.delete("volumesnapshot", &["order-b"]);
    test.wait_said("order-b", "SnapshotDeletePending", "restore a PVC");
    assert_eq!(test.taken().len(), 2);
    test.kubectl(&["delete", "pvc", "order-waiting"]);
    test.storage.driver.cluster.wait(&["volumesnapshot", "order-b"], "delete");

    // All at once, the source first.
    test.delete("pvc", &["order-claim"]);
    test.delete("volumesnapshot", &["order-c"]);
    test.assert_gone(&test.controller, &[]);
}

#[test]
fn a_retained_snapshot_stays_and_is_bound_again_by_its_handle() {
    let test = Snapshots::start("retain");
    test.class("retain-kept", "Retain", "");
    test.written_claim("retain-claim", "word");
    test.snapshot("retain-first", "retain-claim", Some("retain-kept"));
    test.wait_ready("retain-first");
    let content = test.content("retain-first");
    let handle = test.field("volumesnapshotcontent", &content, ".status.snapshotHandle");
    test.kubectl(&["delete", "volumesnapshot", "retain-first"]);
    test.kubectl(&["delete", "volumesnapshotcontent", &content]);
    assert_eq!(test.taken().len(), 1);

    // By its handle, the snapshot before the content.
    let source = "volumeSnapshotContentName: retain-there";
    test.apply(&snapshot_of("retain-second", source, "volumeSnapshotClassName: retain"));
    test.wait_said("retain-second", "SnapshotContentMissing", "VolumeSnapshotContent is missing");
    let there = |name: &str, snapshot: &str, handle: &str| {
        test.apply(&format!(
            "apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotContent
metadata: {{ name: {name} }}
spec:
  driver: retain.test
  deletionPolicy: Delete
  source: {{ snapshotHandle: '{handle}' }}
  sourceVolumeMode: Filesystem
  volumeSnapshotRef: {{ name: {snapshot}, namespace: default }}
"
        ));
    };
    there("retain-there", "retain-second", &handle);
    test.wait_ready("retain-second");
    let uid = test.field("volumesnapshot", "retain-second", ".metadata.uid");
    assert_eq!(test.field("volumesnapshotcontent", "retain-there", ".spec.volumeSnapshotRef.uid"), uid);
    assert_eq!(test.field("volumesnapshot", "retain-second", ".status.restoreSize"), "16Mi");
    assert_eq!(test.field("volumesnapshot", "retain-second", ".status.error"), "");
    test.restored_claim("retain-restored", "retain-second");
    assert_eq!(test.read("retain-restored"), "word");

    // A content for another snapshot, one of the other kind, and one of nothing.
    test.apply(&snapshot_of("retain-thief", source, ""));
    test.wait_said("retain-thief", "SnapshotContentMisbound", "bound to a different snapshot");
    test.snapshot("retain-fourth", "retain-claim", Some("retain"));
    test.wait_ready("retain-fourth");
    let dynamic = format!("volumeSnapshotContentName: {}", test.content("retain-fourth"));
    test.apply(&snapshot_of("retain-mixed", &dynamic, ""));
    test.wait_said("retain-mixed", "SnapshotContentMismatch", "is dynamically provisioned");
    there("retain-nowhere", "retain-lost", "snapshot-none@none");
    test.apply(&snapshot_of("retain-lost", "volumeSnapshotContentName: retain-nowhere", ""));
    test.wait_said("retain-lost", "SnapshotContentCheckandUpdateFailed", "GetSnapshot");
    let shown = || test.field("volumesnapshot", "retain-lost", ".status.error.message");
    assert!(eventually(|| shown().contains("GetSnapshot")), "{}", shown());

    test.delete("volumesnapshot", &["retain-second", "retain-thief", "retain-fourth", "retain-mixed", "retain-lost"]);
    test.assert_gone(&test.controller, &["retain-claim", "retain-restored"]);
}

#[test]
fn snapshots_that_cannot_be_taken_say_why_and_delay_no_other() {
    let test = Snapshots::start("vain");
    test.class("vain-reserved", "Delete", "");
    let patch = r#"{"parameters": {"csi.storage.k8s.io/color": "red"}}"#;
    test.kubectl(&["patch", "volumesnapshotclass", "vain-reserved", "--type=merge", "-p", patch]);
    test.class("vain-secret", "Delete", "");
    let patch = r#"{"parameters": {"csi.storage.k8s.io/snapshotter-secret-name": "absent", "csi.storage.k8s.io/snapshotter-secret-namespace": "default"}}"#;
    test.kubectl(&["patch", "volumesnapshotclass", "vain-secret", "--type=merge", "-p", patch]);
    test.storage.claim("vain-claim", "");
    let claim = "vain-claim";
    test.snapshot("vain-class", claim, Some("vain-late"));
    test.snapshot("vain-reserved", claim, Some("vain-reserved"));
    test.snapshot("vain-secret", claim, Some("vain-secret"));
    test.snapshot("vain-unclaimed", "vain-late", Some("vain"));
    test.snapshot("vain-default", claim, None);
    let long = "x".repeat(700_000);
    test.kubectl(&["annotate", "pvc", claim, "note=this is a volume"]);
    let huge = snapshot_of("vain-huge", &format!("persistentVolumeClaimName: {long}"), "volumeSnapshotClassName: vain");
    test.storage.driver.cluster.kubectl_with(&["create", "-f", "-"], &huge);
    test.snapshot("vain-good", claim, Some("vain"));
    test.wait_ready("vain-good");
    for (snapshot, reason, note) in [
        ("vain-class", "GetSnapshotClassFailed", "\"vain-late\" not found"),
        ("vain-reserved", "SnapshotContentCreationFailed", "csi.storage.k8s.io/color"),
        ("vain-secret", "SnapshotCreationFailed", "cannot read Secret default/absent"),
        ("vain-unclaimed", "SnapshotContentCreationFailed", "\"vain-late\" is not found"),
        ("vain-default", "SetDefaultSnapshotClassFailed", "cannot find default snapshot class"),
        ("vain-huge", "SnapshotContentCreationFailed", "xxxx"),
    ] {
        test.wait_said(snapshot, reason, note);
        let shown = || test.field("volumesnapshot", snapshot, ".status.error.message");
        assert!(eventually(|| shown().contains(note)), "{snapshot}: {}", shown());
    }
    // Two default classes are one too many; then one is enough, and what was missed comes.
    let default = format!("{ANNOTATIONS}/is-default-class=true");
    test.kubectl(&["annotate", "volumesnapshotclass", "vain-reserved", "vain", &default]);
    let shown = || test.field("volumesnapshot", "vain-default", ".status.error.message");
    assert!(eventually(|| shown().contains("2 default snapshot classes were found")), "{}", shown());
    test.kubectl(&["annotate", "volumesnapshotclass", "vain-reserved", &format!("{ANNOTATIONS}/is-default-class-")]);
    test.wait_ready("vain-default");
    test.class("vain-late", "Delete", "");
    test.wait_ready("vain-class");
    test.storage.claim("vain-late", "");
    test.wait_ready("vain-unclaimed");
    assert_eq!(test.field("volumesnapshot", "vain-unclaimed", ".status.error"), "");
    let all: Vec<String> = test.existing();
    // Its Secret is absent: it has asked the driver for nothing.
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: { name: absent }\n";
    test.apply(secret);
    test.apply(
        "apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: vain-secret }
rules: [{ apiGroups: [''], resources: [secrets], resourceNames: [absent], verbs: [get] }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: vain-secret }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: vain-secret }
subjects: [{ kind: ServiceAccount, name: volhost-csi-controller, namespace: volhost-csi }]
",
    );
    test.delete("volumesnapshot", &all.iter().map(String::as_str).collect::<Vec<_>>());
    test.assert_no_snapshot(&test.controller);
    test.delete("pvc", &["vain-claim", "vain-late"]);
    test.storage.assert_gone(&test.controller);
}

/// What is known comes by watches: no object is asked for, and one is written only where something
/// is to be said.
#[test]
fn a_snapshot_costs_the_api_server_few_requests() {
    const COUNT: usize = 10;
    let test = Snapshots::start("thrifty");
    test.controller.wait_leads();
    test.storage.claim("thrifty-claim", "");
    // The controller knows that the claim is bound once it has taken a snapshot of it.
    test.snapshot("thrifty-before", "thrifty-claim", Some("thrifty"));
    test.wait_ready("thrifty-before");
    test.delete("volumesnapshot", &["thrifty-before"]);
    test.assert_no_snapshot(&test.controller);
    // A controller also ends snapshots of which nobody knows whose they are: other tests have some.
    let requests = || {
        test.controller.requests_that(|request| {
            let object = &request["objectRef"];
            object["resource"] != "volumesnapshots"
                || object["name"].as_str().is_some_and(|name| name.starts_with("thrifty-"))
        })
    };
    let before = requests().len();
    let names: Vec<String> = (0..COUNT).map(|number| format!("thrifty-{number}")).collect();
    // One after the other: the driver refuses two copies of a volume at once.
    for name in &names {
        test.snapshot(name, "thrifty-claim", Some("thrifty"));
        test.wait_ready(name);
    }
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    test.delete("volumesnapshot", &all);
    test.assert_no_snapshot(&test.controller);
    let requests = requests().split_off(before);
    let count = |verb: &str, resource: &str| {
        requests.iter().filter(|request| **request == (verb.to_owned(), resource.to_owned())).count()
    };
    // Finalizers on and off; bound, and ready.
    assert_eq!(count("patch", "volumesnapshots"), 2 * COUNT, "{requests:?}");
    assert_eq!(count("patch", "volumesnapshots/status"), 2 * COUNT, "{requests:?}");
    assert_eq!(count("create", "volumesnapshotcontents"), COUNT, "{requests:?}");
    assert_eq!(count("patch", "volumesnapshotcontents/status"), COUNT, "{requests:?}");
    // The call is over, the snapshot is deleted, the finalizer.
    assert_eq!(count("patch", "volumesnapshotcontents"), 3 * COUNT, "{requests:?}");
    assert_eq!(count("delete", "volumesnapshotcontents"), COUNT, "{requests:?}");
    // The finalizer of the claim.
    assert_eq!(count("patch", "persistentvolumeclaims"), 2 * COUNT, "{requests:?}");
    let got = requests.iter().filter(|(verb, _)| verb == "get" || verb == "list");
    assert_eq!(got.collect::<Vec<_>>(), Vec::<&(String, String)>::new());
    test.assert_gone(&test.controller, &["thrifty-claim"]);
}

/// As when the machine of the controller fails while the driver takes a snapshot, and while it
/// deletes one.
#[test]
fn a_controller_that_is_killed_between_the_driver_and_the_status_loses_no_snapshot() {
    let mut test = Snapshots::start("torn");
    test.controller.wait_leads();
    test.written_claim("torn-claim", "word");
    let driver = test.storage.driver.served.pid().to_string();
    let signal = |signal: &str| assert!(Command::new("kill").args([signal, &driver]).status().unwrap().success());
    // The driver has the call, and has not answered.
    let call = |test: &Snapshots, snapshot: &str| {
        signal("-STOP");
        test.snapshot(snapshot, "torn-claim", Some("torn"));
        let uid = || test.field("volumesnapshot", snapshot, ".metadata.uid");
        let asked = || test.contents().contains(&format!("snapcontent-{}", uid()));
        assert!(eventually(asked), "{}", test.controller.known());
        let socket = test.storage.driver.served.socket();
        assert!(eventually(|| has_unread_bytes(&socket)), "{}", test.controller.known());
    };
    call(&test, "torn-first");
    test.controller.kill();
    signal("-CONT");
    let mut second = Controller::start(&test.storage.driver, "torn-second", &[]);
    second.wait_leads();
    test.wait_ready("torn-first");
    assert_eq!(test.taken().len(), 1, "{:?}", test.taken());

    // Deleted before the next one leads.
    call(&test, "torn-deleted");
    second.kill();
    signal("-CONT");
    test.delete("volumesnapshot", &["torn-deleted"]);
    let mut third = Controller::start(&test.storage.driver, "torn-third", &[]);
    third.wait_leads();
    test.storage.driver.cluster.wait(&["volumesnapshot", "torn-deleted"], "delete");
    assert!(eventually(|| test.contents().len() == 1 && test.taken().len() == 1), "{:?}", test.taken());
    test.restored_claim("torn-restored", "torn-first");
    assert_eq!(test.read("torn-restored"), "word");

    // While it is deleted.
    signal("-STOP");
    test.delete("volumesnapshot", &["torn-first"]);
    let content = test.content("torn-first");
    let is_deleted = || !test.field("volumesnapshotcontent", &content, ".metadata.deletionTimestamp").is_empty();
    assert!(eventually(is_deleted), "{}", third.known());
    third.kill();
    signal("-CONT");
    let last = Controller::start(&test.storage.driver, "torn-last", &[]);
    test.assert_gone(&last, &["torn-claim", "torn-restored"]);
}

/// Whether a server's connection at this socket has bytes that the server has not read.
fn has_unread_bytes(socket: &Path) -> bool {
    let listed = Command::new("ss").args(["--no-header", "--unix", "--all"]).output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    let path = socket.display().to_string();
    text.lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .any(|fields| fields.contains(&path.as_str()) && fields.get(1) == Some(&"ESTAB") && fields.get(2) != Some(&"0"))
}

/// Installs the custom resources with definitions that check nothing. Not by a change of those that
/// check: the API server ends the watches of a definition that has changed minutes later.
fn install_unchecked(cluster: &Cluster) {
    let mut names = Vec::new();
    let mut manifest = String::new();
    for file in fs::read_dir(cluster.manifests().join("crds")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let definitions: Vec<Option<Value>> = serde_saphyr::from_multiple(&text).unwrap();
        for mut definition in definitions.into_iter().flatten() {
            for version in definition["spec"]["versions"].as_array_mut().unwrap() {
                let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
                version["schema"] = json!({ "openAPIV3Schema": anything });
            }
            names.push(format!("crd/{}", definition["metadata"]["name"].as_str().unwrap()));
            manifest += &format!("---\n{definition}\n");
        }
    }
    assert!(names.len() >= 3, "{names:?}");
    cluster.kubectl_with(&["apply", "-f", "-"], &manifest);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    cluster.kubectl(&[&["wait", "--for=condition=Established", "--timeout=180s"], &names[..]].concat());
}

/// A cluster may get the custom resources later, may lose them, and may have definitions that check
/// nothing.
#[test]
fn the_custom_resources_may_come_late_and_hold_anything_and_go() {
    let cluster = Arc::new(Cluster::start_control_plane());
    let driver = Driver::start_in(Arc::clone(&cluster), "late", &[], false);
    let test = Snapshots::without_class(Storage::of(driver, "late", "Immediate", "ext4", "16Mi"), "late");
    test.controller.wait_leads();
    test.storage.claim("late-claim", "");
    cluster.wait(&["pvc", "late-claim"], "jsonpath={.status.phase}=Bound");
    // Without them: no watch that fails, and no claim that is made of a snapshot.
    test.restored_claim("late-restored", "late-snapshot");
    test.wait_said("late-restored", "ProvisioningFailed", "the snapshot late-snapshot is not found");
    assert!(!test.controller.log().contains("cannot be watched"), "{}", test.controller.log());

    install_unchecked(&cluster);
    let known = || test.controller.log().matches("has the custom resources of snapshots\n").count();
    assert!(eventually(|| known() == 1), "{}", test.controller.log());
    test.class("late", "Delete", "");
    test.snapshot("late-snapshot", "late-claim", Some("late"));
    test.wait_ready("late-snapshot");
    cluster.wait(&["pvc", "late-restored"], "jsonpath={.status.phase}=Bound");

    // Objects that no program can use.
    let odd = |kind: &str, name: &str, fields: &str| {
        let object = format!(
            r#"{{"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "{kind}", "metadata": {{"name": "{name}"}}, {fields}}}"#
        );
        cluster.kubectl_with(&["create", "--validate=false", "-f", "-"], &object);
    };
    odd("VolumeSnapshot", "late-text", r#""spec": "text""#);
    odd("VolumeSnapshot", "late-types", r#""spec": {"source": {"persistentVolumeClaimName": {"a": [1]}}}"#);
    odd("VolumeSnapshot", "late-status", r#""spec": {"source": {"persistentVolumeClaimName": "late-claim"}}"#);
    let status = ["--subresource=status", "--type=merge", "-p", r#"{"status": 7}"#];
    test.kubectl(&[&["patch", "volumesnapshot", "late-status"], &status[..]].concat());
    odd("VolumeSnapshotContent", "late-content", r#""spec": {"driver": ["late.test"], "source": 1}"#);
    odd("VolumeSnapshotClass", "late-class", r#""driver": {"late": "test"}, "parameters": "none""#);
    let circle = r#""spec": {"source": {"volumeSnapshotContentName": "late-circle"}}"#;
    odd("VolumeSnapshot", "late-circle", circle);
    let circle = r#""spec": {"driver": "late.test", "deletionPolicy": "Delete", "source": {"snapshotHandle": "x", "volumeHandle": "x"}, "volumeSnapshotRef": {"name": "late-circle", "namespace": "default"}}"#;
    odd("VolumeSnapshotContent", "late-circle", circle);
    for snapshot in ["late-text", "late-types", "late-status"] {
        test.wait_said(snapshot, "SnapshotValidationError", "cannot be read");
    }
    test.wait_said("late-content", "ContentValidationError", "cannot be read");
    test.wait_said("late-circle", "ContentValidationError", "Exactly one of");
    // A content that is bound is deleted with its snapshot. One that is not is left to its user.
    let bound = || test.field("volumesnapshotcontent", "late-circle", ".spec.volumeSnapshotRef.uid");
    assert!(eventually(|| !bound().is_empty()), "{}", test.controller.known());
    test.snapshot("late-good", "late-claim", Some("late"));
    test.wait_ready("late-good");
    let all = ["late-snapshot", "late-good", "late-text", "late-types", "late-status", "late-circle"];
    test.delete("volumesnapshot", &all);
    // The other one has gone with its snapshot.
    test.delete("volumesnapshotcontent", &["late-content"]);
    test.assert_no_snapshot(&test.controller);

    // They go, and the rest goes on.
    let resources = cluster.manifests().join("crds").display().to_string();
    test.kubectl(&["delete", "-f", &resources]);
    let lost = || test.controller.log().contains("has the custom resources of snapshots no more");
    assert!(eventually(lost), "{}", test.controller.log());
    test.kubectl(&["delete", "pvc", "late-claim", "late-restored"]);
    let is_gone = || test.storage.volumes().is_empty() && test.storage.images().is_empty();
    assert!(eventually(is_gone), "{}", test.controller.known());
    test.controller.assert_permitted();
}
