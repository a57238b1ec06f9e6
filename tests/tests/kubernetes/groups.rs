//! Snapshots of several volumes at one moment, taken by `volhost controller` without a sidecar.

use sha2::{Digest as _, Sha256};
use volhost_tests::wait::eventually;

use crate::controllers::Controller;
use crate::storage::Storage;

/// A driver with a class of groups of its name.
struct Groups {
    storage: Storage,
    name: &'static str,
}

impl Groups {
    fn start(name: &'static str) -> Self {
        let storage = Storage::start(name, "Immediate");
        storage.driver.cluster.install_snapshots();
        storage.driver.cluster.apply(&format!(
            "apiVersion: groupsnapshot.storage.k8s.io/v1beta2
kind: VolumeGroupSnapshotClass
metadata: {{ name: {name} }}
driver: {name}.test
deletionPolicy: Delete
"
        ));
        Self { storage, name }
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        self.storage.driver.cluster.kubectl(arguments)
    }

    /// A claim with this label.
    fn claim(&self, claim: &str, app: &str) {
        let text = self.storage.claim_text(claim, "").replace(
            &format!("metadata: {{ name: {claim} }}"),
            &format!("metadata: {{ name: {claim}, labels: {{ app: {app} }} }}"),
        );
        self.storage.driver.cluster.apply(&text);
        self.storage.driver.cluster.wait(&["pvc", claim], "jsonpath={.status.phase}=Bound");
    }

    /// Writes a word into the volume, which is not used afterwards.
    fn write(&self, claim: &str, word: &str) {
        let pod = format!("{claim}-writer");
        self.storage.pod(&pod, claim);
        self.storage.driver.cluster.exec(&pod, &format!("echo {word} > /data/word; sync"));
        self.storage.driver.cluster.delete_pod(&pod);
        assert!(eventually(|| self.storage.driver.devices.all().is_empty()), "{}", self.storage.driver.served.log());
    }

    fn read(&self, claim: &str) -> String {
        let pod = format!("{claim}-reader");
        self.storage.pod(&pod, claim);
        let word = self.storage.driver.cluster.exec(&pod, "cat /data/word");
        self.storage.driver.cluster.delete_pod(&pod);
        word.trim().to_owned()
    }

    fn apply(&self, group: &str, app: &str) {
        self.storage.driver.cluster.apply(&format!(
            "apiVersion: groupsnapshot.storage.k8s.io/v1beta2
kind: VolumeGroupSnapshot
metadata: {{ name: {group} }}
spec:
  volumeGroupSnapshotClassName: {}
  source: {{ selector: {{ matchLabels: {{ app: {app} }} }} }}
",
            self.name
        ));
    }

    fn status(&self, group: &str, field: &str) -> String {
        self.kubectl(&["get", "volumegroupsnapshot", group, "-o", &format!("jsonpath={{.status.{field}}}")])
    }

    fn wait_ready(&self, group: &str, controller: &Controller) {
        let is_ready = || self.status(group, "readyToUse") == "true";
        assert!(eventually(is_ready), "{}\n{}", controller.known(), self.storage.driver.served.log());
    }

    /// The contents of groups of this driver: other tests run in the same cluster.
    fn contents(&self) -> Vec<String> {
        let of = format!("{{range .items[?(@.spec.driver==\"{}.test\")]}}{{.metadata.name}} {{end}}", self.name);
        let found = self.kubectl(&["get", "volumegroupsnapshotcontents", "-o", &format!("jsonpath={of}")]);
        found.split_whitespace().map(str::to_owned).collect()
    }

    /// The names of the snapshots of a group.
    fn members(&self, group: &str) -> Vec<String> {
        let of =
            format!("{{range .items[?(@.status.volumeGroupSnapshotName==\"{group}\")]}}{{.metadata.name}} {{end}}");
        let found = self.kubectl(&["get", "volumesnapshots", "-o", &format!("jsonpath={of}")]);
        found.split_whitespace().map(str::to_owned).collect()
    }

    /// The snapshot of a claim in a group, by the name that upstream gives it.
    fn member_of(&self, group: &str, claim: &str) -> String {
        let uid = self.kubectl(&["get", "volumegroupsnapshot", group, "-o", "jsonpath={.metadata.uid}"]);
        let volume = self.kubectl(&["get", "pvc", claim, "-o", "jsonpath={.spec.volumeName}"]);
        let of = "jsonpath={.spec.csi.volumeHandle}";
        let handle = self.kubectl(&["get", "pv", &volume, "-o", of]);
        let sum: String = Sha256::digest(format!("{uid}{handle}")).iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("snapshot-{sum}");
        let of = "jsonpath={.spec.source.persistentVolumeClaimName}";
        assert_eq!(self.kubectl(&["get", "volumesnapshot", &name, "-o", of]), claim);
        name
    }

    fn restore(&self, claim: &str, snapshot: &str) {
        let source =
            format!("dataSource: {{ apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: {snapshot} }}");
        self.storage.claim(claim, &source);
    }
}

