//! Volumes of former in-tree sources.

use std::collections::BTreeMap;
use std::sync::Arc;

use volhost_core::{DesiredPod, DesiredVolume};
use volhost_model::{PluginName, VolumeSpec};

use crate::populate::attachments::{AttachmentReport, attachments_of};
use crate::populate::{NoChoice, NodeIdentity, PluginCatalog, PluginChoice, resolve};
use crate::tests::{objects, pod_with, refusal};
use crate::{Kind, ObjectContent, ObjectKey, ObjectSource, ObjectStore, references};

/// A node with the CSI plugin, which knows every driver but one.
struct Catalog;

impl PluginCatalog for Catalog {
    fn choose(&self, spec: &Arc<VolumeSpec>) -> Result<PluginChoice, NoChoice> {
        let part = |field| spec.parameter(field).unwrap_or_default();
        let (driver, handle) = (part("driver"), part("volumeHandle"));
        if spec.source != "csi" || driver == "cinder.csi.openstack.org" {
            return Err(format!("no loaded plugin serves the volume source {:?}", spec.source).into());
        }
        Ok(PluginChoice {
            plugin: PluginName::new("kubernetes.io/csi").map_err(|e| e.to_string())?,
            unique_shared_name: Some(format!("{driver}^{handle}")),
            attachable: true,
            stageable: true,
            follows_source: false,
            read_only: false,
            expandable: false,
            selinux_mount: false,
            attach_limit: None,
            attach_limit_of: None,
            refreshed: false,
            accepts_mount_options: true,
            needs: Vec::new(),
        })
    }
}

fn store(text: &str) -> ObjectStore {
    let mut store = ObjectStore::new();
    store.apply(ObjectSource::Manifest, objects(text), []);
    store
}

fn resolved(text: &str) -> DesiredPod {
    let labels = BTreeMap::from([("topology.ebs.csi.aws.com/zone".to_owned(), "us-east-1a".to_owned())]);
    let (store, node) = (store(text), NodeIdentity::new("demo-node", labels));
    let pod = store.pod(&ObjectKey::new(Kind::Pod, "default", "a")).unwrap();
    resolve(pod, &store, &Catalog, &node)
}

fn volume(text: &str) -> DesiredVolume {
    let desired = resolved(text);
    desired.volumes.into_iter().next().unwrap_or_else(|| panic!("{:?}", desired.unresolved))
}

fn reason(text: &str) -> String {
    resolved(text).unresolved.into_iter().next().unwrap().reason
}

/// A pod, its claim, and the claim's volume with these metadata and this spec.
fn with_claim(metadata: &str, volume: &str) -> String {
    let pod = pod_with("a", "persistentVolumeClaim: {claimName: c}");
    format!(
        "{pod}---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: pv{metadata}}}\nspec: {{accessModes: [ReadWriteOnce], {volume}}}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: c}}\nspec: {{volumeName: pv, accessModes: [ReadWriteOnce]}}\n"
    )
}

