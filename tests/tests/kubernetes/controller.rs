//! A stock cluster without sidecars: `volhost controller` makes, attaches, grows and deletes the
//! volumes of a driver.

use std::fs;

use volhost_tests::wait::eventually;

use crate::controllers::{Controller, NAMESPACE};
use crate::storage::{Storage, claim_of};

#[test]
fn a_claim_gets_a_volume_that_a_container_writes_to_and_that_is_grown_copied_and_deleted() {
    // XFS: a mounted ext file system grows only with CAP_SYS_RESOURCE, which not every machine
    // gives.
    let storage = Storage::with("dynamic", "WaitForFirstConsumer", "xfs", "320Mi");
    let mut controller = Controller::start(&storage.driver, "dynamic-controller", &[]);
    let cluster = &storage.driver.cluster;
    storage.claim("dynamic-claim", "");
    storage.pod("dynamic-writer", "dynamic-claim");
    cluster.exec("dynamic-writer", "echo written > /data/word; sync");
    let volume = cluster.kubectl(&["get", "pvc", "dynamic-claim", "-o", "jsonpath={.spec.volumeName}"]);
    let affinity = cluster.kubectl(&["get", "pv", &volume, "-o", "jsonpath={.spec.nodeAffinity.required}"]);
    assert!(affinity.contains("dynamic.test/node"), "{affinity}");

    // While the container runs.
    let space = || -> u64 {
        cluster.exec("dynamic-writer", "df -k /data | tail -n 1 | awk '{print $2}'").trim().parse().unwrap()
    };
    assert!(space() < 320 << 10);
    let larger = r#"{"spec":{"resources":{"requests":{"storage":"512Mi"}}}}"#;
    cluster.kubectl(&["patch", "pvc", "dynamic-claim", "-p", larger]);
    assert!(
        eventually(|| {
            cluster.kubectl(&["get", "pvc", "dynamic-claim", "-o", "jsonpath={.status.capacity.storage}"]) == "512Mi"
        }),
        "{}",
        controller.known()
    );
    assert!(space() > 400 << 10, "{}", space());

    // Another class of attributes, while the container runs.
    let attributes = |name: &str, allocation: &str| {
        format!(
            "---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {{ name: {name} }}
driverName: dynamic.test
parameters: {{ allocation: {allocation} }}
"
        )
    };
    cluster.apply(&[attributes("dynamic-full", "full"), attributes("dynamic-wrong", "half")].concat());
    let taken = || {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(storage.driver.images().join(&volume)).unwrap().blocks() * 512
    };
    let size = 512 << 20;
    assert!(taken() < size, "{}", taken());
    let name = |class: &str| {
        let class = format!(r#"{{"spec":{{"volumeAttributesClassName":"{class}"}}}}"#);
        cluster.kubectl(&["patch", "pvc", "dynamic-claim", "-p", &class]);
    };
    let status =
        |of: &str| cluster.kubectl(&["get", "pvc", "dynamic-claim", "-o", &format!("jsonpath={{.status.{of}}}")]);
    name("dynamic-wrong");
    assert!(eventually(|| status("modifyVolumeStatus.status") == "Infeasible"), "{}", controller.known());
    name("dynamic-full");
    let current = "currentVolumeAttributesClassName";
    assert!(eventually(|| status(current) == "dynamic-full"), "{}", controller.known());
    assert!(taken() >= size, "{}", taken());
    assert_eq!(status("modifyVolumeStatus"), "");

    // A copy. Its source is not used: images are copied at once only on file systems that share
    // blocks.
    cluster.delete_pod("dynamic-writer");
    let source = "dataSource: { kind: PersistentVolumeClaim, name: dynamic-claim }";
    let copy = storage.claim_text("dynamic-copy", source).replace("320Mi", "512Mi");
    cluster.apply(&copy);
    storage.pod("dynamic-reader", "dynamic-copy");
    assert_eq!(cluster.exec("dynamic-reader", "cat /data/word"), "written\n");
    assert_eq!(storage.volumes().len(), 2);
    cluster.delete_pod("dynamic-reader");

    cluster.kubectl(&["delete", "pvc", "dynamic-claim", "dynamic-copy"]);
    storage.assert_gone(&controller);
    controller.assert_permitted();
    assert!(controller.terminate().success(), "{}", controller.log());
    // Whoever follows need not wait for the Lease to expire.
    let holder = cluster.kubectl(&[
        "get",
        "lease",
        "volhost-controller-dynamic.test",
        "-n",
        NAMESPACE,
        "-o",
        "jsonpath={.spec.holderIdentity}",
    ]);
    assert_eq!(holder, "");
}

#[test]
fn claims_that_cannot_be_served_say_why_and_delay_no_other() {
    let storage = Storage::start("refused", "Immediate");
    let controller = Controller::start(&storage.driver, "refused-controller", &["--metrics-listen", "127.0.0.1:0"]);
    let cluster = &storage.driver.cluster;
    let folder = storage.driver.images();
    cluster.apply(&format!(
        "apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{ name: refused-parameter }}
provisioner: refused.test
parameters: {{ csi.storage.k8s.io/fstype: ext4, folder: {}, colour: red }}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{ name: refused-secret }}
provisioner: refused.test
parameters: {{ csi.storage.k8s.io/provisioner-secret-name: absent, csi.storage.k8s.io/provisioner-secret-namespace: default }}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{ name: refused-reserved }}
provisioner: refused.test
parameters: {{ csi.storage.k8s.io/color: red }}
",
        folder.display()
    ));
    let selector = "selector: { matchLabels: { disk: fast } }";
    let clone = "dataSource: { kind: PersistentVolumeClaim, name: nowhere }";
    let cases = [
        ("refused-a", "refused-parameter", "", "no such parameter"),
        ("refused-b", "refused-secret", "", "cannot read Secret default/absent"),
        ("refused-c", "refused-reserved", "", "csi.storage.k8s.io/color"),
        ("refused-d", "refused", selector, "Selector is not supported"),
        ("refused-e", "refused", clone, "the source claim nowhere is not found"),
    ];
    for (claim, class, more, _) in cases {
        cluster.apply(&claim_of(claim, class, more));
    }
    storage.claim("refused-good", "");
    cluster.wait(&["pvc", "refused-good"], "jsonpath={.status.phase}=Bound");
    let wait_said = |claim: &str, reason: &str| {
        let said = || {
            let of = format!("involvedObject.name={claim}");
            let what = "jsonpath={range .items[*]}{.reason} {.message}{\"\\n\"}{end}";
            cluster.kubectl(&["get", "events", "--field-selector", &of, "-o", what])
        };
        let is_said = || said().lines().any(|line| line.starts_with("ProvisioningFailed") && line.contains(reason));
        assert!(eventually(is_said), "{claim}: {}\n{}", said(), controller.known());
    };
    for (claim, _, _, reason) in cases {
        wait_said(claim, reason);
    }
    // So do the metrics: how many objects fail, and with what the driver has refused.
    let has = |line: &str| controller.metrics().lines().any(|found| found == line);
    let calls = |code: &str| {
        let method = r#"method_name="/csi.v1.Controller/CreateVolume""#;
        format!(
            r#"csi_sidecar_operations_seconds_count{{driver_name="refused.test",{method},grpc_status_code="{code}"}} "#
        )
    };
    let is_counted = |code: &str| controller.metrics().lines().any(|found| found.starts_with(&calls(code)));
    assert!(
        has(r#"leader_election_master_status{name="volhost-controller-refused.test"} 1"#),
        "{}",
        controller.metrics()
    );
    let failing = format!(r#"volhost_controller_failing{{name="claims"}} {}"#, cases.len());
    assert!(eventually(|| has(&failing)), "{failing}: {}", controller.metrics());
    assert!(is_counted("OK") && is_counted("InvalidArgument"), "{}", controller.metrics());
    // Another cause is another event: the first does not hide it.
    cluster.kubectl(&["delete", "storageclass", "refused-secret"]);
    cluster.apply(
        "apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: { name: refused-secret }
provisioner: refused.test
parameters: { colour: red }
",
    );
    wait_said("refused-b", "no such parameter");
    for (claim, ..) in cases {
        cluster.kubectl(&["delete", "pvc", claim]);
    }
    cluster.kubectl(&["delete", "pvc", "refused-good"]);
    assert!(eventually(|| has(r#"volhost_controller_failing{name="claims"} 0"#)), "{}", controller.metrics());
    storage.assert_gone(&controller);
}

/// What is known comes by watches: no object is asked for, and one is written only where something
/// is to be said.
#[test]
fn a_volume_costs_the_api_server_few_requests() {
    const CLAIMS: usize = 20;
    let storage = Storage::start("frugal", "Immediate");
    let controller = Controller::start(&storage.driver, "frugal-controller", &[]);
    controller.wait_leads();
    let cluster = &storage.driver.cluster;
    let names: Vec<String> = (0..CLAIMS).map(|number| format!("frugal-{number}")).collect();
    let claims: String = names.iter().map(|name| storage.claim_text(name, "")).collect();
    cluster.apply(&claims);
    for name in &names {
        cluster.wait(&["pvc", name], "jsonpath={.status.phase}=Bound");
    }
    storage.pod("frugal-pod", "frugal-0");
    cluster.delete_pod("frugal-pod");
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    cluster.kubectl(&[&["delete", "pvc", "--wait=false"], &all[..]].concat());
    storage.assert_gone(&controller);

    let requests = controller.requests();
    let count = |verb: &str, resource: &str| {
        requests.iter().filter(|request| **request == (verb.to_owned(), resource.to_owned())).count()
    };
    assert_eq!(count("create", "persistentvolumes"), CLAIMS, "{requests:?}");
    assert_eq!(count("delete", "persistentvolumes"), CLAIMS, "{requests:?}");
    // The finalizers go once the driver's volume is gone.
    assert_eq!(count("patch", "persistentvolumes"), CLAIMS, "{requests:?}");
    // Its finalizer and the node's id, its status, the end.
    assert_eq!(count("patch", "volumeattachments"), 2, "{requests:?}");
    assert_eq!(count("patch", "volumeattachments/status"), 1, "{requests:?}");
    let others = requests.iter().filter(|(verb, resource)| {
        !["persistentvolumes", "volumeattachments", "volumeattachments/status", "events", "leases"]
            .contains(&resource.as_str())
            && verb != "list"
    });
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&(String, String)>::new());
    assert_eq!(count("get", "persistentvolumes") + count("get", "volumeattachments"), 0, "{requests:?}");
    controller.assert_permitted();
}

/// As when the machine of the controller fails: it is killed while volumes are made, and while they
/// are deleted. Another replica goes on.
#[test]
fn a_controller_that_is_killed_is_followed_by_another_and_nothing_is_lost_or_made_twice() {
    const CLAIMS: usize = 40;
    let storage = Storage::start("failover", "Immediate");
    let mut first = Controller::start(&storage.driver, "failover-first", &[]);
    first.wait_leads();
    let mut second = Controller::start(&storage.driver, "failover-second", &[]);
    let cluster = &storage.driver.cluster;
    let names: Vec<String> = (0..CLAIMS).map(|number| format!("failover-{number}")).collect();
    let claims: String = names.iter().map(|name| storage.claim_text(name, "")).collect();
    cluster.apply(&claims);
    assert!(eventually(|| storage.images().len() > 2), "{}", first.known());
    first.kill();
    let made_before = storage.volumes().len();
    // Claims that the first has begun and that are gone when the second takes over.
    cluster.kubectl(&["delete", "pvc", "--wait=false", &names[CLAIMS - 1], &names[CLAIMS - 2]]);
    second.wait_leads();
    for name in &names[..CLAIMS - 2] {
        cluster.wait(&["pvc", name], "jsonpath={.status.phase}=Bound");
    }
    assert!(eventually(|| storage.volumes().len() == CLAIMS - 2), "{made_before}\n{}", second.known());
    assert!(eventually(|| storage.images().len() == CLAIMS - 2), "{:?}\n{}", storage.images(), second.known());

    let third = Controller::start(&storage.driver, "failover-third", &[]);
    let all: Vec<&str> = names[..CLAIMS - 2].iter().map(String::as_str).collect();
    cluster.kubectl(&[&["delete", "pvc", "--wait=false"], &all[..]].concat());
    assert!(eventually(|| storage.images().len() < CLAIMS - 2), "{}", second.known());
    second.kill();
    third.wait_leads();
    storage.assert_gone(&third);
    [&first, &second, &third].into_iter().for_each(Controller::assert_permitted);
}

/// As on a machine that hangs for a while: another replica leads when it goes on.
#[test]
fn a_controller_that_was_frozen_ends_once_another_leads() {
    let storage = Storage::start("frozen", "Immediate");
    let mut first = Controller::start(&storage.driver, "frozen-first", &[]);
    first.wait_leads();
    first.signal("-STOP");
    let mut second = Controller::start(&storage.driver, "frozen-second", &[]);
    second.wait_leads();
    first.signal("-CONT");
    assert_eq!(first.wait_ended().code(), Some(1), "{}", first.log());
    assert!(first.log().contains("volhost-controller-frozen.test"), "{}", first.log());
    storage.claim("frozen-claim", "");
    storage.driver.cluster.wait(&["pvc", "frozen-claim"], "jsonpath={.status.phase}=Bound");
    storage.driver.cluster.kubectl(&["delete", "pvc", "frozen-claim"]);
    storage.assert_gone(&second);
    assert!(second.terminate().success(), "{}", second.log());
}
