mod migrated;

use std::collections::BTreeMap;
use std::sync::Arc;

use volhost_core::DesiredPod;
use volhost_model::{PluginName, UniqueVolumeName, VolumeSpec};

use super::attachments::{AttachmentReport, attachments_of};
use super::{
    NoChoice, NodeIdentity, PluginCatalog, PluginChoice, PodPlacement, SelinuxCounts, placement, resolve,
    selinux_counts,
};
use crate::tests::{objects, only_pod, pod, pod_with};
use crate::{Kind, ObjectKey, ObjectSource, ObjectStore};

/// Serves emptyDir, hostPath, local and a shared source.
struct Catalog;

impl PluginCatalog for Catalog {
    fn choose(&self, spec: &Arc<VolumeSpec>) -> Result<PluginChoice, NoChoice> {
        let shared = spec.source == "shared";
        match spec.source.as_str() {
            "emptyDir" | "hostPath" | "local" | "shared" | "follows" => Ok(PluginChoice {
                plugin: PluginName::new(format!("test/{}", spec.source.to_lowercase())).map_err(|e| e.to_string())?,
                unique_shared_name: shared.then(|| spec.parameter("handle").unwrap_or_default()),
                attachable: shared,
                stageable: shared,
                follows_source: spec.source == "follows",
                read_only: false,
                expandable: false,
                selinux_mount: shared,
                attach_limit: None,
                attach_limit_of: None,
                refreshed: false,
                accepts_mount_options: shared,
                needs: spec.parameter("needs").into_iter().collect(),
            }),
            other => Err(format!("no loaded plugin serves the volume source {other:?}").into()),
        }
    }
}

fn node() -> NodeIdentity {
    NodeIdentity::new("demo-node", BTreeMap::from([("zone".to_owned(), "a".to_owned())]))
}

/// The pod `a` of this text, resolved.
fn resolved(text: &str) -> DesiredPod {
    let mut store = ObjectStore::new();
    let applied = store.apply(ObjectSource::Manifest, objects(text), []);
    assert!(applied.conflicts.is_empty());
    let pod = store.pod(&ObjectKey::new(Kind::Pod, "default", "a")).unwrap();
    resolve(pod, &store, &Catalog, &node())
}

/// Why the pod's one volume cannot be resolved.
fn reason(text: &str) -> String {
    let desired = resolved(text);
    assert!(desired.volumes.is_empty(), "{:?}", desired.volumes);
    let [unresolved] = desired.unresolved.as_slice() else { panic!("{:?}", desired.unresolved) };
    unresolved.reason.clone()
}

fn with_claim(volume: &str, claim: &str) -> String {
    let pod = pod_with("a", "persistentVolumeClaim: {claimName: c}");
    let volume = format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: pv, annotations: {{pv.beta.kubernetes.io/gid: '1234'}}}}\nspec: {{{volume}}}\n"
    );
    let claim = format!("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: c}}\nspec: {{{claim}}}\n");
    format!("{pod}---\n{volume}---\n{claim}")
}

#[test]
fn an_inline_volume_is_the_pods_own() {
    let desired = resolved(&pod_with("a", "hostPath: {path: /x, type: Directory}"));
    let volume = desired.volumes.first().unwrap();
    assert_eq!(volume.unique_name.as_str(), format!("test/hostpath/{}/v", desired.pod.uid));
    assert_eq!(
        (volume.spec.source.as_str(), volume.spec.parameter("type").as_deref()),
        ("hostPath", Some("Directory"))
    );
    assert!(!volume.spec.read_only && desired.unresolved.is_empty());
}

#[test]
fn a_claim_leads_to_its_volume() {
    let desired = resolved(&with_claim(
        "capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], local: {path: /x}",
        "volumeName: pv",
    ));
    let volume = desired.volumes.first().unwrap();
    assert_eq!(volume.unique_name.as_str(), format!("test/local/{}/pv", desired.pod.uid));
    let persistent = volume.spec.persistent_volume.as_ref().unwrap();
    assert_eq!(
        (persistent.claim.as_str(), persistent.capacity, persistent.gid),
        ("default/c", Some(1 << 30), Some(1234))
    );
}