#[test]
fn each_former_in_tree_source_is_served_by_its_csi_driver() {
    for (source, name) in [
        ("awsElasticBlockStore: {volumeID: vol-1}", "ebs.csi.aws.com^vol-1"),
        ("azureDisk: {diskName: d, diskURI: /subscriptions/s/d}", "disk.csi.azure.com^/subscriptions/s/d"),
        ("azureFile: {shareName: share, secretName: login}", "file.csi.azure.com^#login#share#NAME#default"),
        ("gcePersistentDisk: {pdName: d}", "pd.csi.storage.gke.io^projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ("portworxVolume: {volumeID: '12'}", "pxd.portworx.com^12"),
        ("vsphereVolume: {volumePath: '[s] d.vmdk'}", "csi.vsphere.vmware.com^[s] d.vmdk"),
    ] {
        let name = |of: &str| format!("kubernetes.io/csi/{}", name.replace("NAME", of));
        let by_claim = volume(&with_claim("", source));
        assert_eq!(by_claim.unique_name.as_str(), name("pv"), "{source}");
        assert_eq!(by_claim.spec.source, "csi");
        assert_eq!(by_claim.spec.persistent_volume.as_ref().map(|pv| pv.claim.as_str()), Some("default/c"));
        let inline = volume(&pod_with("a", source));
        assert_eq!(inline.unique_name.as_str(), name("v"), "{source}");
        assert!(inline.attachable && inline.stageable && inline.spec.name.as_str() == "v");
    }
}

#[test]
fn a_volume_without_its_driver_is_told_with_the_drivers_name() {
    let cinder = "cinder: {volumeID: b8}";
    let (by_claim, inline) = (reason(&with_claim("", cinder)), reason(&pod_with("a", cinder)));
    let driver = "is of the source cinder, which the CSI driver cinder.csi.openstack.org serves: no loaded plugin";
    assert!(by_claim.starts_with(&format!("PersistentVolume pv {driver}")), "{by_claim}");
    assert!(inline.starts_with(&format!("volume v of the pod {driver}")), "{inline}");
    // Kubernetes removed them, or never had them: nobody is named.
    for source in ["rbd: {image: i, monitors: [m]}", "cephfs: {monitors: [m]}", "other: {}"] {
        let words = reason(&pod_with("a", source));
        assert!(words.starts_with("no loaded plugin serves the volume source"), "{words}");
    }
}

#[test]
fn a_value_that_no_driver_could_use_is_told_with_file_line_and_field() {
    let dedicated = "azureDisk: {diskName: d, diskURI: u, kind: Dedicated}";
    let words = reason(&with_claim("", dedicated));
    assert!(
        words.contains("test.yaml:16: spec of PersistentVolume pv cannot be served by the CSI driver disk.csi.azure.com: azureDisk.kind: "),
        "{words}"
    );
    let words = reason(&pod_with("a", "gcePersistentDisk: {pdName: ../x}"));
    assert!(words.starts_with("test.yaml:10: spec.volumes[0] (volume \"v\") cannot be served"), "{words}");
    assert!(words.contains("gcePersistentDisk.pdName: "), "{words}");
    let several = reason(&with_claim("", "cinder: {volumeID: x}, nfs: {server: s, path: /}"));
    assert!(several.contains("has 2 sources (cinder, nfs)"), "{several}");
}

#[test]
fn zones_are_those_of_the_driver() {
    let source = "awsElasticBlockStore: {volumeID: vol-1}";
    let zone = |zone: &str| format!(", labels: {{topology.kubernetes.io/zone: {zone}}}");
    assert_eq!(resolved(&with_claim(&zone("us-east-1a"), source)).volumes.len(), 1);
    let words = reason(&with_claim(&zone("us-east-1b"), source));
    assert!(words.contains("nodes where topology.ebs.csi.aws.com/zone in (us-east-1b)"), "{words}");
    let affinity = format!(
        "{source}, nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [{{key: failure-domain.beta.kubernetes.io/zone, operator: In, values: [us-east-1b]}}]}}]}}}}"
    );
    let words = reason(&with_claim("", &affinity));
    assert!(words.contains("topology.ebs.csi.aws.com/zone in (us-east-1b)"), "{words}");
}

#[test]
fn access_modes_and_read_only_reach_the_driver() {
    let disk = with_claim("", "gcePersistentDisk: {pdName: d, readOnly: true}");
    assert!(volume(&disk).spec.read_only);
    // The plugin took it for one that one node writes.
    let shared = disk.replace("[ReadWriteOnce], gce", "[ReadWriteMany, ReadWriteOnce], gce");
    assert_eq!(volume(&shared).spec.persistent_volume.as_ref().unwrap().access_modes, ["ReadWriteOnce"]);
    let portworx = volume(&with_claim("", "portworxVolume: {volumeID: x, readOnly: true}"));
    assert!(portworx.spec.read_only);
}

#[test]
fn its_secret_is_one_of_the_claims_namespace_or_of_the_pods() {
    let share = "azureFile: {shareName: share, secretName: login}";
    let secret = ObjectKey::new(Kind::Secret, "default", "login");
    let pod = objects(&pod_with("a", share));
    assert!(references::of(&pod[0]).contains(&secret));
    let inline = volume(&pod_with("a", share));
    assert_eq!(inline.spec.parameter("nodeStageSecretRef.namespace").as_deref(), Some("default"));
    let bound = with_claim("", &format!("{share}, claimRef: {{namespace: default, name: c}}"));
    let of_volume = objects(&bound).into_iter().find(|object| object.key.kind == Kind::PersistentVolume).unwrap();
    assert!(references::of(&of_volume).contains(&secret));
    let volume = volume(&with_claim("", share));
    assert_eq!(volume.spec.parameter("nodeStageSecretRef.namespace").as_deref(), Some("default"));
    let escaping = reason(&pod_with("a", "azureFile: {shareName: share, secretName: ../other/login}"));
    assert!(escaping.contains("azureFile.secretName: "), "{escaping}");
}

#[test]
fn annotations_that_belong_to_the_source_are_read() {
    let share = "azureFile: {shareName: share, secretName: login}";
    let group = ", annotations: {kubernetes.io/azure-file-resource-group: rg}";
    let name = volume(&with_claim(group, share)).unique_name;
    assert_eq!(name.as_str(), "kubernetes.io/csi/file.csi.azure.com^rg#login#share#pv#default");
    let login = ", annotations: {openstorage.io/auth-secret-name: login, openstorage.io/auth-secret-namespace: kept}";
    let volume = volume(&with_claim(login, "portworxVolume: {volumeID: x}"));
    assert_eq!(volume.spec.parameter("nodePublishSecretRef.namespace").as_deref(), Some("kept"));
}

#[test]
fn an_attachment_may_describe_a_pods_own_volume() {
    let source = "csi: {driver: pd.csi.storage.gke.io, volumeHandle: projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d}";
    let attachment = |attacher: &str, source: &str| {
        format!(
            "apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {{name: va}}\nspec: {{nodeName: demo-node, attacher: {attacher}, source: {{inlineVolumeSpec: {{accessModes: [ReadWriteOnce], {source}}}}}}}\nstatus: {{attached: true}}\n"
        )
    };
    let report =
        |text: &str| -> AttachmentReport { attachments_of("demo-node", &store(text), &Catalog, |_| false, true) };
    let told = report(&attachment("pd.csi.storage.gke.io", source));
    let inline = volume(&pod_with("a", "gcePersistentDisk: {pdName: d}"));
    assert!(told.attached.contains_key(&inline.unique_name), "{told:?}");
    let other = report(&attachment("ebs.csi.aws.com", source));
    assert!(other.ignored.get("va").is_some_and(|why| why.contains("spec.attacher is")), "{other:?}");
    let no_csi = report(&attachment("pd.csi.storage.gke.io", "gcePersistentDisk: {pdName: d}"));
    assert!(no_csi.ignored.get("va").is_some_and(|why| why.contains("inlineVolumeSpec has no csi")), "{no_csi:?}");
}

#[test]
fn a_class_of_a_plugin_is_one_of_its_driver() {
    let head = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\n";
    let text = format!("{head}provisioner: kubernetes.io/gce-pd\nparameters: {{type: pd-ssd, fstype: xfs, zone: a}}\n");
    let all = objects(&text);
    let ObjectContent::StorageClass(class) = &all[0].content else { panic!("{all:?}") };
    assert_eq!(class.provisioner.as_deref(), Some("pd.csi.storage.gke.io"));
    assert_eq!(class.parameters.fs_type.as_deref(), Some("xfs"));
    assert_eq!(class.parameters.own, BTreeMap::from([("type".to_owned(), "pd-ssd".to_owned())]));
    let place = BTreeMap::from([("topology.gke.io/zone".to_owned(), vec!["a".to_owned()])]);
    assert_eq!(class.places, [place]);
    let twice = format!("{head}provisioner: kubernetes.io/gce-pd\nparameters: {{zone: a, zones: b}}\n");
    assert!(refusal(&twice).contains("parameters.zone: "), "{}", refusal(&twice));
}