#[test]
fn a_group_is_taken_at_one_moment_restored_one_by_one_and_deleted_as_a_whole() {
    let groups = Groups::start("groups");
    let mut controller = Controller::start(&groups.storage.driver, "groups-controller", &[]);
    let cluster = &groups.storage.driver.cluster;
    for claim in ["groups-data", "groups-log"] {
        groups.claim(claim, "groups-db");
        groups.write(claim, &format!("{claim}-first"));
    }
    groups.claim("groups-other", "groups-web");

    // Not while one of the volumes is used, unless the machine's disk shares blocks: it says so, and
    // goes on by itself.
    groups.storage.pod("groups-user", "groups-log");
    groups.apply("groups-taken", "groups-db");
    let said = |word: &str| groups.status("groups-taken", "error.message").contains(word);
    let is_taken = || groups.status("groups-taken", "readyToUse") == "true";
    assert!(eventually(|| said("FailedPrecondition") || is_taken()), "{}", controller.known());
    cluster.delete_pod("groups-user");
    groups.wait_ready("groups-taken", &controller);
    assert_eq!(groups.status("groups-taken", "error"), "");
    assert_eq!(groups.members("groups-taken").len(), 2, "{}", controller.known());

    for claim in ["groups-data", "groups-log"] {
        groups.write(claim, "second");
    }
    let log = groups.member_of("groups-taken", "groups-log");
    let data = groups.member_of("groups-taken", "groups-data");
    for (claim, snapshot) in [("groups-log-again", &log), ("groups-data-again", &data)] {
        groups.restore(claim, snapshot);
        cluster.wait(&["pvc", claim], "jsonpath={.status.phase}=Bound");
    }
    assert_eq!(groups.read("groups-log-again"), "groups-log-first");
    assert_eq!(groups.read("groups-data-again"), "groups-data-first");

    // A snapshot of a group goes with the group.
    groups.kubectl(&["delete", "volumesnapshot", &log, "--wait=false"]);
    assert_eq!(groups.members("groups-taken").len(), 2);
    groups.kubectl(&["delete", "volumegroupsnapshot", "groups-taken"]);
    let is_gone = || groups.contents().is_empty() && groups.members("groups-taken").is_empty();
    assert!(eventually(is_gone), "{}", controller.known());

    // A selector without a claim, and one with a claim that cannot be in it.
    groups.apply("groups-nothing", "nothing");
    let said = |group: &str, word: &str| groups.status(group, "error.message").contains(word);
    assert!(eventually(|| said("groups-nothing", "no claim")), "{}", controller.known());
    cluster.apply(
        &groups
            .storage
            .claim_text("groups-unbound", "")
            .replace("storageClassName: groups", "storageClassName: none")
            .replace(
                "metadata: { name: groups-unbound }",
                "metadata: { name: groups-unbound, labels: { app: groups-web } }",
            ),
    );
    groups.apply("groups-half", "groups-web");
    assert!(
        eventually(|| said("groups-half", "\"groups-unbound\" is selected and is not bound")),
        "{}",
        controller.known()
    );
    groups.kubectl(&["delete", "volumegroupsnapshot", "groups-nothing", "groups-half"]);

    let claims =
        ["groups-data", "groups-log", "groups-other", "groups-unbound", "groups-log-again", "groups-data-again"];
    groups.kubectl(&[&["delete", "pvc"], &claims[..]].concat());
    groups.storage.assert_gone(&controller);
    controller.assert_permitted();
    assert!(controller.terminate().success(), "{}", controller.log());
}

/// As when the machine of the controller fails: the driver may have been asked, and its answer is
/// lost.
#[test]
fn a_group_whose_controller_was_killed_is_taken_once_by_the_next() {
    const CLAIMS: usize = 8;
    let groups = Groups::start("groupkill");
    let mut first = Controller::start(&groups.storage.driver, "groupkill-first", &[]);
    let names: Vec<String> = (0..CLAIMS).map(|number| format!("groupkill-{number}")).collect();
    for name in &names {
        groups.claim(name, "groupkill");
    }
    groups.apply("groupkill-one", "groupkill");
    assert!(eventually(|| !groups.contents().is_empty()), "{}", first.known());
    first.kill();
    let second = Controller::start(&groups.storage.driver, "groupkill-second", &[]);
    second.wait_leads();
    groups.wait_ready("groupkill-one", &second);
    assert_eq!(groups.contents().len(), 1, "{}", second.known());
    assert_eq!(groups.members("groupkill-one").len(), CLAIMS, "{}", second.known());

    // The same while it is deleted.
    let mut second = second;
    groups.kubectl(&["delete", "volumegroupsnapshot", "groupkill-one", "--wait=false"]);
    second.kill();
    let third = Controller::start(&groups.storage.driver, "groupkill-third", &[]);
    third.wait_leads();
    assert!(eventually(|| groups.contents().is_empty()), "{}", third.known());
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    groups.kubectl(&[&["delete", "pvc"], &all[..]].concat());
    groups.storage.assert_gone(&third);
    third.assert_permitted();
}