#[test]
fn a_shared_volume_has_the_plugins_name_for_it() {
    let desired = resolved(&with_claim("shared: {handle: h1}, mountOptions: [noatime]", "volumeName: pv"));
    let volume = desired.volumes.first().unwrap();
    assert_eq!(volume.unique_name.as_str(), "test/shared/h1");
    assert!(volume.attachable && volume.stageable);
    assert!(
        reason(&with_claim("shared: {handle: ''}", "volumeName: pv"))
            .contains("gives the volume a name that cannot be used")
    );
}

#[test]
fn read_only_comes_from_the_claim_source_or_the_volume_source() {
    let text = with_claim("local: {path: /x}", "volumeName: pv");
    let read_only = |text: &str| resolved(text).volumes.first().unwrap().spec.read_only;
    assert!(!read_only(&text));
    assert!(read_only(&text.replace("claimName: c", "claimName: c, readOnly: true")));
    assert!(read_only(&text.replace("path: /x", "path: /x, readOnly: true")));
}

#[test]
fn volumes_that_no_container_uses_are_skipped() {
    let desired = resolved(&format!("{}  - name: unused\n    unknownSource: {{}}\n", pod("a")));
    assert_eq!((desired.volumes.len(), desired.unresolved.len()), (1, 0));
}

#[test]
fn a_volume_that_the_pod_lacks_is_told_with_the_place() {
    let text =
        pod("a").replace("- {name: v, mountPath: /v}", "- {name: v, mountPath: /v}\n    - {name: w, mountPath: /w}");
    let desired = resolved(&text);
    assert_eq!(desired.volumes.len(), 1);
    assert_eq!(
        desired.unresolved.first().unwrap().reason,
        "test.yaml:9: spec.containers[0].volumeMounts[1] names the volume \"w\", but spec.volumes has only v"
    );
}

#[test]
fn a_volume_has_one_source_that_a_plugin_serves() {
    assert_eq!(reason(&pod_with("a", "foo: {}")), "no loaded plugin serves the volume source \"foo\"");
    let cases = [
        ("", "test.yaml:10: spec.volumes[0] (volume \"v\") has no source; give it one, such as `emptyDir: {}`"),
        ("emptyDir:", "has nothing under emptyDir; write `emptyDir: {}`"),
        ("foo: 7", "has a source foo that is no map of fields"),
        ("emptyDir: {}\n    hostPath: {path: /x}", "has 2 sources (emptyDir, hostPath); a volume has one"),
    ];
    for (source, part) in cases {
        let message = reason(&pod_with("a", source));
        assert!(message.contains(part), "{source}: {message}");
    }
    assert!(reason(&with_claim("", "volumeName: pv")).contains("spec of PersistentVolume pv has no source"));
    let message = reason(&with_claim("emptyDir: {}", "volumeName: pv"));
    assert!(message.contains("has the source emptyDir, which only a pod's own volume can have"), "{message}");
}

#[test]
fn claim_problems_name_the_claim() {
    let pod = pod_with("a", "persistentVolumeClaim: {claimName: c}");
    assert!(reason(&pod).starts_with(
        "error processing PVC default/c: failed to fetch PVC: there is no PersistentVolumeClaim of that name"
    ));
    let message =
        reason(&with_claim("local: {path: /x}, claimRef: {namespace: other, name: theirs}", "volumeName: pv"));
    assert_eq!(
        message,
        "error processing PVC default/c: PVC is not bound: spec.claimRef of PersistentVolume pv names claim other/theirs"
    );
    let unbound =
        reason(&with_claim("local: {path: /x}, capacity: {storage: 1Gi}", "resources: {requests: {storage: 2Gi}}"));
    assert!(
        unbound.starts_with("error processing PVC default/c: PVC is not bound: no free PersistentVolume"),
        "{unbound}"
    );
    let text = with_claim("local: {path: /x}", "volumeName: pv");
    let deleting = text.replace("{name: c}", "{name: c, deletionTimestamp: '2026-01-01T00:00:00Z'}");
    assert_eq!(reason(&deleting), "error processing PVC default/c: PVC is being deleted");
    let protected = deleting.replace("{name: c,", "{name: c, finalizers: [kubernetes.io/pvc-protection],");
    assert_eq!(resolved(&protected).volumes.len(), 1);
    assert!(reason(&pod.replace("claimName: c", "claimName: ''")).contains("has no claimName"));
}

