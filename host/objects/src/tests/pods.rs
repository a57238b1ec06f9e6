use super::{objects, only_pod, pod, pod_with};
use crate::{Kind, ObjectKey, Parsed, UnknownFieldNotice, derived_uid, parse};

#[test]
fn a_pod_gets_kubernetes_defaults_and_a_lasting_uid() {
    let first = only_pod(&pod("web"));
    assert_eq!(first.pod.full_name(), "default/web");
    assert_eq!(first.pod.uid.as_str(), derived_uid(&ObjectKey::new(Kind::Pod, "default", "web")));
    let changed = only_pod(&pod_with("web", "hostPath: {path: /x}"));
    assert_eq!(first.pod.uid, changed.pod.uid);
    let given = only_pod(&pod("web").replace("{name: web}", "{name: web, uid: my-uid}"));
    assert_eq!(given.pod.uid.as_str(), "my-uid");
}

#[test]
fn volumes_that_no_container_uses_are_left_out_of_the_used_ones() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  initContainers: [{name: i, volumeMounts: [{name: c, mountPath: /}]}]\n  containers: [{name: c, volumeMounts: [{name: a, mountPath: /}], volumeDevices: [{name: missing, devicePath: /d}]}]\n  ephemeralContainers: [{name: e, volumeMounts: [{name: b, mountPath: /}]}]\n  volumes: [{name: a}, {name: unused}, {name: b}, {name: c}]\n";
    let used: Vec<_> = only_pod(text).pod.used_volumes.iter().map(|name| name.as_str().to_owned()).collect();
    assert_eq!(used, ["a", "b", "c", "missing"]);
}

