//! Invalid classes and claims: each is reported with file and field, and affects nothing else.

use volhost_tests::wait::eventually;

use crate::provisioning::kit::{Host, claim, class};

#[test]
fn a_wrong_field_is_named_and_the_other_claims_get_their_volumes() {
    let host = Host::native();
    host.class("fast", "");
    host.class("none", "");
    host.node.manifest("class-none.yaml", &class("none", "kubernetes.io/no-provisioner", ""));
    host.node.manifest("class-lost.yaml", &class("lost", "csi.not.here", ""));
    host.node.manifest("class-size.yaml", &class("size", host.driver, "parameters: { colour: red }\n"));
    host.node.manifest("class-bad.yaml", &class("bad", host.driver, "reclaimPolicy: Recycle\n"));
    host.node.wait_event(&["InvalidManifest", "class-bad.yaml", "reclaimPolicy"]);
    for (name, class, more, words) in [
        ("selects", "fast", "  selector: { matchLabels: { a: b } }\n", "claim-selects.yaml: spec.selector"),
        ("typo", "fats", "", "there is no StorageClass fats"),
        ("nobody", "none", "", "makes no volumes"),
        ("lost", "lost", "", "no loaded plugin serves volumes of csi.not.here"),
        ("parameter", "size", "", "parameters.colour"),
        ("source", "fast", "  dataSource: { kind: Secret, name: x }\n", "claim-source.yaml: spec.dataSource"),
    ] {
        host.node.manifest(&format!("claim-{name}.yaml"), &claim(name, class, "4Mi", more));
        let reason = || host.seen(name)["message"].as_str().unwrap_or_default().to_owned();
        assert!(eventually(|| reason().contains(words)), "{name}: {}\n{}", reason(), host.node.log());
        assert_eq!(host.seen(name)["phase"], "Pending", "{name}");
    }
    let text = claim("large", "fast", "8Mi", "").replace("requests: {", "limits: { storage: 4Mi }, requests: {");
    host.node.manifest("claim-large.yaml", &text);
    let reason = || host.seen("large")["message"].as_str().unwrap_or_default().to_owned();
    assert!(eventually(|| reason().contains("spec.resources.limits.storage")), "{}", reason());
    host.claim("good", "fast", "4Mi");
    let volume = host.bound("good");
    assert_eq!(host.images(), [volume]);
}

#[test]
fn the_default_class_is_for_claims_that_name_none() {
    let host = Host::native();
    let text = class("fast", host.driver, "");
    let text =
        text.replace("name: fast", "name: fast, annotations: { storageclass.kubernetes.io/is-default-class: 'true' }");
    host.node.manifest("class.yaml", &text);
    let unnamed = claim("data", "x", "4Mi", "").replace("  storageClassName: x\n", "");
    host.node.manifest("claim-data.yaml", &unnamed);
    host.node.manifest("claim-empty.yaml", &claim("empty", "''", "4Mi", ""));
    let volume = host.bound("data");
    assert_eq!(host.seen("data")["storageClass"], "fast");
    assert_eq!(host.seen("empty")["phase"], "Pending", "an empty class is no class");
    assert_eq!(host.images(), [volume]);
}

#[test]
fn an_unreadable_record_is_reported_and_its_claim_gets_its_volume_back() {
    let mut host = Host::native();
    host.class("fast", "");
    host.claim("data", "fast", "4Mi");
    let volume = host.bound("data");
    host.node.kill();
    let record = host.node.path(&host.node.root().join(format!("provisioned/{volume}.json")));
    std::fs::write(&record, "{").unwrap();
    host.node.start();
    host.node.wait_event(&["RecoveryProblem", &volume]);
    assert_eq!(host.bound("data"), volume);
    assert_eq!(host.images(), [volume]);
}