#[test]
fn an_ephemeral_volume_needs_a_claim_of_the_pods_own() {
    let claim = |owner: &str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: a-v{owner}}}\nspec: {{volumeName: pv}}\n---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: pv}}\nspec: {{local: {{path: /x}}}}\n"
        )
    };
    let pod = pod_with(
        "a",
        "ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}",
    );
    assert!(reason(&pod).starts_with("error processing PVC default/a-v: failed to fetch PVC"));
    let message = reason(&format!("{pod}---\n{}", claim("")));
    assert_eq!(
        message,
        "error processing PVC default/a-v: PVC default/a-v was not created for pod default/a (pod is not owner)"
    );
    let owner = ", ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: one, controller: true}]";
    let with_uid = pod.replace("{name: a}", "{name: a, uid: one}");
    assert_eq!(resolved(&format!("{with_uid}---\n{}", claim(owner))).volumes.len(), 1);
    let another = pod.replace("{name: a}", "{name: a, uid: two}");
    assert!(reason(&format!("{another}---\n{}", claim(owner))).contains("pod is not owner"));
    // Another owner's claim of that name, in every way that it can be another's.
    for (ours, theirs) in [
        ("controller: true", "controller: false"),
        (", controller: true", ""),
        ("kind: Pod", "kind: ReplicaSet"),
        ("name: a,", "name: b,"),
        ("uid: one", "uid: 'one '"),
    ] {
        let text = format!("{with_uid}---\n{}", claim(&owner.replace(ours, theirs)));
        assert!(reason(&text).contains("pod is not owner"), "{theirs}");
    }
    let elsewhere = claim(owner).replace("name: a-v", "namespace: other, name: a-v");
    assert!(reason(&format!("{with_uid}---\n{elsewhere}")).contains("failed to fetch PVC"));
    let deleted = claim(owner).replace("name: a-v", "deletionTimestamp: '2026-01-01T00:00:00Z', name: a-v");
    assert!(reason(&format!("{with_uid}---\n{deleted}")).contains("PVC is being deleted"));
}

/// A pod with these volumes, whose one container mounts the volume `v`.
fn with_volumes(volumes: &str) -> String {
    let pod = pod_with("a", "emptyDir: {}");
    let (before, _) = pod.rsplit_once("volumes:").unwrap();
    format!("{before}volumes: [{volumes}]\n")
}

#[test]
fn what_a_volume_is_made_of_is_resolved_though_no_container_mounts_it() {
    let desired = resolved(&with_volumes(
        "{name: base, emptyDir: {}}, {name: idle, emptyDir: {}}, {name: v, hostPath: {needs: base}}",
    ));
    let names: Vec<&str> = desired.volumes.iter().map(|volume| volume.outer_name.as_str()).collect();
    assert_eq!(names, ["v", "base"], "{:?}", desired.unresolved);
    let [needed] = &desired.volumes[0].needs[..] else { panic!("{:?}", desired.volumes) };
    assert_eq!((needed.name.as_str(), &needed.unique_name), ("base", &desired.volumes[1].unique_name));
}

#[test]
fn what_a_volume_cannot_be_made_of_is_told_of_it() {
    for (volumes, said) in [
        ("{name: v, hostPath: {needs: base}}", "made of the volume \"base\" of the pod, but spec.volumes has only v"),
        ("{name: v, hostPath: {needs: v}}", "is itself made of another volume"),
        ("{name: w, hostPath: {needs: v}}, {name: v, hostPath: {needs: w}}", "is itself made of another volume"),
        ("{name: base, follows: {}}, {name: v, hostPath: {needs: base}}", "changes with its source"),
    ] {
        let desired = resolved(&with_volumes(volumes));
        let why = desired.unresolved.iter().find(|one| one.outer_name.as_str() == "v");
        assert!(why.is_some_and(|why| why.reason.contains(said)), "{volumes}: {desired:?}");
    }
    let three = "{name: w, emptyDir: {}}, {name: base, hostPath: {needs: w}}, {name: v, hostPath: {needs: base}}";
    let reasons = resolved(&with_volumes(three)).unresolved;
    assert!(reasons.iter().all(|one| one.reason.contains("only one level is possible")), "{reasons:?}");
    assert_eq!(reasons.len(), 2);
    // Both are kept, if they are mounted.
    let desired = resolved(&with_volumes("{name: base, nobody: {}}, {name: v, hostPath: {needs: base}}"));
    let unresolved: Vec<&str> = desired.unresolved.iter().map(|one| one.outer_name.as_str()).collect();
    assert_eq!(unresolved, ["v", "base"]);
    assert!(desired.unresolved[0].reason.contains("waits: no loaded plugin serves"), "{desired:?}");
}