#[test]
fn the_memory_limit_is_what_the_containers_may_use_together() {
    let limit = |containers: &str| {
        only_pod(&format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n{containers}\n")).pod.memory_limit
    };
    let with = |memory: &str| format!("resources: {{limits: {{memory: {memory}, cpu: 2}}}}");
    let (ten, thirty) = (with("10Mi"), with("30Mi"));
    assert_eq!(limit(&format!("  containers: [{{name: a, {ten}}}, {{name: b, {thirty}}}]")), Some(40 << 20));
    assert_eq!(limit(&format!("  containers: [{{name: a, {ten}}}, {{name: b}}]")), None);
    assert_eq!(
        limit(&format!("  initContainers: [{{name: i, {thirty}}}]\n  containers: [{{name: a, {ten}}}]")),
        Some(30 << 20)
    );
    assert_eq!(
        limit(&format!(
            "  initContainers: [{{name: i, restartPolicy: Always, {thirty}}}]\n  containers: [{{name: a, {ten}}}]"
        )),
        Some(40 << 20)
    );
    assert_eq!(limit(&format!("  initContainers: [{{name: i}}]\n  containers: [{{name: a, {ten}}}]")), None);
    assert_eq!(limit("  resources: {limits: {memory: 1Ki}}\n  containers: [{name: a}]"), Some(1024));
    assert_eq!(limit("  containers: [{name: a, resources: {limits: {memory: 4096}}}]"), Some(4096));
}

#[test]
fn the_limit_of_disk_is_the_sum_of_those_that_have_one() {
    let limit = |containers: &str| {
        let text = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n{containers}\n");
        only_pod(&text).pod.ephemeral_storage_limit
    };
    let with = |bytes: &str| format!("resources: {{limits: {{ephemeral-storage: {bytes}}}}}");
    let (ten, thirty) = (with("10Mi"), with("30Mi"));
    assert_eq!(limit("  containers: [{name: a}, {name: b}]"), None);
    assert_eq!(limit(&format!("  containers: [{{name: a, {}}}]", with("0"))), None);
    assert_eq!(
        limit(&format!("  containers: [{{name: a, {ten}}}, {{name: b, {thirty}}}, {{name: c}}]")),
        Some(40 << 20)
    );
    let init =
        |more: &str| format!("  initContainers: [{{name: i, {thirty}{more}}}]\n  containers: [{{name: a, {ten}}}]");
    assert_eq!(limit(&init("")), Some(30 << 20));
    assert_eq!(limit(&init(", restartPolicy: Always")), Some(40 << 20));
    let overhead = format!("  overhead: {{ephemeral-storage: 1Mi}}\n  containers: [{{name: a, {ten}}}]");
    assert_eq!(limit(&overhead), Some(11 << 20));
    assert_eq!(limit("  overhead: {ephemeral-storage: 1Mi}\n  containers: [{name: a}]"), None);
}

#[test]
fn the_user_is_known_only_when_all_containers_have_the_same() {
    let user =
        |spec: &str| only_pod(&format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {spec}\n")).pod.fs_user;
    assert_eq!(user("{securityContext: {runAsUser: 5}, containers: [{name: a}, {name: b}]}"), Some(5));
    assert_eq!(user("{containers: [{name: a, securityContext: {runAsUser: 5}}, {name: b}]}"), None);
    assert_eq!(
        user("{securityContext: {runAsUser: 5}, containers: [{name: a}, {name: b, securityContext: {runAsUser: 6}}]}"),
        None
    );
    assert_eq!(
        user("{securityContext: {runAsUser: 5, fsGroup: 7}, containers: [{name: a, securityContext: {runAsUser: 6}}]}"),
        Some(6)
    );
}

#[test]
fn yaml_reads_as_kubernetes_reads_it() {
    let pod = only_pod(&pod_with("a", "secret: {secretName: s, defaultMode: 0440, optional: true}"));
    let source = pod.volumes.first().unwrap().source.fields_of("secret").unwrap();
    assert_eq!(source.get("defaultMode").unwrap(), 0o440);
    let merged = "x: &x {emptyDir: {}}\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: c}]\n  volumes:\n  - name: v\n    <<: *x\n";
    assert!(only_pod(merged).volumes.first().unwrap().source.contains("emptyDir"));
}

#[test]
fn json_is_read_too_with_tabs_and_escapes() {
    let text = "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Pod\",\n\t\"metadata\": {\"name\": \"a\", \"annotations\": {\"x\": \"a\\/b\\u00e9\\n\"}},\n\t\"spec\": {\"containers\": [{\"name\": \"c\"}]}\n}\n";
    let pod = only_pod(text);
    assert_eq!(pod.pod.annotations.get("x").unwrap(), "a/bé\n");
}

#[test]
fn many_documents_and_lists_are_read_and_strangers_are_noted() {
    let text = format!(
        "---\n{}---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {{name: b}}\n  data: {{yes: \"on\"}}\n---\napiVersion: apps/v1\nkind: Deployment\n",
        pod("a")
    );
    let parsed = parse("test.yaml", &text).unwrap();
    let keys: Vec<_> = parsed.objects.iter().map(|object| object.key.to_string()).collect();
    assert_eq!(keys, ["Pod default/a", "ConfigMap default/b"]);
    assert!(parsed.unknown_kinds[0].contains("kind Deployment (apps/v1)"), "{:?}", parsed.unknown_kinds);
}

/// The warnings about unknown fields.
fn warnings(parsed: &Parsed) -> Vec<String> {
    parsed.unknown_fields.iter().map(UnknownFieldNotice::warning).collect()
}

#[test]
fn a_slip_of_the_pen_is_noted_with_its_line() {
    let text = pod("a").replace("    volumeMounts:", "    volumeMount: 1\n    volumeMounts:");
    let parsed = parse("test.yaml", &text).unwrap();
    assert_eq!(
        warnings(&parsed),
        ["test.yaml:7: spec.containers[0].volumeMount: is no field of a Pod; ignored (did you mean volumeMounts?)"]
    );
    assert_eq!(
        parsed.unknown_fields[0].refusal(),
        "test.yaml:7: spec.containers[0].volumeMount: is no field of a Pod; did you mean volumeMounts?"
    );
    assert!(parse("test.yaml", &pod_with("a", "newStorage: {x: 1}")).unwrap().unknown_fields.is_empty());
    // Below a volume, too, where only a source may be another's.
    let parsed = parse("test.yaml", &pod_with("a", "emptyDir: {sizelimit: 1Mi}")).unwrap();
    assert!(
        warnings(&parsed)[0].ends_with(".emptyDir.sizelimit: is no field of a Pod; ignored (did you mean sizeLimit?)")
    );
}

#[test]
fn kinds_of_other_programs_are_no_slip_of_the_pen() {
    for (version, kind) in [
        ("v1", "Node"),
        ("v1", "Service"),
        ("v1", "PodTemplate"),
        ("storage.k8s.io/v1", "CSINode"),
        ("storage.k8s.io/v1", "CSIStorageCapacity"),
        ("storage.k8s.io/v1", "VolumeAttributesClass"),
        ("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass"),
        ("example.org/v1", "Pods"),
    ] {
        let parsed = parse("test.yaml", &format!("apiVersion: {version}\nkind: {kind}\n")).unwrap();
        assert_eq!(parsed.unknown_kinds.len(), 1, "{kind}");
    }
}

#[test]
fn no_unknown_field_is_passed_over_in_silence() {
    let head = "apiVersion: v1\nmetadata: { name: a }\n";
    for (text, path) in [
        (pod("a").replace("spec:\n", "spec:\n  securityContexts: { fsGroup: 5 }\n"), "spec.securityContexts"),
        (format!("{head}kind: ConfigMap\ndat: {{ x: y }}\n"), "dat"),
        (format!("{head}kind: Secret\nstringDat: {{ pin: '1234' }}\n"), "stringDat"),
        (format!("{head}kind: ServiceAccount\nsecret: []\n"), "secret"),
        (
            format!("{head}kind: PersistentVolumeClaim\nspec: {{ accessModes: [ReadWriteOnce], selectors: {{}} }}\n"),
            "spec.selectors",
        ),
    ] {
        let notices = warnings(&parse("test.yaml", &text).unwrap());
        assert!(
            notices.iter().any(|notice| notice.contains(&format!(": {path}: is no field of"))),
            "{path}: {notices:?}"
        );
        assert!(!notices.iter().any(|notice| notice.contains("1234")), "{notices:?}");
    }
    let many: String = (0..25).map(|n| format!("x{n}: 1\n")).collect();
    let notices = warnings(&parse("test.yaml", &format!("{head}kind: ConfigMap\n{many}")).unwrap());
    assert!(notices.len() == 21 && notices[20].contains("5 more"), "{notices:?}");
}

#[test]
fn a_snapshot_that_volhost_would_have_to_make_is_told() {
    let head = "apiVersion: snapshot.storage.k8s.io/v1\nmetadata: { name: s }\n";
    for (kind, spec) in [
        ("VolumeSnapshot", "source: { persistentVolumeClaimName: c }"),
        ("VolumeSnapshotContent", "driver: d, source: { volumeHandle: h }"),
    ] {
        let notices = parse("test.yaml", &format!("{head}kind: {kind}\nspec: {{ {spec} }}\n")).unwrap().notices;
        assert!(notices.iter().any(|notice| notice.contains("volhost makes no snapshots")), "{kind}: {notices:?}");
    }
}

#[test]
fn a_file_without_objects_is_no_error() {
    for text in ["", "\n", "# a comment\n", "---\n---\n", "null\n", "apiVersion: v1\nkind: List\nitems: []\n"] {
        assert!(objects(text).is_empty(), "{text:?}");
    }
}