#[test]
fn block_and_filesystem_are_not_mixed_up() {
    let block = with_claim("local: {path: /x}, volumeMode: Block", "volumeName: pv, volumeMode: Block");
    let message = reason(&block);
    assert!(
        message.starts_with(
            "volume v has volumeMode Block, but is specified in volumeMounts (test.yaml:8: spec.containers[0].volumeMounts[0])"
        ),
        "{message}"
    );
    let as_device = |text: &str| text.replace("volumeMounts:", "volumeDevices:").replace("mountPath", "devicePath");
    assert!(resolved(&as_device(&block)).volumes.first().unwrap().spec.is_block());
    let filesystem = as_device(&with_claim("local: {path: /x}", "volumeName: pv"));
    assert!(reason(&filesystem).starts_with("volume v has volumeMode Filesystem, but is specified in volumeDevices"));
    assert!(reason(&as_device(&pod("a"))).contains("takes only volumes with a claim"));
}

#[test]
fn a_volume_of_another_node_says_of_which() {
    let affinity = |key: &str, value: &str| {
        format!(
            "local: {{path: /x}}, nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [{{key: {key}, operator: In, values: [{value}]}}]}}]}}}}"
        )
    };
    assert_eq!(
        reason(&with_claim(&affinity("zone", "b"), "volumeName: pv")),
        "PersistentVolume pv can only be used on nodes where zone in (b); this node, demo-node, has zone=a"
    );
    assert!(
        reason(&with_claim(&affinity("rack", "b"), "volumeName: pv"))
            .ends_with("this node, demo-node, has no label rack")
    );
    assert_eq!(
        resolved(&with_claim(&affinity("kubernetes.io/hostname", "demo-node"), "volumeName: pv")).volumes.len(),
        1
    );
}

#[test]
fn mount_options_need_a_plugin_that_takes_them() {
    let message = reason(&with_claim("local: {path: /x}, mountOptions: [ro, soft]", "volumeName: pv"));
    assert_eq!(
        message,
        "PersistentVolume pv has mountOptions (ro, soft), but plugin test/local takes none; remove spec.mountOptions"
    );
}

#[test]
fn pods_of_other_nodes_and_ended_pods_are_not_wanted() {
    let placed = |text: &str| placement(&only_pod(text), &node());
    let with = |status: &str| format!("{}status: {status}\n", pod("a"));
    assert_eq!(placed(&pod("a")), PodPlacement::Runs);
    assert_eq!(placed(&pod("a").replace("spec:\n", "spec:\n  nodeName: demo-node\n")), PodPlacement::Runs);
    assert_eq!(
        placed(&pod("a").replace("spec:\n", "spec:\n  nodeName: n2\n")),
        PodPlacement::OtherNode { node: "n2".into() }
    );
    assert_eq!(placed(&with("{phase: Succeeded}")), PodPlacement::Finished);
    assert_eq!(placed(&with("{phase: Running}")), PodPlacement::Runs);
    let container = |state: &str| {
        let status = format!(
            "{{containerStatuses: [{{name: c, image: i, imageID: i, ready: false, restartCount: 0, state: {{{state}}}}}]}}"
        );
        with(&status).replace("{name: a}", "{name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}")
    };
    assert_eq!(placed(&container("running: {}")), PodPlacement::Runs);
    assert_eq!(placed(&container("terminated: {exitCode: 0}")), PodPlacement::Finished);
    let deleting = pod("a").replace("{name: a}", "{name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}");
    assert_eq!(placed(&deleting), PodPlacement::Runs, "nothing says that its containers have ended");
}

/// The pod `a` with these uses of its volume `v` by its one container, which has these further
/// lines.
fn with_uses(volume: &str, container: &str, mounts: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers:\n  - name: c\n    image: i\n{container}    volumeMounts: [{mounts}]\n  volumes:\n  - {{name: v, {volume}}}\n"
    )
}

#[test]
fn every_use_by_a_container_comes_with_its_volume_and_paths_are_expanded() {
    let env = "    env: [{name: WHO, value: me}]\n";
    let mounts = "{name: v, mountPath: /a, subPathExpr: x/$(WHO)}, {name: v, mountPath: /b, readOnly: true, recursiveReadOnly: IfPossible}, {name: v, mountPath: /c, subPath: ./y//z, mountPropagation: HostToContainer}";
    let desired = resolved(&with_uses("emptyDir: {}", env, mounts));
    let uses = &desired.volumes.first().unwrap().container_mounts;
    let paths: Vec<Option<&str>> = uses.iter().map(|used| used.sub_path.as_deref()).collect();
    assert_eq!(paths, [Some("x/me"), None, Some("y/z")]);
    assert_eq!(uses.iter().map(|used| used.index).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(
        uses.iter().map(|used| used.propagation.name()).collect::<Vec<_>>(),
        ["None", "None", "HostToContainer"]
    );
    // An expression that comes to nothing means the whole volume, as for the kubelet.
    let empty = resolved(&with_uses(
        "emptyDir: {}",
        "    env: [{name: WHO}]\n",
        "{name: v, mountPath: /a, subPathExpr: $(WHO)}",
    ));
    assert_eq!(empty.volumes.first().unwrap().container_mounts.first().unwrap().sub_path, None);
}

#[test]
fn an_expression_without_a_value_leaves_its_volume_unresolved() {
    let why = reason(&with_uses("emptyDir: {}", "", "{name: v, mountPath: /a, subPathExpr: $(WHO)}"));
    assert!(why.contains("spec.containers[0].volumeMounts[0].subPathExpr") && why.contains("variable WHO"), "{why}");
}

#[test]
fn two_volumes_of_one_folder_name_cannot_both_have_parts() {
    let text =
        with_claim("capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], shared: {handle: h}", "volumeName: pv")
            .replace("volumes:", "volumes:\n  - {name: pv, emptyDir: {}}")
            .replace("volumeMounts:", "volumeMounts:\n    - {name: pv, mountPath: /pv, subPath: x}");
    let desired = resolved(&text);
    let [unresolved] = desired.unresolved.as_slice() else { panic!("{:?}", desired.unresolved) };
    assert!(unresolved.reason.contains("both have the folder name pv"), "{}", unresolved.reason);
}

fn attachment(name: &str, fields: &str) -> String {
    format!("apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {{name: {name}}}\n{fields}\n")
}

/// What the VolumeAttachments of these texts say of the node `demo-node`, where a controller
/// attaches.
fn reported(texts: &[String]) -> AttachmentReport {
    let mut store = ObjectStore::new();
    store.apply(ObjectSource::Manifest, objects(&texts.join("---\n")), []);
    attachments_of("demo-node", &store, &Catalog, |_| false, true)
}

const OF_PV: &str = "attacher: test/shared, source: {persistentVolumeName: pv}";

#[test]
fn a_volume_attachment_says_of_which_volume_it_is_and_as_what_it_is_attached() {
    let volume = with_claim("shared: {handle: h1}", "volumeName: pv");
    let spec = format!("spec: {{nodeName: demo-node, {OF_PV}}}");
    let name = UniqueVolumeName::new("test/shared/h1").unwrap();
    let attached = attachment("va", &format!("{spec}\nstatus: {{attached: true, attachmentMetadata: {{lun: '4'}}}}"));
    let report = reported(&[volume.clone(), attached]);
    let one = report.attached.get(&name).unwrap();
    assert_eq!((one.attached_as.as_str(), one.metadata.get("lun").map(String::as_str)), ("va", Some("4")));
    assert!(report.failed.is_empty() && report.ignored.is_empty());

    let failed = "{attached: false, attachError: {message: no room, errorCode: 8}, detachError: {message: busy}}";
    let report = reported(&[volume.clone(), attachment("va", &format!("{spec}\nstatus: {failed}"))]);
    assert!(report.attached.is_empty());
    assert!(report.failed.get(&name).unwrap().contains("no room (ResourceExhausted"), "{report:?}");
    assert_eq!(report.not_detached.get(&name).map(String::as_str), Some("busy"));

    assert_eq!(
        reported(&[volume.clone(), attachment("va", &spec)]),
        AttachmentReport { complete: true, ..AttachmentReport::default() },
        "no pod has acted yet"
    );
}

#[test]
fn what_another_node_has_is_told_of_volumes_that_only_one_may_have() {
    let name = UniqueVolumeName::new("test/shared/h1").unwrap();
    let other = |status: &str| attachment("va", &format!("spec: {{nodeName: other, {OF_PV}}}\nstatus: {{{status}}}"));
    let volume = |mode: &str| with_claim(&format!("shared: {{handle: h1}}, accessModes: [{mode}]"), "volumeName: pv");
    let report = reported(&[volume("ReadWriteOnce"), other("attached: true")]);
    let why = report.other_node.get(&name).unwrap();
    assert!(why.contains("node other has it still") && why.contains("VolumeAttachment va"), "{why}");
    assert!(report.attached.is_empty() && report.failed.is_empty() && report.ignored.is_empty(), "{report:?}");
    for (mode, status) in [("ReadWriteMany", "attached: true"), ("ReadWriteOnce", "attached: false")] {
        let report = reported(&[volume(mode), other(status)]);
        assert_eq!(report, AttachmentReport { complete: true, ..AttachmentReport::default() }, "{mode} {status}");
    }
}

#[test]
fn while_not_every_manifest_was_read_what_is_missing_is_not_told() {
    let spec = format!("spec: {{nodeName: demo-node, {OF_PV}}}\nstatus: {{attached: true}}");
    let mut store = ObjectStore::new();
    store.apply(ObjectSource::Manifest, objects(&attachment("va", &spec)), []);
    let so_far = attachments_of("demo-node", &store, &Catalog, |_| false, false);
    assert_eq!(so_far, AttachmentReport { named: ["pv".to_owned()].into(), ..AttachmentReport::default() });
    let whole = attachments_of("demo-node", &store, &Catalog, |_| false, true);
    assert!(whole.ignored.contains_key("va"), "{whole:?}");
}

#[test]
fn a_volume_attachment_that_fits_nothing_is_left_out_with_the_reason() {
    let spec = format!("spec: {{nodeName: demo-node, {OF_PV}}}\nstatus: {{attached: true}}");
    let (shared, local) = ("shared: {handle: h1}", "local: {path: /x}");
    for (source, text, says) in [
        (
            shared,
            spec.replace("name: pv", "name: other").replace("Name: pv", "Name: other"),
            "there is no PersistentVolume other",
        ),
        (shared, spec.replace("test/shared", "csi.example"), "is of test/shared"),
        (local, spec.replace("test/shared", "test/local"), "are not attached"),
        (shared, spec.replace("{persistentVolumeName: pv}", "{inlineVolumeSpec: {}}"), "inlineVolumeSpec"),
    ] {
        let report = reported(&[with_claim(source, "volumeName: pv"), attachment("va", &text)]);
        assert!(report.attached.is_empty(), "{text}");
        assert!(report.ignored.get("va").is_some_and(|why| why.contains(says)), "{says}: {report:?}");
        assert_eq!(report.named.is_empty(), text.contains("inlineVolumeSpec"), "{report:?}");
    }
    let mut store = ObjectStore::new();
    let texts = [with_claim(shared, "volumeName: pv"), attachment("va", &spec)].join("---\n");
    store.apply(ObjectSource::Manifest, objects(&texts), []);
    let report = attachments_of("demo-node", &store, &Catalog, |_| true, true);
    assert!(
        report.attached.is_empty() && report.ignored.get("va").is_some_and(|why| why.contains("attaches")),
        "{report:?}"
    );
}

const CONTEXT: &str = "system_u:object_r:container_file_t:s0";

/// What comes of the labels of a pod with two containers, `a` and `b`, that share a volume: the
/// label it is mounted with, or the reason why it is not.
fn label_of(
    modes: &str,
    source: &str,
    policy: &str,
    pod: &str,
    a: &str,
    b: &str,
    context: Option<&str>,
) -> Result<Option<String>, String> {
    let options = |level: &str| match level {
        "" => String::new(),
        "partial" => "{seLinuxOptions: {type: t}}".to_owned(),
        level => format!("{{seLinuxOptions: {{user: u, role: r, type: t, level: '{level}'}}}}"),
    };
    let container = |name: &str, level: &str| {
        let security = if level.is_empty() { "{}".to_owned() } else { options(level) };
        format!("  - {{name: {name}, securityContext: {security}, volumeMounts: [{{name: v, mountPath: /v}}]}}\n")
    };
    let of_pod = match (pod, policy) {
        ("", "") => "{}".to_owned(),
        ("", policy) => format!("{{seLinuxChangePolicy: {policy}}}"),
        (level, "") => options(level),
        (level, policy) => options(level).replacen('{', &format!("{{seLinuxChangePolicy: {policy}, "), 1),
    };
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  securityContext: {of_pod}\n  containers:\n{}{}  volumes:\n  - {{name: v, persistentVolumeClaim: {{claimName: c}}}}\n",
        container("a", a),
        container("b", b)
    );
    let objects_of_claim = with_claim(&format!("{source}, accessModes: {modes}"), "volumeName: pv");
    let (_, claim) = objects_of_claim.split_once("---\n").unwrap();
    let mut store = ObjectStore::new();
    store.apply(ObjectSource::Manifest, objects(&format!("{manifest}---\n{claim}")), []);
    let pod = store.pod(&ObjectKey::new(Kind::Pod, "default", "a")).unwrap();
    let desired = resolve(pod, &store, &Catalog, &node().with_selinux(context.map(str::to_owned)));
    match (desired.volumes.first(), desired.unresolved.first()) {
        (Some(volume), None) => Ok(volume.spec.selinux_label.clone()),
        (None, Some(unresolved)) => Err(unresolved.reason.clone()),
        both => panic!("{both:?}"),
    }
}

#[test]
fn the_label_of_one_pods_volume_comes_from_containers_policy_access_mode_and_plugin() {
    const SHARED: &str = "shared: {handle: h1}";
    const ONCE: &str = "[ReadWriteOncePod]";
    const MANY: &str = "[ReadWriteMany]";
    const ONE: &str = "s0:c1";
    let label = |level: &str| Some(format!("u:object_r:container_file_t:{level}"));
    let table = [
        // access modes, source, policy, options of the pod, of container a, of container b,
        // SELinux, label
        (ONCE, SHARED, "", ONE, "", "", Some(CONTEXT), label(ONE)),
        (ONCE, SHARED, "MountOption", ONE, "", "", Some(CONTEXT), label(ONE)),
        (ONCE, SHARED, "Recursive", ONE, "", "", Some(CONTEXT), None),
        (MANY, SHARED, "", ONE, "", "", Some(CONTEXT), None),
        (MANY, SHARED, "MountOption", ONE, "", "", Some(CONTEXT), label(ONE)),
        (MANY, SHARED, "Recursive", ONE, "", "", Some(CONTEXT), None),
        (ONCE, SHARED, "", "", ONE, ONE, Some(CONTEXT), label(ONE)),
        (ONCE, SHARED, "", "s0:c9", ONE, ONE, Some(CONTEXT), label(ONE)),
        (ONCE, SHARED, "", "partial", "", "", Some(CONTEXT), None),
        (ONCE, SHARED, "", "", "", "", Some(CONTEXT), None),
        (ONCE, "local: {path: /x}", "MountOption", ONE, "", "", Some(CONTEXT), None),
        (ONCE, SHARED, "", ONE, "", "", None, None),
        (MANY, SHARED, "MountOption", ONE, "", "", None, None),
        (ONCE, &format!("{SHARED}, volumeMode: Filesystem"), "", ONE, "", "", Some(CONTEXT), label(ONE)),
    ];
    for (modes, source, policy, pod, a, b, context, expected) in table {
        let found = label_of(modes, source, policy, pod, a, b, context);
        assert_eq!(found, Ok(expected), "{modes} {source} {policy:?} {pod:?} {a:?} {b:?} {context:?}");
    }
}

#[test]
fn containers_that_need_different_labels_cannot_share_a_volume_that_has_one() {
    let of = |modes: &str, policy: &str, a: &str, b: &str| {
        label_of(modes, "shared: {handle: h1}", policy, "", a, b, Some(CONTEXT))
    };
    for (a, b) in [("s0:c1", "s0:c2"), ("s0:c1", ""), ("", "s0:c1"), ("s0:c1", "partial")] {
        for (modes, policy) in [("[ReadWriteOncePod]", ""), ("[ReadWriteMany]", "MountOption")] {
            let why = of(modes, policy, a, b).unwrap_err();
            assert!(why.contains("different SELinux labels") && why.contains("s0:c1"), "{why}");
        }
        assert_eq!(of("[ReadWriteOncePod]", "Recursive", a, b), Ok(None));
        assert_eq!(of("[ReadWriteMany]", "", a, b), Ok(None));
    }
}

/// A pod that uses the claim `c`, with a label and perhaps a policy.
fn labelled_pod(name: &str, level: &str, policy: &str) -> String {
    let policy = if policy.is_empty() { String::new() } else { format!("seLinuxChangePolicy: {policy}, ") };
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  securityContext: {{{policy}seLinuxOptions: {{level: '{level}'}}}}\n  containers:\n  - {{name: a, volumeMounts: [{{name: v, mountPath: /v}}]}}\n  volumes:\n  - {{name: v, persistentVolumeClaim: {{claimName: c}}}}\n"
    )
}

fn counts_of(modes: &str, source: &str, pods: &[String], context: Option<&str>) -> SelinuxCounts {
    let objects_of_claim = with_claim(&format!("{source}, accessModes: {modes}"), "volumeName: pv");
    let (_, claim) = objects_of_claim.split_once("---\n").unwrap();
    let mut store = ObjectStore::new();
    store.apply(ObjectSource::Manifest, objects(&format!("{}---\n{claim}", pods.join("---\n"))), []);
    selinux_counts(&store, &Catalog, &node().with_selinux(context.map(str::to_owned)))
}

#[test]
fn labels_that_differ_are_errors_where_they_are_enforced_and_warnings_where_not() {
    const SHARED: &str = "shared: {handle: h1}";
    const MANY: &str = "[ReadOnlyMany, ReadWriteMany]";
    let key = |mode| (PluginName::new("test/shared").unwrap(), mode);
    let two = |policy: &str| [labelled_pod("a", "s0:c1", policy), labelled_pod("b", "s0:c2", policy)];
    let nothing = SelinuxCounts::default;
    let enforced = counts_of(MANY, SHARED, &two("MountOption"), Some(CONTEXT));
    assert_eq!(enforced, SelinuxCounts { volume_errors: [(key("RWX"), 1)].into(), ..nothing() });
    let recursive = counts_of(MANY, SHARED, &two("Recursive"), Some(CONTEXT));
    assert_eq!(recursive, SelinuxCounts { volume_warnings: [(key("RWX"), 1)].into(), ..nothing() });
    let same = [labelled_pod("a", "s0:c1", "MountOption"), labelled_pod("b", "s0:c1", "MountOption")];
    let admitted = SelinuxCounts { admitted: [(key("RWO"), 1)].into(), ..nothing() };
    assert_eq!(counts_of("[ReadWriteOnce]", SHARED, &same, Some(CONTEXT)), admitted);
    let one = [labelled_pod("a", "s0:c1", "")];
    let admitted = SelinuxCounts { admitted: [(key("RWOP"), 1)].into(), ..nothing() };
    assert_eq!(counts_of("[ReadWriteOncePod]", SHARED, &one, Some(CONTEXT)), admitted);
    assert_eq!(counts_of(MANY, SHARED, &one, Some(CONTEXT)), nothing(), "mounted without a label, and no pod differs");
    assert_eq!(counts_of(MANY, SHARED, &two("MountOption"), None), nothing(), "a node without SELinux");
    assert_eq!(
        counts_of(MANY, "local: {path: /x}", &two("MountOption"), Some(CONTEXT)),
        nothing(),
        "a plugin without labels"
    );

    let container = "  - {name: b, securityContext: {seLinuxOptions: {level: 's0:c9'}}, volumeMounts: [{name: v, mountPath: /v}]}\n  volumes:";
    for (policy, errors, warnings) in [("MountOption", 1, 0), ("Recursive", 0, 1)] {
        let mixed = [labelled_pod("a", "s0:c1", policy).replace("  volumes:", container)];
        let counts = counts_of(MANY, SHARED, &mixed, Some(CONTEXT));
        let count = |counted: &std::collections::BTreeMap<&str, u64>| counted.get("RWX").copied().unwrap_or_default();
        assert_eq!((count(&counts.pod_errors), count(&counts.pod_warnings)), (errors, warnings), "{policy}");
        assert!(counts.admitted.is_empty() && counts.volume_errors.is_empty());
    }
}
